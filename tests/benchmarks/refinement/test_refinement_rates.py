"""The offline actors err as often as they are told to, and always in the same way."""

import random

import pytest

from benchmarks.refinement.actors import (
    THRESHOLD,
    Eye,
    Judge,
    Mender,
    Rates,
    Writer,
    at,
    first_state,
    mended,
)
from benchmarks.refinement.measure import Job, records_of
from benchmarks.refinement.play import Play, gain_of_more, looks, play
from benchmarks.refinement.problem import FEWEST, MOST, Problem, problems
from jeeves_reflexion import Attempt, Draft, Evaluation, RevisionRequest, Session
from jeeves_reflexion.statistics import wilson

PROBLEMS = problems(40, (0,))
PROBLEM = PROBLEMS[0]


def close(successes: int, n: int, rate: float) -> bool:
    """Whether a share is as a rate would have it: within an interval that one in 10,000 misses."""
    share = wilson(successes, n, z=3.9)
    return share.low <= rate <= share.high


def test_the_writer_is_right_as_often_as_set():
    states = [first_state(problem, Rates(right=0.7)) for problem in problems(300, (0,))]
    assert close(sum(map(sum, states)), sum(map(len, states)), 0.7)


@pytest.mark.parametrize("fixed", [0.0, 1.0])
def test_the_judge_misses_and_invents_as_often_as_set(fixed):
    missed, invented, broken, sound = 0, 0, 0, 0
    for problem in problems(400, (0,)):
        state = first_state(problem, Rates(right=0.5))
        seen, _ = Eye(problem, Rates(miss=0.2, alarm=0.1, fixed=fixed)).look(state, random.Random(problem.id))
        missed += sum(s and not h for s, h in zip(seen, state, strict=True))
        invented += sum(h and not s for s, h in zip(seen, state, strict=True))
        sound += sum(state)
        broken += len(state) - sum(state)
    assert close(missed, broken, 0.2)
    assert close(invented, sound, 0.1)


def test_the_score_is_what_seems_to_hold_with_noise_of_the_set_spread():
    problem = PROBLEM
    eye = Eye(problem, Rates(noise=0.05))
    chance = random.Random(1)
    state = (False, *(True,) * (len(problem.weights) - 1))
    errors = [eye.look(state, chance)[1] - problem.worth(state) for _ in range(4000)]
    assert abs(sum(errors) / 4000) < 0.005
    assert (sum(error**2 for error in errors) / 4000) ** 0.5 == pytest.approx(0.05, rel=0.06)


def test_the_reviser_fails_and_breaks_as_often_as_set():
    chance = random.Random(2)
    rates = Rates(fail=0.3, breaks=0.1)
    told = [mended((False, True, True), {0, 1}, rates, chance) for _ in range(4000)]
    assert close(sum(not state[0] for state in told), 4000, 0.3)
    assert close(sum(not state[1] for state in told), 4000, 0.3)
    assert close(sum(not state[2] for state in told), 4000, 0.1)
    assert mended((False, True), set(), Rates(), chance) == (False, True)


@pytest.mark.anyio
async def test_a_text_judged_again_is_judged_anew_unless_errors_are_fixed():
    problem = PROBLEM
    text = problem.write((True,) * len(problem.weights))
    afresh = await looks(problem, Rates(alarm=0.3, noise=0.0), Play(), text)
    fixed = await looks(problem, Rates(alarm=0.3, noise=0.0, fixed=1.0), Play(), text)
    steady = await looks(problem, Rates(noise=0.0), Play(), text)
    assert len(set(afresh)) > 1
    assert len(set(fixed)) == 1
    assert steady == [1.0] * 5


@pytest.mark.anyio
async def test_the_actors_speak_through_texts_and_issues_alone():
    problem = PROBLEM
    task = problem.task
    draft = await Writer(problem, Rates(right=0.0))(task, Session())
    assert not any(problem.state(draft.output))
    verdict = await Judge(problem, Rates(noise=0.0))(task, draft)
    assert (verdict.score, verdict.passed) == (0.0, False)
    assert problem.places_named(verdict.issues) == frozenset(range(len(problem.weights)))
    one = Evaluation(0.0, issues=verdict.issues[:1])
    revision = await Mender(problem, Rates())(task, RevisionRequest(Draft(1, draft.output, one), one))
    assert problem.state(revision.output) == (True, *(False,) * (len(problem.weights) - 1))
    rest = await Judge(problem, Rates(noise=0.0))(task, Attempt(revision.output))
    assert len(rest.issues) == len(problem.weights) - 1


@pytest.mark.anyio
async def test_without_errors_the_loop_ends_at_full_quality_after_one_revision():
    record = await play(PROBLEM, Rates(right=0.0, noise=0.0), Play())
    assert [draft.quality for draft in record.drafts] == [0.0, 1.0]
    assert (record.returned, record.further) == (2, 0.0)


@pytest.mark.anyio
async def test_a_veto_goes_on_where_the_overall_score_is_content():
    problem = next(
        one for one in problems(200, (5,)) if THRESHOLD <= one.worth(first_state(one, Rates())) < 1.0
    )
    rates = Rates(noise=0.0)
    assert len((await play(problem, rates, Play(veto=False))).drafts) == 1
    assert len((await play(problem, rates, Play(veto=True))).drafts) == 2


def test_runs_depend_on_their_problem_alone():
    rates = at(0.2, 0.2)
    whole = records_of(Job(PROBLEMS[:8], rates))
    parts = [*records_of(Job(PROBLEMS[4:8], rates)), *records_of(Job(PROBLEMS[:4], rates))]
    assert whole == [*parts[4:], *parts[:4]]


def test_worse_judges_and_revisers_start_from_the_same_drafts():
    fine, poor = records_of(Job(PROBLEMS, at(0.0, 0.0))), records_of(Job(PROBLEMS, at(0.3, 0.3)))
    assert [one.drafts[0].state for one in fine] == [one.drafts[0].state for one in poor]
    assert sum(one.best.quality for one in fine) > sum(one.best.quality for one in poor) + 4


def test_more_revisions_are_worth_what_they_would_mend():
    problem = Problem("halves", (1.0, 1.0))
    assert gain_of_more(problem, Rates(noise=0.0), (False, True)) == 0.5
    assert gain_of_more(problem, Rates(noise=0.0), (True, True)) == 0.0
    assert gain_of_more(problem, Rates(noise=0.0, fail=1.0), (False, True)) == 0.0


def test_a_text_says_its_state_and_each_fault_lowers_its_quality_by_its_weight():
    for problem in PROBLEMS:
        count = len(problem.weights)
        assert FEWEST <= count <= MOST
        for place, weight in enumerate(problem.weights):
            state = tuple(other != place for other in range(count))
            assert problem.state(problem.write(state)) == state
            assert problem.worth(state) == pytest.approx(1 - weight / sum(problem.weights))
    assert not any(PROBLEM.state(""))
    assert len({each.id for each in problems(6, (0, 1))}) == 12
