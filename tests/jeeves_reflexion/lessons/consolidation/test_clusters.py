"""Which lessons are looked at together."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.consolidation.clusters import clusters
from jeeves_reflexion.types import Lesson, Provenance


def lesson(number: int, text: str, kind: str | None = "heat", **fields) -> Lesson:
    source = Provenance("run", 1, 0.0, created_at=float(number))
    return Lesson(f"{number:02d}", text, "task", "a task", source, task_kind=kind, **fields)


MICROWAVE = [
    lesson(1, "Open the microwave before you heat the potato."),
    lesson(2, "Open the microwave first before you heat the potato."),
    lesson(3, "Before you heat the potato, open the microwave."),
]
LAMP = [lesson(4, "Hold the book when you use the lamp."), lesson(5, "Hold the book while you use the lamp.")]
ALONE = lesson(6, "Count the letters of the word twice.")


def ids(groups) -> list[list[str]]:
    return [[one.id for one in group] for group in groups]


def test_lessons_that_are_alike_come_together_and_those_like_none_are_left_out():
    everything = [*MICROWAVE, *LAMP, ALONE]
    assert ids(clusters(everything)) == [["01", "02", "03"], ["04", "05"]]
    shuffled = random.Random(1).sample(everything, len(everything))
    assert ids(clusters(shuffled)) == ids(clusters(everything))


def test_task_kinds_are_kept_apart_and_only_active_lessons_count():
    other = replace(MICROWAVE[1], task_kind="cool")
    retired = replace(MICROWAVE[2], state="retired")
    assert ids(clusters([MICROWAVE[0], other, retired])) == []


def test_a_large_cluster_is_split_and_its_rest_of_one_left_out():
    many = [lesson(number, f"Open the microwave before heating item number {number}.") for number in range(5)]
    assert ids(clusters(many, alike=lambda *_: 1.0, most=2)) == [["00", "01"], ["02", "03"]]
    with pytest.raises(ConfigurationError, match="at least 2"):
        clusters(many, most=1)


def test_ten_thousand_lessons_need_few_comparisons():
    compared = 0

    def alike(a: str, b: str) -> float:
        nonlocal compared
        compared += 1
        return 0.0

    draw = random.Random(2)
    words = [f"word{number}" for number in range(3000)]
    many = [lesson(n, " ".join(draw.sample(words, 10)) + " the same ending") for n in range(10_000)]
    assert clusters(many, alike=alike) == []
    assert compared < 1_500_000
