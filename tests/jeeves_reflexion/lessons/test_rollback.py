"""Taking changes back is one write, in every store, and each operation of a consolidation can be taken back."""

from __future__ import annotations

import pytest

from jeeves_reflexion import LessonSettings, LessonStoreError, Provenance, Reflection, Task, VectorLessonStore
from jeeves_reflexion.errors import UnknownLessonError
from jeeves_reflexion.lessons.consolidation.plans import Operation, Proposals, apply, plan
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.loop.lesson_address import open_lessons
from vectorstores import HashingEmbedder, InMemoryVectorStore, VectorStoreError

pytestmark = pytest.mark.anyio

TAUGHT = (
    ("put a clean mug in the coffee machine", "Wash the mug in the sink before you carry it anywhere."),
    ("put a hot potato on the side table", "Heat the potato in the microwave, not in the oven."),
    ("book a train to Graz", "Compare the prices of both stations before paying."),
)


@pytest.fixture(params=["memory", "postgres"])
def lessons(request, tmp_path):
    settings = LessonSettings(min_similarity=0.5)
    if request.param == "memory":
        store = InMemoryVectorStore(HashingEmbedder(), namespace="tests")
        return VectorLessonStore(store, settings=settings)
    if request.param == "postgres":
        pytest.importorskip("psycopg")
        place = f"{request.getfixturevalue('postgres_database')}&schema=lessons"
    else:
        place = str(tmp_path / "store")
    return open_lessons(place, namespace="tests", embedder=HashingEmbedder(), settings=settings)


async def learn(lessons, *said: tuple[str, str], run="run"):
    return [
        await lessons.record(Task(task), Reflection(text), provenance=Provenance(f"{run}{n}", 1, 0.0))
        for n, (task, text) in enumerate(said)
    ]


async def everything(lessons):
    return {lesson.id: lesson async for lesson in lessons.repository.each()}


async def offered(lessons, task: str):
    return (await lessons.recall(Task(task), k=5)).texts


async def whole(lessons):
    """All that a rollback may change."""
    found = await everything(lessons)
    return {
        each: (
            lesson,
            set((await lessons.repository.read(each)).tasks),
            len(await lessons.repository.history(each)),
        )
        for each, lesson in found.items()
    }


async def fails_whole_or_not_at_all(lessons, monkeypatch, act) -> int:
    """Let each write fail in turn: nothing is changed by any that fails. Returns how many writes there are."""
    writes, broken = 0, 1

    def breaking(real):
        async def failing(*args, **more):
            nonlocal writes
            writes += 1
            if writes == broken:
                raise VectorStoreError("the power went")
            return await real(*args, **more)

        return failing

    before = await whole(lessons)
    for name in ("add", "delete", "append_once", "compare_and_swap", "delete_records"):
        monkeypatch.setattr(lessons.store, name, breaking(getattr(lessons.store, name)))
    while True:
        writes = 0
        try:
            await act()
            break
        except LessonStoreError:
            assert await whole(lessons) == before
        broken += 1
        assert broken < 9
    monkeypatch.undo()
    return broken - 1


async def test_a_rollback_over_a_merge_is_one_write(lessons, monkeypatch):
    async with lessons:
        curator = Curator(lessons.repository)
        mug, *others = await learn(lessons, *TAUGHT)
        before = await everything(lessons)
        await curator.merge(mug.id, [each.id for each in others])

        async def back() -> None:
            await curator.rollback(mug.id, to=1)

        assert await fails_whole_or_not_at_all(lessons, monkeypatch, back) == 1
        assert await everything(lessons) == before
        for task, text in TAUGHT:
            assert await offered(lessons, task) == (text,)


@pytest.mark.parametrize("kind", ["contradict", "merge", "retire"])
async def test_each_operation_is_taken_back_by_the_number_before_it(lessons, monkeypatch, kind):
    async with lessons:
        mug, potato, _ = await learn(lessons, *TAUGHT)
        before = await everything(lessons)
        ids = (mug.id,) if kind == "retire" else (mug.id, potato.id)

        async def consolidator(_):
            return Proposals((Operation(kind, ids, "so it is"),))

        planned = await plan([[mug, potato]], consolidator)
        assert len((await apply(planned, lessons.repository)).done) == 1
        changed = planned.steps[0].after[0]
        curator = Curator(lessons.repository)
        made = await curator.history(changed.id)
        assert (made[-1].operation, made[-1].reason) == (kind, "so it is")

        async def back() -> None:
            await curator.rollback(changed.id, to=made[-1].number - 1)

        if kind == "contradict":  # what comparisons teach is no mistake, and stays
            await back()
            assert (await lessons.get(mug.id)).contradicts == (potato.id,)
            return
        assert await fails_whole_or_not_at_all(lessons, monkeypatch, back) == 1
        assert await everything(lessons) == before
        if kind == "merge":
            with pytest.raises(LessonStoreError, match="separate now: merge them again"):
                await curator.rollback(changed.id, to=made[-1].number)
        else:  # and made again, by going back to it
            await curator.rollback(changed.id, to=made[-1].number)
            assert await lessons.get(changed.id) == changed


async def test_a_lesson_is_not_rolled_back_into_another_that_does_not_speak_for_it(lessons):
    async with lessons:
        curator = Curator(lessons.repository)
        mug, potato, _ = await learn(lessons, *TAUGHT)
        await curator.merge(mug.id, [potato.id])
        for act in (curator.rollback, curator.preview):
            with pytest.raises(LessonStoreError, match=f"was merged into '{mug.id}'.*roll that one back"):
                await act(potato.id, to=1)
        with pytest.raises(LessonStoreError, match=f"was merged into '{mug.id}'.*roll that one back"):
            await curator.restore(potato.id)
        await curator.rollback(mug.id, to=1)
        with pytest.raises(LessonStoreError, match="separate now: merge them again"):
            await curator.rollback(potato.id, to=2)
        await curator.merge(mug.id, [potato.id])
        await lessons.forget(mug.id)  # nobody speaks for it any more
        await curator.restore(potato.id)
        assert await offered(lessons, TAUGHT[1][0]) == (TAUGHT[1][1],)


async def test_a_lesson_that_is_forgotten_while_it_is_rolled_back_stays_forgotten(lessons, monkeypatch):
    async with lessons:
        curator = Curator(lessons.repository)
        mug, potato, _ = await learn(lessons, *TAUGHT)
        await curator.merge(mug.id, [potato.id])
        real = lessons.store.add

        async def add(*chunks, **records):
            monkeypatch.setattr(lessons.store, "add", real)
            await lessons.forget(mug.id)
            return await real(*chunks, **records)

        monkeypatch.setattr(lessons.store, "add", add)
        with pytest.raises(UnknownLessonError, match="there is no lesson"):
            await curator.rollback(mug.id, to=1)
        assert await lessons.get(mug.id) is None
        assert TAUGHT[0][1] not in repr(await everything(lessons))
