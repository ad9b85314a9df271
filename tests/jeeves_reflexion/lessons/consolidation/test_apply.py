"""A step of a plan is one write, and a merge loses no task by which a lesson is recalled."""

from __future__ import annotations

import contextlib

import anyio
import pytest

from jeeves_reflexion import LessonStoreError, Provenance, Reflection, Task
from jeeves_reflexion.lessons.consolidation.consolidators import RuleConsolidator
from jeeves_reflexion.lessons.consolidation.plans import Operation, Proposals, apply, clusters, plan
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.records import MERGED_INTO
from vectorstores import VectorStoreError

pytestmark = pytest.mark.anyio

MUG = "Wash the mug in the sink before you carry it anywhere."
POTATO = "Heat the potato in the microwave, not in the oven."
TRAIN = "Compare the prices of both stations before paying."
THINGS = ("tea", "milk", "rice", "salt", "corn", "wine", "soap", "coal", "silk", "iron", "wool", "clay")


@pytest.fixture
def lessons(make):
    """A lesson store in which equal lessons are several."""
    return make(keep_copies=True, min_similarity=0.5)


async def learn(lessons, *said: tuple[str, str], run="run"):
    return [
        await lessons.record(
            Task(task, id=f"task {task}"),
            Reflection(text),
            provenance=Provenance(f"{run}{n}", 1, 0.0, created_at=n),
        )
        for n, (task, text) in enumerate(said, 1)
    ]


def proposing(*operations: Operation):
    async def consolidator(_):
        return Proposals(operations)

    return consolidator


async def everything(lessons):
    return {lesson.id: lesson async for lesson in lessons.repository.each()}


async def offered(lessons, task: str):
    return (await lessons.recall(Task(task), k=5)).texts


@contextlib.contextmanager
def breaking(lessons, monkeypatch, at: int):
    """Let the store fail at its ``at``-th write; counts them."""
    writes = [0]
    for name in ("add", "delete", "append_once", "compare_and_swap", "delete_records"):
        real = getattr(lessons.store, name)

        async def failing(*args, _real=real, **more):
            writes[0] += 1
            if writes[0] == at:
                raise VectorStoreError("the power went")
            return await _real(*args, **more)

        monkeypatch.setattr(lessons.store, name, failing)
    yield writes
    monkeypatch.undo()


FETCH = [(f"fetch {thing} for the guest", MUG) for thing in THINGS]


async def test_a_merge_that_fails_at_any_of_its_writes_leaves_nothing_half_done(lessons, monkeypatch):
    async with lessons:
        first, *others = await learn(lessons, ("put a mug", MUG), ("put a potato", POTATO), ("go", TRAIN))
        ids = (first.id, *(other.id for other in others))
        planned = await plan([[first, *others]], proposing(Operation("merge", ids)))
        before = await everything(lessons)
        with breaking(lessons, monkeypatch, at=1), pytest.raises(LessonStoreError, match="the power went"):
            await apply(planned, lessons.repository)
        assert await everything(lessons) == before
        assert [len(await Curator(lessons.repository).history(each)) for each in ids] == [1, 1, 1]
        with breaking(lessons, monkeypatch, at=0) as writes:
            assert len((await apply(planned, lessons.repository)).done) == 1
        assert writes == [1]
        now = await everything(lessons)
        assert (now[first.id].support, now[first.id].text) == (3, MUG)
        assert [now[other.id].metadata[MERGED_INTO] for other in others] == [first.id] * 2
        assert (await Curator(lessons.repository).history(first.id))[-1].others == ids[1:]
        for task in ("put a mug", "put a potato", "go"):
            assert await offered(lessons, task) == (MUG,)


async def test_copies_of_tasks_that_a_full_lesson_has_are_still_merged_into_it(lessons):
    async with lessons:
        learned = await learn(lessons, *FETCH[:9])
        learned += await learn(lessons, *FETCH[:3], run="later")
        planned = await plan(await clusters(lessons.repository, learned), RuleConsolidator())
        assert [len(step.operation.ids) for step in planned.steps] == [12]
        await apply(planned, lessons.repository)
        assert [each.support for each in (await everything(lessons)).values() if each.state == "active"] == [
            12
        ]


async def test_a_merge_without_room_is_skipped_with_the_reason_also_where_the_plan_did_not_look(lessons):
    async with lessons:
        learned = await learn(lessons, *FETCH)
        planned = await plan([learned], proposing(Operation("merge", tuple(each.id for each in learned))))
        before = await everything(lessons)
        ((_, why),) = (await apply(planned, lessons.repository)).skipped
        assert f"lesson {learned[0].id!r} would be recalled by 12 tasks, and a lesson has at most 9" in why
        assert await everything(lessons) == before


async def test_a_copy_that_the_same_attempt_taught_brings_the_support_of_the_others(lessons):
    async with lessons:
        one, other = [
            await lessons.record(Task("put a mug"), Reflection(text), provenance=Provenance("run", 1, 0.0))
            for text in (MUG, POTATO)
        ]
        for run in ("later", "latest"):
            taught = (await learn(lessons, ("put a potato", POTATO), run=run))[0]
            await Curator(lessons.repository).merge(other.id, [taught.id])
        other = await lessons.get(other.id)
        assert other.support == 3
        await apply(
            await plan([[one, other]], proposing(Operation("merge", (one.id, other.id)))), lessons.repository
        )
        # Three attempts taught them, one of them both.
        assert (await lessons.get(one.id)).support == 3
        assert await offered(lessons, "put a potato") == (MUG,)


async def test_many_who_consolidate_at_once_make_each_step_once(lessons):
    async with lessons:
        learned = await learn(lessons, *FETCH[:6], *FETCH[:6], ("go", TRAIN))
        results = []

        async def one() -> None:
            planned = await plan(await clusters(lessons.repository, learned), RuleConsolidator())
            results.append(await apply(planned, lessons.repository))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one)
        now = await everything(lessons)
        assert sum(each.support for each in now.values() if each.state == "active") == 13
        made = sum(len(each.done) for each in results)
        assert made == sum(
            len(e) > 1
            for e in [
                [o for o in now.values() if o.metadata.get(MERGED_INTO) == each.id] + [each]
                for each in now.values()
                if each.state == "active"
            ]
        )
        for task, text in FETCH[:6]:
            assert set(await offered(lessons, task)) == {text}


async def test_what_was_absorbed_keeps_all_that_the_one_that_stays_has_no_room_for(lessons):
    async with lessons:
        learned = await learn(lessons, *[("put a mug", MUG)] * 12)
        await apply(
            await plan(await clusters(lessons.repository, learned), RuleConsolidator()), lessons.repository
        )
        now = await everything(lessons)
        (stays,) = [each for each in now.values() if each.state == "active"]
        assert len(stays.metadata["copies"]) == 8
        for each in learned:
            if each.id != stays.id:
                assert (now[each.id].text, now[each.id].provenance) == (each.text, each.provenance)
                assert (await lessons.repository.read(each.id)).tasks == ("put a mug",)


@pytest.mark.parametrize("turns", [1, 9, 25])
async def test_what_is_cancelled_half_way_has_made_whole_steps_alone(lessons, monkeypatch, turns):
    texts = [f"Fetch the {thing} before you lock the door." for thing in THINGS[:4]]
    async with lessons:
        learned = await learn(lessons, *((f"task {n} {text}", text) for n in range(3) for text in texts))
        planned = await plan(await clusters(lessons.repository, learned), RuleConsolidator())
        assert len(planned.steps) == 4
        left = turns
        with anyio.CancelScope() as scope:
            for name in ("add", "get_by_ids", "get"):
                real = getattr(lessons.store, name)

                async def counting(*args, _real=real, **more):
                    nonlocal left
                    left -= 1
                    if left == 0:
                        scope.cancel()
                    return await _real(*args, **more)

                monkeypatch.setattr(lessons.store, name, counting)
            await apply(planned, lessons.repository)
        monkeypatch.undo()
        now = await everything(lessons)
        for step in planned.steps:
            assert tuple(now[each.id] for each in step.lessons) in (step.lessons, step.after)
        await apply(planned, lessons.repository)
        assert (
            sorted(each.support for each in (await everything(lessons)).values() if each.state == "active")
            == [3] * 4
        )
