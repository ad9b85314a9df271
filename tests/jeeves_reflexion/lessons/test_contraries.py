"""A vague lesson takes in one of two that exclude each other, never both; and places are told apart on writing."""

from __future__ import annotations

import pytest

from jeeves_reflexion import Provenance, Reflection, Task
from jeeves_reflexion.lessons.deciding import decide
from jeeves_reflexion.lessons.sameness import Neighbour
from jeeves_reflexion.types import Lesson


def _lesson(id, text):
    return Lesson(id, text, "t", "a task", Provenance(f"run-{id}", 1, 0.0))


@pytest.mark.parametrize(
    ("vague", "one", "other"),
    [
        (
            "Use a copy of the nested list.",
            "Use a shallow copy of the nested list.",
            "Use a deep copy of the nested list.",
        ),
        (
            "Use a join for the orders.",
            "Use an inner join for the orders.",
            "Use an outer join for the orders.",
        ),
        (
            "Stick the label to the socket.",
            "Stick the label beside the socket.",
            "Stick the label behind the socket.",
        ),
    ],
)
def test_of_two_opposites_a_vague_lesson_takes_in_the_first_alone(vague, one, other):
    kept = decide(_lesson("b", one), [Neighbour(_lesson("a", vague), 1.0, 1.0)])
    assert kept.kind == "merge"
    assert decide(_lesson("c", other), [Neighbour(kept.lesson, 1.0, 1.0)]).kind != "merge"
    assert decide(_lesson("d", one), [Neighbour(kept.lesson, 1.0, 1.0)]).kind == "merge"


def test_what_only_sounds_like_an_opposite_in_passing_is_still_a_copy():
    kept = _lesson(
        "a",
        "In the next attempt, the transaction must be saved once at the end so that nothing is loaded later.",
    )
    other = _lesson("b", "Save the transaction only once, at the end, so that nothing is loaded later.")
    assert decide(other, [Neighbour(kept, 1.0, 1.0)]).kind == "merge"


@pytest.mark.anyio
async def test_in_the_cabinet_and_on_the_cabinet_are_two_lessons(make):
    async with make() as lessons:
        for number, text in enumerate(("Place the cup in the cabinet.", "Place the cup on the cabinet.")):
            source = Provenance(f"run-{number}", 1, 0.0)
            await lessons.record(Task("put the cup away"), Reflection(text), provenance=source)
        source = Provenance("run-3", 1, 0.0)
        copy = Reflection("Put the cup inside the cabinet.")
        again = await lessons.record(Task("put the cup away"), copy, provenance=source)
        assert await lessons.count() == 2
        assert (again.text, again.support) == ("Place the cup in the cabinet.", 2)
