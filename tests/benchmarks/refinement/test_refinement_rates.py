"""The offline actors err as often as they are told to, and always in the same way."""

import random

import pytest

from benchmarks.refinement.actors import Judge, Mender, Writer, places_named
from benchmarks.refinement.grid import Job, records_of
from benchmarks.refinement.play import Play, gain_of_more, looks, play
from benchmarks.refinement.problem import Problem, Requirement
from benchmarks.refinement.rates import Eye, Rates, at, first_state, mended
from benchmarks.refinement.record import good, spread_of
from benchmarks.refinement.tasks import keys, problem_of
from jeeves_reflexion import Attempt, Draft, Evaluation, RevisionRequest, Session
from jeeves_reflexion.statistics import wilson

KEYS = tuple(keys(40, (0,)))


def close(successes: int, n: int, rate: float) -> bool:
    """Whether a share is as a rate would have it: within an interval that one in 10,000 misses."""
    share = wilson(successes, n, z=3.9)
    return share.low <= rate <= share.high


def test_the_writer_is_right_as_often_as_set():
    states = [first_state(problem_of(key), Rates(right=0.7)) for key in keys(300, (0,))]
    assert close(sum(map(sum, states)), sum(map(len, states)), 0.7)


@pytest.mark.parametrize("fixed", [0.0, 1.0])
def test_the_judge_misses_and_invents_as_often_as_set(fixed):
    missed, invented, broken, sound = 0, 0, 0, 0
    for key in keys(400, (0,)):
        problem = problem_of(key)
        state = first_state(problem, Rates(right=0.5))
        seen, _ = Eye(problem, Rates(miss=0.2, alarm=0.1, fixed=fixed)).look(state, random.Random(problem.id))
        missed += sum(s and not h for s, h in zip(seen, state, strict=True))
        invented += sum(h and not s for s, h in zip(seen, state, strict=True))
        sound += sum(state)
        broken += len(state) - sum(state)
    assert close(missed, broken, 0.2)
    assert close(invented, sound, 0.1)


def test_the_score_is_what_seems_to_hold_with_noise_of_the_set_spread():
    problem = problem_of((0, 0))
    eye = Eye(problem, Rates(noise=0.05))
    chance = random.Random(1)
    state = (False, *(True,) * (len(problem.requirements) - 1))
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
    problem = problem_of((0, 0))
    text = problem.write((True,) * len(problem.requirements))
    afresh = await looks(problem, Rates(alarm=0.3, noise=0.0), Play(), text)
    fixed = await looks(problem, Rates(alarm=0.3, noise=0.0, fixed=1.0), Play(), text)
    steady = await looks(problem, Rates(noise=0.0), Play(), text)
    assert spread_of(afresh) > 0
    assert spread_of(fixed) == 0
    assert steady == [1.0] * 5


@pytest.mark.anyio
async def test_the_actors_speak_through_texts_and_issues_alone():
    problem = problem_of((0, 1))
    task = problem.task
    draft = await Writer(problem, Rates(right=0.0))(task, Session())
    assert problem.quality(draft.output) == 0.0
    verdict = await Judge(problem, Rates(noise=0.0))(task, draft)
    assert (verdict.score, verdict.passed) == (0.0, False)
    assert places_named(problem, verdict.issues) == frozenset(range(len(problem.requirements)))
    one = Evaluation(0.0, issues=verdict.issues[:1])
    revision = await Mender(problem, Rates())(task, RevisionRequest(Draft(1, draft.output, one), one))
    assert problem.state(revision.output) == (True, *(False,) * (len(problem.requirements) - 1))
    rest = await Judge(problem, Rates(noise=0.0))(task, Attempt(revision.output))
    assert len(rest.issues) == len(problem.requirements) - 1


@pytest.mark.anyio
async def test_without_errors_the_loop_ends_at_full_quality_after_one_revision():
    problem = problem_of((3, 2))
    record = await play(problem, Rates(right=0.0, noise=0.0), Play())
    assert [draft.quality for draft in record.drafts] == [0.0, 1.0]
    assert (record.reason, record.returned, record.further) == ("quality_met", 2, 0.0)


@pytest.mark.anyio
async def test_a_veto_goes_on_where_the_overall_score_is_content():
    problem = next(
        one
        for one in (problem_of(key) for key in keys(200, (5,)))
        if good(one.worth(first_state(one, Rates()))) and not all(first_state(one, Rates()))
    )
    rates = Rates(noise=0.0)
    assert len((await play(problem, rates, Play(veto=False))).drafts) == 1
    assert len((await play(problem, rates, Play(veto=True))).drafts) == 2


def test_runs_depend_on_their_problem_alone():
    rates = at(0.2, 0.2)
    whole = records_of(Job(KEYS[:8], rates))
    parts = [*records_of(Job(KEYS[4:8], rates)), *records_of(Job(KEYS[:4], rates))]
    assert whole == [*parts[4:], *parts[:4]]


def test_worse_judges_and_revisers_start_from_the_same_drafts():
    fine, poor = records_of(Job(KEYS, at(0.0, 0.0))), records_of(Job(KEYS, at(0.3, 0.3)))
    assert [one.first.state for one in fine] == [one.first.state for one in poor]
    assert sum(one.best.quality for one in fine) > sum(one.best.quality for one in poor) + 4


def test_more_revisions_are_worth_what_they_would_mend():
    problem = two_halves()
    assert gain_of_more(problem, Rates(noise=0.0), (False, True)) == 0.5
    assert gain_of_more(problem, Rates(noise=0.0), (True, True)) == 0.0
    assert gain_of_more(problem, Rates(noise=0.0, fail=1.0), (False, True)) == 0.0


def two_halves() -> Problem:
    """A problem of two letters."""
    wanted = tuple(Requirement(letter, letter, lambda text, letter=letter: letter in text) for letter in "ab")

    def write(state):
        return "".join(letter for letter, held in zip("ab", state, strict=True) if held)

    return Problem("halves", "none", "a b", wanted, write)
