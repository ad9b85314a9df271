"""A step of a plan is one write, in every store, and a merge loses no task by which a lesson is recalled."""

from __future__ import annotations

import contextlib

import anyio
import pytest

from jeeves_reflexion import LessonSettings, LessonStoreError, Provenance, Reflection, Task, VectorLessonStore
from jeeves_reflexion.lessons.consolidation.clusters import clusters
from jeeves_reflexion.lessons.consolidation.consolidators import RuleConsolidator
from jeeves_reflexion.lessons.consolidation.operations import Operation
from jeeves_reflexion.lessons.consolidation.planning import Proposals, apply, plan
from jeeves_reflexion.lessons.curator import Curator
from jeeves_reflexion.lessons.merging import MERGED_INTO
from jeeves_reflexion.lessons.shelf import Change
from jeeves_reflexion.loop.lesson_address import open_lessons
from vectorstores import HashingEmbedder, InMemoryVectorStore, VectorStoreError

pytestmark = pytest.mark.anyio

MUG = "Wash the mug in the sink before you carry it anywhere."
POTATO = "Heat the potato in the microwave, not in the oven."
TRAIN = "Compare the prices of both stations before paying."
THINGS = ("tea", "milk", "rice", "salt", "corn", "wine", "soap", "coal", "silk", "iron", "wool", "clay")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # psycopg knows no other


@pytest.fixture(params=["memory", "faiss", "postgres"])
def lessons(request, tmp_path):
    """A lesson store that merges nothing by itself."""
    settings = LessonSettings(merging=None, min_similarity=0.5)
    if request.param == "memory":
        return VectorLessonStore(InMemoryVectorStore(HashingEmbedder(), namespace="tests"), settings=settings)
    if request.param == "postgres":
        pytest.importorskip("psycopg")
        place = f"{request.getfixturevalue('postgres_database')}&schema=lessons"
    else:
        place = str(tmp_path / "store")
    return open_lessons(place, namespace="tests", embedder=HashingEmbedder(), settings=settings)


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
    return {lesson.id: lesson async for lesson in lessons.shelf.each()}


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


@pytest.mark.parametrize("text", [None, "Wash the mug, and heat the potato."])
async def test_a_merge_that_fails_at_any_of_its_writes_leaves_nothing_half_done(lessons, monkeypatch, text):
    async with lessons:
        first, *others = await learn(lessons, ("put a mug", MUG), ("put a potato", POTATO), ("go", TRAIN))
        ids = (first.id, *(other.id for other in others))
        planned = await plan(
            [[first, *others]], proposing(Operation("merge", ids, text)), shelf=lessons.shelf
        )
        before = await everything(lessons)
        with breaking(lessons, monkeypatch, at=1), pytest.raises(LessonStoreError, match="the power went"):
            await apply(planned, lessons.shelf)
        assert await everything(lessons) == before
        assert [len(await Curator(lessons.shelf).history(each)) for each in ids] == [1, 1, 1]
        with breaking(lessons, monkeypatch, at=0) as writes:
            assert len((await apply(planned, lessons.shelf)).done) == 1
        assert writes == [1]
        now = await everything(lessons)
        assert (now[first.id].support, now[first.id].text) == (3, text or MUG)
        assert [now[other.id].metadata[MERGED_INTO] for other in others] == [first.id] * 2
        assert (await Curator(lessons.shelf).history(first.id))[-1].others == ids[1:]
        for task in ("put a mug", "put a potato", "go"):
            assert await offered(lessons, task) == (text or MUG,)


async def test_copies_of_more_tasks_than_a_lesson_may_have_are_merged_into_several_and_no_task_is_lost(
    lessons,
):
    async with lessons:
        learned = await learn(lessons, *FETCH)
        planned = await plan(clusters(learned), RuleConsolidator(), shelf=lessons.shelf)
        assert [len(step.operation.ids) for step in planned.steps] == [9, 3]
        assert planned.refused == ()
        applied = await apply(planned, lessons.shelf)
        assert (len(applied.done), applied.skipped) == (2, ())
        now = await everything(lessons)
        assert sorted(each.support for each in now.values() if each.state == "active") == [3, 9]
        for task, text in FETCH:
            assert await offered(lessons, task) == (text,)
        known = [await lessons.shelf.queries_of(step.operation.ids[0]) for step in planned.steps]
        assert sorted(task for each in known for task in each) == sorted(task for task, _ in FETCH)

        # What is full stays as it is, and the plan says why.
        left = [each for each in now.values() if each.state == "active"]
        again = await plan(clusters(left), RuleConsolidator(), shelf=lessons.shelf)
        assert again.steps == ()
        (refused,) = again.refused
        assert "12 tasks" in refused.why
        assert "at most 9" in refused.why


async def test_copies_of_tasks_that_a_full_lesson_has_are_still_merged_into_it(lessons):
    async with lessons:
        learned = await learn(lessons, *FETCH[:9])
        learned += await learn(lessons, *FETCH[:3], run="later")
        planned = await plan(clusters(learned), RuleConsolidator(), shelf=lessons.shelf)
        assert [len(step.operation.ids) for step in planned.steps] == [12]
        await apply(planned, lessons.shelf)
        assert [each.support for each in (await everything(lessons)).values() if each.state == "active"] == [
            12
        ]


async def test_hundreds_of_copies_end_in_as_few_lessons_as_their_tasks_need(lessons):
    tasks = [f"{thing} and {other}" for thing in THINGS for other in THINGS[:3]]
    async with lessons:
        for run in range(4):
            await learn(lessons, *((task, MUG) for task in tasks), run=f"run {run} ")
        assert await lessons.count() == 144
        for _ in range(12):
            active = [each for each in (await everything(lessons)).values() if each.state == "active"]
            planned = await plan(clusters(active), RuleConsolidator(), shelf=lessons.shelf)
            if not planned.steps:
                break
            assert (await apply(planned, lessons.shelf)).skipped == ()
        assert planned.steps == ()
        active = [each for each in (await everything(lessons)).values() if each.state == "active"]
        assert sum(each.support for each in active) == 144
        assert 4 <= len(active) <= 8, "36 tasks, nine for each"
        for task in tasks:
            assert await offered(lessons, task) == (MUG,)


async def test_a_merge_without_room_is_skipped_with_the_reason_also_where_the_plan_did_not_look(lessons):
    async with lessons:
        learned = await learn(lessons, *FETCH)
        planned = await plan([learned], proposing(Operation("merge", tuple(each.id for each in learned))))
        before = await everything(lessons)
        ((_, why),) = (await apply(planned, lessons.shelf)).skipped
        assert f"lesson {learned[0].id!r} would be recalled by 12 tasks, and a lesson has at most 9" in why
        assert await everything(lessons) == before


async def test_a_new_lesson_drawn_from_many_is_recalled_by_a_task_of_each_and_says_what_it_is_not(lessons):
    async with lessons:
        learned = await learn(lessons, *FETCH)
        merged = Operation("merge", (learned[0].id, learned[11].id))
        await apply(await plan([learned], proposing(merged)), lessons.shelf)
        active = [each for each in (await everything(lessons)).values() if each.state == "active"]
        sources = [next(each for each in active if each.id == one.id) for one in learned[:10]]
        adding = Operation(
            "add", tuple(each.id for each in sources), "Tidy up before you bring anything.", "all do"
        )
        planned = await plan([active], proposing(adding), shelf=lessons.shelf)
        (step,) = planned.steps
        assert "9 of the 11 tasks" in step.note
        assert "9 of the 11 tasks" in str(planned)
        await apply(planned, lessons.shelf)
        new = step.deltas[0].after
        assert await lessons.shelf.queries_of(new.id) == tuple(task for task, _ in FETCH[:9])
        assert "9 of the 11 tasks" in (await Curator(lessons.shelf).history(new.id))[0].reason


async def test_a_copy_that_the_same_attempt_taught_brings_the_support_of_the_others(lessons):
    async with lessons:
        one, other = [
            await lessons.record(Task("put a mug"), Reflection(text), provenance=Provenance("run", 1, 0.0))
            for text in (MUG, POTATO)
        ]
        for run in ("later", "latest"):
            taught = (await learn(lessons, ("put a potato", POTATO), run=run))[0]
            await Curator(lessons.shelf).merge(other.id, [taught.id])
        other = await lessons.get(other.id)
        assert other.support == 3
        await apply(
            await plan([[one, other]], proposing(Operation("merge", (one.id, other.id)))), lessons.shelf
        )
        # Three attempts taught them, one of them both.
        assert (await lessons.get(one.id)).support == 3
        assert await offered(lessons, "put a potato") == (MUG,)


async def test_a_copy_that_was_restored_after_a_merge_is_counted_once_when_it_is_merged_again(lessons):
    async with lessons:
        one, other = await learn(lessons, ("put a mug", MUG), ("put a potato", POTATO))
        curator = Curator(lessons.shelf)
        again = proposing(Operation("merge", (one.id, other.id)))
        for _ in range(2):
            now = await everything(lessons)
            planned = await plan([[now[one.id], now[other.id]]], again, shelf=lessons.shelf)
            assert len((await apply(planned, lessons.shelf)).done) == 1
            assert (await lessons.get(one.id)).support == 2
            await curator.restore(other.id)


async def test_a_merge_that_an_earlier_version_left_half_done_is_finished(lessons):
    async with lessons:
        learned = await learn(lessons, ("put a mug", MUG), ("put a potato", POTATO), ("go", TRAIN))
        planned = await plan([learned], proposing(Operation("merge", tuple(each.id for each in learned))))
        first, second, _ = planned.steps[0].deltas
        for delta, tasks in ((first, ("put a potato", "go")), (second, ())):
            await lessons.shelf.change(
                delta.after.id, lambda _, d=delta: d.after, Change("merge"), queries=tasks
            )
        assert len((await apply(planned, lessons.shelf)).done) == 1
        assert len((await apply(planned, lessons.shelf)).already) == 1
        now = await everything(lessons)
        assert [now[each.id].state for each in learned] == ["active", "retired", "retired"]
        assert now[learned[0].id].support == 3


async def test_what_was_forgotten_is_not_added_again_and_nothing_is_drawn_from_it(lessons):
    async with lessons:
        one, other = await learn(lessons, ("put a mug", MUG), ("put a potato", POTATO))
        adding = Operation(
            "add", (one.id, other.id), "Prepare food and dishes before you serve them.", "both"
        )
        planned = await plan([[one, other]], proposing(adding), shelf=lessons.shelf)
        await apply(planned, lessons.shelf)
        (new,) = planned.steps[0].deltas
        assert await lessons.forget(new.after.id)
        ((_, why),) = (await apply(planned, lessons.shelf)).skipped
        assert why == f"lesson {new.after.id} was forgotten"
        assert await lessons.get(new.after.id) is None

        more = Operation("add", (one.id, other.id), "Prepare what you serve before you serve it.", "both")
        planned = await plan([[one, other]], proposing(more), shelf=lessons.shelf)
        await lessons.forget(other.id)
        ((_, why),) = (await apply(planned, lessons.shelf)).skipped
        assert why == f"lesson {other.id} is gone"
        assert await lessons.count() == 1


async def test_a_lesson_that_is_forgotten_while_it_is_merged_stays_forgotten(lessons, monkeypatch):
    async with lessons:
        one, other = await learn(lessons, ("put a mug", MUG), ("put a potato", POTATO))
        planned = await plan(
            [[one, other]], proposing(Operation("merge", (one.id, other.id))), shelf=lessons.shelf
        )
        rewrite = lessons.shelf.rewrite

        async def slowly(*args, **more):
            real = lessons.store.add

            async def add(*chunks, **records):
                monkeypatch.setattr(lessons.store, "add", real)
                await lessons.forget(other.id)
                return await real(*chunks, **records)

            monkeypatch.setattr(lessons.store, "add", add)
            return await rewrite(*args, **more)

        monkeypatch.setattr(lessons.shelf, "rewrite", slowly)
        ((_, why),) = (await apply(planned, lessons.shelf)).skipped
        assert why == f"lesson {other.id} is gone"
        assert await lessons.get(other.id) is None
        left = await everything(lessons)
        assert list(left) == [one.id]
        assert POTATO not in repr(left)


async def test_many_who_consolidate_at_once_make_each_step_once(lessons):
    async with lessons:
        learned = await learn(lessons, *FETCH, *FETCH, ("go", TRAIN))
        results = []

        async def one() -> None:
            planned = await plan(clusters(learned), RuleConsolidator(), shelf=lessons.shelf)
            results.append(await apply(planned, lessons.shelf))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one)
        now = await everything(lessons)
        assert sum(each.support for each in now.values() if each.state == "active") == 25
        made = sum(len(each.done) for each in results)
        assert made == sum(
            len(e) > 1
            for e in [
                [o for o in now.values() if o.metadata.get(MERGED_INTO) == each.id] + [each]
                for each in now.values()
                if each.state == "active"
            ]
        )
        for task, text in FETCH:
            assert set(await offered(lessons, task)) == {text}


async def test_what_was_absorbed_keeps_all_that_the_one_that_stays_has_no_room_for(lessons):
    async with lessons:
        learned = await learn(lessons, *[("put a mug", MUG)] * 12)
        await apply(await plan(clusters(learned), RuleConsolidator(), shelf=lessons.shelf), lessons.shelf)
        now = await everything(lessons)
        (stays,) = [each for each in now.values() if each.state == "active"]
        assert len(stays.metadata["copies"]) == 8
        assert stays.metadata["copies_total"] == 11
        for each in learned:
            if each.id != stays.id:
                assert (now[each.id].text, now[each.id].provenance) == (each.text, each.provenance)
                assert await lessons.shelf.queries_of(each.id) == ("put a mug",)


@pytest.mark.parametrize("turns", range(1, 41, 8))
async def test_what_is_cancelled_half_way_has_made_whole_steps_alone(lessons, monkeypatch, turns):
    texts = [f"Fetch the {thing} before you lock the door." for thing in THINGS[:4]]
    async with lessons:
        learned = await learn(lessons, *((f"task {n} {text}", text) for n in range(3) for text in texts))
        planned = await plan(clusters(learned), RuleConsolidator(), shelf=lessons.shelf)
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
            await apply(planned, lessons.shelf)
        monkeypatch.undo()
        now = await everything(lessons)
        for step in planned.steps:
            wanted = [delta.before for delta in step.deltas], [delta.after for delta in step.deltas]
            assert [now[delta.after.id] for delta in step.deltas] in wanted
        assert (await apply(planned, lessons.shelf)).skipped == ()
        assert (
            sorted(each.support for each in (await everything(lessons)).values() if each.state == "active")
            == [3] * 4
        )
