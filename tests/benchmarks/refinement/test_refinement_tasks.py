"""The tasks: a requirement holds of a text just where it should, and the oracle counts right."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.refinement import repair, reports, writing
from benchmarks.refinement.problem import FEWEST, MOST, Problem
from benchmarks.refinement.tasks import FAMILIES, keys, problem_of

problems = st.builds(
    lambda seed, number: problem_of((seed, number)), st.integers(0, 10_000), st.integers(0, 100)
)


@settings(max_examples=60, deadline=None)
@given(problems)
def test_a_perfect_text_has_quality_one_and_each_fault_alone_lowers_it(problem):
    count = len(problem.requirements)
    assert FEWEST <= count <= MOST
    assert problem.quality(problem.write((True,) * count)) == 1.0
    total = sum(one.weight for one in problem.requirements)
    for place, requirement in enumerate(problem.requirements):
        state = tuple(other != place for other in range(count))
        assert problem.state(problem.write(state)) == state
        assert problem.quality(problem.write(state)) == pytest.approx(1 - requirement.weight / total)


@settings(max_examples=100, deadline=None)
@given(problems, st.data())
def test_any_state_can_be_written_and_is_read_again(problem, data):
    state = tuple(data.draw(st.booleans()) for _ in problem.requirements)
    assert problem.state(problem.write(state)) == state


@settings(max_examples=30, deadline=None)
@given(problems, st.text(max_size=40))
def test_the_oracle_reads_anything_and_nothing_is_worth_nothing(problem, text):
    assert 0.0 <= problem.quality(text) <= 1.0
    assert problem.quality("") == 0.0


@settings(max_examples=30, deadline=None)
@given(problems)
def test_the_task_tells_all_that_is_required_and_no_answer(problem):
    assert all(one.description in problem.prompt for one in problem.requirements)
    assert problem.task.reference is None
    assert not problem.task.metadata
    assert problem.write((True,) * len(problem.requirements)) not in problem.prompt


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_made_by_its_seed_and_uses_all_its_requirements(family):
    made = [FAMILIES[family](f"p{seed}", random.Random(seed)) for seed in range(60)]
    again = FAMILIES[family]("p7", random.Random(7))
    assert (again.prompt, again.names) == (made[7].prompt, made[7].names)
    assert len({one.prompt for one in made}) > 50
    assert len({name for one in made for name in one.names}) >= 9
    assert {len(one.requirements) for one in made} == set(range(FEWEST, MOST + 1))


def test_families_take_turns_and_no_problem_comes_twice():
    made = [problem_of(key) for key in keys(6, (0, 1))]
    assert [one.family for one in made[:3]] == [writing.FAMILY, repair.FAMILY, reports.FAMILY]
    assert len({one.id for one in made}) == len({one.prompt for one in made}) == 12


def find(family: str, name: str) -> Problem:
    """Return a problem of a family with a requirement."""
    made = (FAMILIES[family](f"p{seed}", random.Random(seed)) for seed in range(50))
    return next(one for one in made if name in one.names)


def holds(problem: Problem, name: str, text: str) -> bool:
    return problem.state(text)[problem.names.index(name)]


def test_a_repaired_document_may_stand_in_a_fence_and_be_written_otherwise():
    problem = find("repair", "total")
    right = problem.write((True,) * len(problem.requirements))
    assert problem.quality(f"Here it is:\n```json\n{right}\n```") == 1.0
    assert problem.quality(right.replace("\n", "").replace("  ", "")) == 1.0
    assert problem.quality(right[: len(right) // 2]) == 0.0


def test_a_report_with_two_answers_to_one_question_has_none():
    problem = find("reports", "total")
    right = problem.write((True,) * len(problem.requirements))
    line = next(line for line in right.splitlines() if line.startswith("Total"))
    assert holds(problem, "total", right.replace(line, f"- **{line.replace(':', ':**')}"))
    assert not holds(problem, "total", f"{right}\nTotal: 1")


def test_a_date_within_a_notice_ends_no_sentence():
    problem = find("writing", "sentences")
    right = problem.write((True,) * len(problem.requirements))
    assert holds(problem, "sentences", right)
    assert not holds(problem, "sentences", f"{right} Come.")
    assert not holds(problem, "sentences", right.replace(". ", ", ", 1))
