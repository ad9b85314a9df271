"""Going back to before a merge: both lessons are what they were, and what was learned since still counts."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from jeeves_reflexion import Provenance, Reflection, Task
from jeeves_reflexion.lessons.consolidation.plans import Operation, Proposals, apply, plan
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.records import COPIES
from jeeves_reflexion.lessons.repository import Revision

pytestmark = pytest.mark.anyio

CLEAN = Task("put a clean mug in the coffee machine")
HEAT = Task("put a hot potato on the side table")
SINK = "Wash the mug in the sink before you carry it anywhere."
OVEN = "Heat the potato in the microwave, not in the oven."


async def learn(lessons, task=CLEAN, text=SINK, run="run"):
    return await lessons.record(task, Reflection(text), provenance=Provenance(run, 1, 0.0))


async def offered(lessons, task):
    return (await lessons.recall(task, k=5)).texts


async def consolidated(lessons, into, other):
    async def consolidator(_):
        return Proposals((Operation("merge", (into.id, other.id)),))

    applied = await apply(await plan([[into, other]], consolidator), lessons.repository)
    assert len(applied.done) == 1


async def curated(lessons, into, other):
    await Curator(lessons.repository).merge(into.id, [other.id])


@pytest.mark.parametrize("merge", [curated, consolidated])
@pytest.mark.parametrize("key", ["task", "both"])
async def test_taking_a_merge_back_brings_both_lessons_back(make, merge, key):
    async with make(key=key, min_similarity=0.5) as lessons:
        curator = Curator(lessons.repository, by="ada")
        into, other = await learn(lessons), await learn(lessons, HEAT, OVEN)
        await merge(lessons, into, other)
        assert await offered(lessons, HEAT) == (SINK,)

        assert await curator.rollback(into.id, to=1) == into == await lessons.get(into.id)
        assert await lessons.get(other.id) == other
        assert await offered(lessons, HEAT) == (OVEN,)
        assert await offered(lessons, CLEAN) == (SINK,)
        assert (await lessons.repository.read(into.id)).tasks == (CLEAN.prompt,)
        assert await lessons.count() == 2
        assert (await curator.history(other.id))[-1].operation == "unmerge"

        # Merged again, nothing is counted twice.
        assert (await curator.merge(into.id, [other.id])).support == 2


async def test_a_task_that_an_attempt_taught_since_stays_when_a_merge_is_taken_back(make):
    async with make(min_similarity=0.5) as lessons:
        into, other = await learn(lessons), await learn(lessons, HEAT, OVEN)
        await curated(lessons, into, other)
        again = await learn(lessons, HEAT, SINK, run="since")
        assert again.id == into.id
        back = await Curator(lessons.repository).rollback(into.id, to=1)
        assert back.support == 2
        assert (await lessons.repository.read(into.id)).tasks == (CLEAN.prompt, HEAT.prompt)
        assert set(await offered(lessons, HEAT)) == {SINK, OVEN}


async def test_what_was_learned_since_still_counts(make):
    async with make(min_similarity=0.5) as lessons:
        curator = Curator(lessons.repository)
        into, other = await learn(lessons), await learn(lessons, HEAT, OVEN)
        await curator.merge(into.id, [other.id])
        far = Task("bring every dirty cup from the garden to the kitchen")
        assert (await learn(lessons, far, run="later")).id == into.id
        back = await curator.rollback(into.id, to=1)
        assert back.support == 2
        assert [note["run_id"] for note in back.metadata[COPIES]] == ["later"]
        assert await offered(lessons, far) == (SINK,)
        assert await offered(lessons, HEAT) == (OVEN,)
        # The same attempt is no news.
        assert (await learn(lessons, far, run="later")).support == 2


async def test_what_is_learned_at_the_same_moment_is_not_lost(make):
    async with make() as lessons:
        into, other = await learn(lessons), await learn(lessons, HEAT, OVEN)
        await curated(lessons, into, other)

        async def roll_back() -> None:
            await Curator(lessons.repository).rollback(into.id, to=1)

        async with anyio.create_task_group() as group:
            for number in range(8):
                if number == 4:
                    group.start_soon(roll_back)
                group.start_soon(learn, lessons, CLEAN, SINK, f"run {number}")
        now = await lessons.get(into.id)
        assert now.support == 9
        assert len({note["run_id"] for note in now.metadata[COPIES]}) == 8
        assert await lessons.get(other.id) == other
        assert (await lessons.repository.read(into.id)).tasks == (CLEAN.prompt,)


async def test_a_merged_lesson_comes_back_in_the_state_that_it_had(make):
    async with make() as lessons:
        curator = Curator(lessons.repository)
        into, other = await learn(lessons), await learn(lessons, HEAT, OVEN)
        await curator.retire(other.id, reason="no microwave")
        await curator.merge(into.id, [other.id])
        await curator.rollback(into.id, to=1)
        back = await lessons.get(other.id)
        assert (back.state, back.state_reason) == ("retired", "no microwave")


async def test_what_was_forgotten_since_does_not_come_back(make):
    async with make() as lessons:
        curator = Curator(lessons.repository)
        into, other = await learn(lessons), await learn(lessons, HEAT, OVEN)
        await curator.merge(into.id, [other.id])
        await lessons.forget(other.id)
        assert (await curator.rollback(into.id, to=1)).text == SINK
        assert await lessons.get(other.id) is None
        assert await offered(lessons, CLEAN) == (SINK,)


async def test_a_task_that_a_lesson_lost_is_not_found_and_comes_back_with_the_next_one(make):
    async with make(min_similarity=0.5) as lessons:
        lesson = await learn(lessons)
        shelf = lessons.repository

        def louder(now):
            return replace(now, support=now.support + 1)

        async def more():
            async def revise():
                stored = await shelf.known(lesson.id)
                return [Revision(stored, louder(stored.lesson), Change("more"), (HEAT.prompt,))]

            await shelf.transact(revise, "the lesson")

        await more()
        assert await offered(lessons, HEAT) == (SINK,)
        await shelf.change(lesson.id, louder, Change("less"), without=(HEAT.prompt,))
        assert await offered(lessons, HEAT) == ()
        assert (await shelf.read(lesson.id)).tasks == (CLEAN.prompt,)
        await Curator(shelf).retire(lesson.id, reason="x")
        await Curator(shelf).restore(lesson.id)
        assert await offered(lessons, HEAT) == ()
        await more()
        assert await offered(lessons, HEAT) == (SINK,)
        await shelf.change(lesson.id, louder, Change("none"), without=(HEAT.prompt, CLEAN.prompt))
        assert (await shelf.read(lesson.id)).tasks == (SINK,)
        assert [hit.lesson.id for hit in await lessons.search(SINK)] == [lesson.id]
