"""Consolidation on real stores: checked, shown, applied as deltas, once, and undone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jeeves_reflexion import LessonStoreError, Provenance, Reflection, Task
from jeeves_reflexion.lessons.consolidation.consolidators import RuleConsolidator
from jeeves_reflexion.lessons.consolidation.plans import Operation, Proposals, Refused, apply, clusters, plan
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.records import MERGED_INTO

pytestmark = pytest.mark.anyio

TASK = Task("put a hot potato on the side table", kind="heat")
ANOTHER = Task("warm up the cold potato that lies on the plate", kind="heat")
OPEN_TOO = "open the microwave before you heat the potato"
OPEN = "Open the microwave before you heat the potato."
HOLD = "Hold the book while you use the lamp."
LEFT = "Look in the left drawer before you open the right one."


def proposing(*operations: Operation, refused: tuple[Refused, ...] = ()):
    async def consolidator(_):
        return Proposals(operations, refused)

    return consolidator


async def learn(lessons, *texts: str, task=TASK):
    return [
        await lessons.record(task, Reflection(text), provenance=Provenance("run", attempt, 0.0))
        for attempt, text in enumerate(texts, 1)
    ]


async def everything(lessons):
    return {lesson.id: lesson async for lesson in lessons.repository.each()}


async def test_each_operation_changes_what_it_says_and_nothing_else(make):
    async with make(keep_copies=True) as lessons:
        first, second, third, fourth, fifth = await learn(lessons, OPEN, HOLD, LEFT, OPEN_TOO, "Look twice.")
        operations = [
            Operation("contradict", (first.id, second.id), "one says the opposite"),
            Operation("retire", (third.id,), f"wrong,\u200b as AKIA{'ABCDEFGHIJKLMNOP'} says"),
            Operation("merge", (fourth.id, fifth.id)),
        ]
        planned = await plan([[first, second, third, fourth, fifth]], proposing(*operations))
        assert planned.refused == ()
        assert await lessons.get(first.id) == first
        applied = await apply(planned, lessons.repository, by="ada")
        assert [step.operation.kind for step in applied.done] == ["contradict", "retire", "merge"]
        now = await everything(lessons)
        assert now[first.id] == replace(first, contradicts=(second.id,))
        assert now[second.id] == replace(second, contradicts=(first.id,))
        assert now[third.id].state_reason.startswith("wrong, as [REDACTED:")
        assert "AKIA" not in repr(planned)
        assert (now[fourth.id].support, now[fourth.id].text) == (2, OPEN_TOO)
        assert now[fifth.id].state == "retired"


async def test_what_may_not_be_done_is_refused_one_by_one_and_the_rest_stands(make):
    async with make(keep_copies=True) as lessons:
        first, second, third = await learn(lessons, OPEN, HOLD, LEFT)
        opposite = replace(third, id="opposite", contradicts=(second.id,))
        retired = replace(third, id="retired", state="retired")
        cases = {
            Operation("retire", ("nobody",), "x"): "there is no lesson nobody",
            Operation("merge", (first.id,)): "at least two",
            Operation("merge", (first.id, first.id)): "twice",
            Operation("merge", (second.id, "opposite")): "contradict each other",
            Operation("contradict", (first.id,)): "between two",
            Operation("retire", (first.id, second.id), "x"): "takes one lesson, not 2",
            Operation("retire", (first.id,)): "needs a reason",
            Operation("retire", ("retired",), "x"): "is retired",
        }
        fine = Operation("retire", (third.id,), "old")
        again = {Operation("merge", (first.id, third.id)): "changed by an earlier operation of this plan"}
        planned = await plan(
            [[first, second, third, opposite, retired]],
            proposing(*cases, fine, *again, refused=(Refused("?", "unreadable"),)),
        )
        assert [step.operation for step in planned.steps] == [fine]
        whys = [each.why for each in planned.refused]
        assert whys[0] == "unreadable"
        for why, expected in zip(whys[1:], (cases | again).values(), strict=True):
            assert expected in why
        shown = str(planned)
        for line in (f"retire {third.id} (old)", f"    {third.id}  {LEFT}", "refused: ?: unreadable"):
            assert line in shown.splitlines()
        assert str(await plan([], proposing())) == "nothing to do"


async def test_applying_twice_changes_nothing_more_and_everything_can_be_rolled_back(make):
    async with make(keep_copies=True) as lessons:
        (first,), (second,) = await learn(lessons, OPEN), await learn(lessons, OPEN_TOO, task=ANOTHER)
        planned = await plan(await clusters(lessons.repository, [first, second]), RuleConsolidator())
        assert [step.operation.kind for step in planned.steps] == ["merge"]
        assert len((await apply(planned, lessons.repository)).done) == 1
        merged = await everything(lessons)
        stays, gone = (merged[each] for each in planned.steps[0].operation.ids)
        assert (stays.support, stays.state) == (2, "active")
        assert (gone.state, gone.metadata[MERGED_INTO]) == ("retired", stays.id)

        assert (await lessons.recall(ANOTHER, k=1)).offered[0].lesson == stays

        again = await apply(planned, lessons.repository)
        assert (again.done, [why for _, why in again.skipped]) == (
            (),
            [f"lesson {stays.id} was changed since the plan was made"],
        )
        assert await everything(lessons) == merged

        curator = Curator(lessons.repository)
        entries = await curator.history(stays.id)
        assert [(entry.operation, entry.by) for entry in entries[1:]] == [("merge", "consolidation")]
        await curator.rollback(stays.id, to=1)
        assert await everything(lessons) == {first.id: first, second.id: second}


async def test_a_lesson_that_somebody_changed_or_removed_meanwhile_is_left_alone_and_said_so(make):
    async with make(keep_copies=True) as lessons:
        first, second, third = await learn(lessons, OPEN, HOLD, LEFT)
        planned = await plan(
            [[first, second, third]],
            proposing(
                Operation("merge", (first.id, second.id), "same"),
                Operation("retire", (third.id,), "old"),
            ),
        )
        await Curator(lessons.repository).edit(second.id, "Hold the pen while you use the lamp.")
        await lessons.forget(third.id)
        before = await everything(lessons)
        applied = await apply(planned, lessons.repository)
        assert applied.done == ()
        assert [why for _, why in applied.skipped] == [
            f"lesson {second.id} was changed since the plan was made",
            f"lesson {third.id} no longer exists",
        ]
        assert await everything(lessons) == before


def meddling(repository, meddle):
    """The repository, in which somebody else changes a lesson in the middle of a step."""
    store, add = repository.store, repository.store.add

    async def overtaken(*args, **kwargs):
        store.add = add
        await meddle()
        return await add(*args, **kwargs)

    store.add = overtaken
    return repository


async def test_a_step_that_is_overtaken_half_way_changes_nothing(make):
    async with make(keep_copies=True) as lessons:
        first, third = await learn(lessons, OPEN, LEFT)
        (second,) = await learn(lessons, HOLD, task=ANOTHER)
        planned = await plan(
            [[first, second, third]], proposing(Operation("merge", (first.id, second.id, third.id)))
        )

        async def meddle() -> None:
            await lessons.repository.change(third.id, lambda now: replace(now, support=9), Change("learn"))

        applied = await apply(planned, meddling(lessons.repository, meddle))
        assert applied.done == ()
        assert len(applied.skipped) == 1
        assert await everything(lessons) == {
            first.id: first,
            second.id: second,
            third.id: replace(third, support=9),
        }
        assert (await lessons.repository.read(first.id)).tasks == (TASK.prompt,)
        assert [entry.operation for entry in await Curator(lessons.repository).history(first.id)] == ["learn"]


async def test_a_lesson_that_is_forgotten_while_it_is_merged_stays_forgotten(make):
    async with make(keep_copies=True) as lessons:
        first, second = await learn(lessons, OPEN, HOLD)
        planned = await plan([[first, second]], proposing(Operation("merge", (first.id, second.id))))

        async def meddle() -> None:
            await lessons.forget(second.id)

        ((_, why),) = (await apply(planned, meddling(lessons.repository, meddle))).skipped
        assert why == f"lesson {second.id!r} was forgotten while it was changed"
        left = await everything(lessons)
        assert list(left) == [first.id]
        assert HOLD not in repr(left) + repr(await lessons.repository.history(first.id))


async def test_a_store_that_fails_is_an_error_of_lessons(make):
    lessons = make(keep_copies=True)
    async with lessons:
        (first,) = await learn(lessons, OPEN)
        planned = await plan([[first]], proposing(Operation("retire", (first.id,), "x")))
        await lessons.store.close()
        with pytest.raises(LessonStoreError, match="could not consolidate"):
            await apply(planned, lessons.repository)
