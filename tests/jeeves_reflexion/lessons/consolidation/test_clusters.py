"""Which lessons are looked at together."""

from __future__ import annotations

import random

import pytest

from jeeves_reflexion import Curator, Provenance, Reflection, Task
from jeeves_reflexion.lessons.consolidation import plans
from jeeves_reflexion.lessons.consolidation.plans import clusters

pytestmark = pytest.mark.anyio

MICROWAVE = (
    "Open the microwave before you heat the potato.",
    "Open the microwave first before you heat the potato.",
    "Before you heat the potato, open the microwave.",
)
LAMP = ("Hold the book when you use the lamp.", "Hold the book while you use the lamp.")
ALONE = "Count the letters of the word twice."


async def learn(lessons, *texts, kind="heat"):
    return [
        await lessons.record(Task("a task", kind=kind), Reflection(text), provenance=Provenance(text, 1, 0.0))
        for text in texts
    ]


async def texts_of(lessons, among=None):
    among = among or [each async for each in lessons.repository.each()]
    return sorted(sorted(one.text for one in group) for group in await clusters(lessons.repository, among))


async def test_lessons_that_are_near_come_together_and_those_like_none_are_left_out(make):
    async with make() as lessons:
        learned = await learn(lessons, *MICROWAVE, *LAMP, ALONE)
        found = await texts_of(lessons, learned)
        assert found == [sorted(MICROWAVE), sorted(LAMP)]
        assert await texts_of(lessons, random.Random(1).sample(learned, len(learned))) == found


async def test_kinds_of_tasks_and_trust_are_kept_apart_and_only_active_lessons_count(make):
    async with make() as lessons, make(trust="shared") as shared:
        first, second = await learn(lessons, *LAMP)
        await learn(lessons, *MICROWAVE[:1])
        await learn(lessons, MICROWAVE[1], kind="cool")
        await learn(shared, MICROWAVE[2])
        assert await texts_of(lessons) == [sorted(LAMP)]
        await Curator(lessons.repository).retire(second.id, reason="old")
        assert await texts_of(lessons) == []
        assert (await lessons.get(first.id)).state == "active"


async def test_lessons_of_another_principal_share_no_group_with_the_readers_own(make):
    async with (
        make(principal="ann", accepts=["bob"]) as ann,
        make(principal="bob") as bob,
        make(principal="eve") as eve,
    ):
        await learn(ann, *LAMP)
        await learn(bob, *MICROWAVE, "Hold the book whenever you use the lamp.")
        await learn(
            eve, "Hold the book as you use the lamp.", "Before heating the potato, open the microwave."
        )
        assert await texts_of(ann) == [sorted(MICROWAVE), sorted(LAMP)]


async def test_a_large_cluster_is_split_and_its_rest_of_one_left_out(make, monkeypatch):
    monkeypatch.setattr(plans, "MOST", 2)
    async with make() as lessons:
        await learn(lessons, *(f"Open the microwave door before heating item number {n}." for n in range(5)))
        among = [each async for each in lessons.repository.each()]
        found = await clusters(lessons.repository, among)
        assert [len(group) for group in found] == [2, 2]
