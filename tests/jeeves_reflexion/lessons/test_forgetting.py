"""A forgotten lesson is gone from the lessons that took it in, from their histories, and from the files."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from typing import Self

import anyio
import anyio.lowlevel
import pytest

from jeeves_reflexion import (
    Evaluation,
    LessonSettings,
    LessonStoreError,
    Provenance,
    Reflection,
    Task,
    VectorLessonStore,
)
from jeeves_reflexion.lessons.consolidation.plans import Operation, Proposals, apply, plan
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.records import COPIES, DRAWN_FROM, whole
from vectorstores import FaissVectorStore, HashingEmbedder, InMemoryVectorStore, open_store

pytestmark = pytest.mark.anyio


CLEAN = Task("put a clean mug in the coffee machine", id="clean")
TEAPOT = Task("polish the zirconium teapot", id="teapot-task")
SINK = "Wash the mug in the sink before you carry it anywhere."
BRUSH = "Use the marmalade brush for the teapot."
LEAVE = "Do not use the marmalade brush for the teapot."
WORDS = ("zirconium", "marmalade", "teapot", "brush-run")


async def learn(lessons, task, text, run):
    return await lessons.record(task, Reflection(text), provenance=Provenance(run, 1, 0.0))


async def everything(lessons) -> str:
    """All that a store holds, as text."""
    page = await lessons.store.scan(limit=1000)
    assert page.next is None
    held = [f"{chunk.content} {chunk.embed_text} {chunk.metadata}" for chunk in page.chunks]
    for collection in ("history", "quarantine", "recalls", "outcomes", "forgotten"):
        found = await lessons.records.scan_records(collection, limit=1000)
        held += [f"{record.key} {record.value}" for record in found.records]
    return "\n".join(held)


async def by_curator(lessons, into, gone):
    await Curator(lessons.repository, by="ada").merge(into.id, [gone.id], reason=f"both speak of {BRUSH}")


async def by_consolidation(lessons, into, gone):
    async def consolidator(_):
        return Proposals((Operation("merge", (into.id, gone.id), f"like {gone.id}"),))

    into, gone = [await lessons.get(each.id) for each in (into, gone)]  # one was linked meanwhile
    assert (await apply(await plan([[into, gone]], consolidator), lessons.repository)).done


async def merged_and_back(lessons, into, gone):
    await by_curator(lessons, into, gone)
    await Curator(lessons.repository).rollback(into.id, to=1)


@pytest.mark.parametrize("merge", [by_curator, by_consolidation, merged_and_back])
async def test_nothing_of_it_is_left_in_the_lesson_that_took_it_in(make, merge):
    async with make() as lessons:
        kept = await learn(lessons, CLEAN, SINK, "mug-run")
        gone = await learn(lessons, TEAPOT, BRUSH, "brush-run")
        opposite = await learn(lessons, TEAPOT, LEAVE, "other-run")
        await contradict(lessons, gone.id, opposite.id)
        await merge(lessons, kept, gone)
        assert BRUSH in await everything(lessons)
        await lessons.forget(opposite.id)
        assert await lessons.forget(gone.id)
        left = await everything(lessons)
        assert [word for word in (*WORDS, gone.id, opposite.id) if word in left] == []
        now = await lessons.get(kept.id)
        assert (now.text, now.state, now.contradicts) == (SINK, "active", ())
        assert now.metadata.get(COPIES, []) == []
        assert (await lessons.recall(CLEAN, k=5)).texts == (SINK,)
        assert (await Curator(lessons.repository).history(kept.id))[-1].after == now


async def contradict(lessons, *ids):
    """Say that two lessons contradict each other."""
    raw = [await lessons.repository.get(each) for each in ids]

    async def consolidator(_):
        return Proposals((Operation("contradict", ids),))

    assert (await apply(await plan([raw], consolidator), lessons.repository)).done


async def test_a_contradiction_loses_the_id_and_keeps_its_own_words(make):
    async with make() as lessons:
        gone = await learn(lessons, TEAPOT, BRUSH, "brush-run")
        other = await learn(lessons, TEAPOT, LEAVE, "other-run")
        await contradict(lessons, gone.id, other.id)
        other = await lessons.get(other.id)
        assert other.contradicts == (gone.id,)
        before = whole(other)
        assert await lessons.forget(gone.id)
        assert whole(await lessons.get(other.id)) == {**before, "contradicts": []}
        assert (await lessons.recall(TEAPOT, k=5)).texts == (LEAVE,)
        assert gone.id not in await everything(lessons)


async def test_words_that_were_taken_over_go_and_the_earlier_ones_come_back(make):
    async with make() as lessons:
        kept = await learn(lessons, CLEAN, SINK, "mug-run")
        gone = await learn(lessons, TEAPOT, BRUSH, "brush-run")
        await Curator(lessons.repository).merge(kept.id, [gone.id], text=BRUSH)
        assert (await lessons.get(kept.id)).text == BRUSH
        assert await lessons.forget(gone.id)
        assert (await lessons.get(kept.id)).text == SINK
        left = await everything(lessons)
        assert [word for word in WORDS if word in left] == []
        with pytest.raises(LessonStoreError, match="words of a forgotten lesson"):
            await Curator(lessons.repository).rollback(kept.id, to=2)


async def test_a_lesson_that_was_drawn_from_it_stays_without_its_task(make):
    """Consolidations of an earlier version drew lessons from others."""
    async with make() as lessons:
        gone = await learn(lessons, TEAPOT, BRUSH, "brush-run")
        kept = await learn(lessons, CLEAN, SINK, "mug-run")
        metadata = {DRAWN_FROM: [gone.id, kept.id]}
        drawn = replace(gone, id="drawn", text="Clean what is dirty first.", metadata=metadata)
        await lessons.admit(drawn, [TEAPOT.prompt, CLEAN.prompt], Change("add"))
        assert await lessons.forget(gone.id)
        assert (await lessons.repository.read(drawn.id)).tasks == (CLEAN.prompt,)
        assert (await lessons.get(drawn.id)).metadata[DRAWN_FROM] == [kept.id]
        assert [word for word in (TEAPOT.prompt, BRUSH, gone.id) if word in await everything(lessons)] == []
        assert await lessons.forget(kept.id)
        assert (await lessons.repository.read(drawn.id)).tasks == ("Clean what is dirty first.",)


async def test_lessons_that_say_the_same_by_themselves_are_left_alone(make):
    async with make(keep_copies=True) as lessons:
        gone, same, task = [
            await learn(lessons, TEAPOT, text, run) for text, run in ((BRUSH, "a"), (BRUSH, "b"), (SINK, "c"))
        ]
        edited = await learn(lessons, CLEAN, SINK, "d")
        edited = await Curator(lessons.repository).edit(edited.id, BRUSH)
        assert await lessons.forget(gone.id)
        for lesson in (same, task, edited):
            assert await lessons.get(lesson.id) == lesson
            assert "[forgotten]" not in str(await lessons.repository.history(lesson.id))
        assert {each.lesson.id for each in (await lessons.recall(TEAPOT, k=5)).offered} <= {same.id, task.id}


async def test_an_attempt_that_was_under_way_elsewhere_brings_nothing_of_it_back(make):
    async with make() as lessons:
        kept = await learn(lessons, TEAPOT, LEAVE, "mug-run")
        gone = await learn(lessons, TEAPOT, BRUSH, "brush-run")
        elsewhere = VectorLessonStore(lessons.store)
        judged, _ = [await elsewhere.recall(TEAPOT, k=2, run_id=run) for run in ("judged", "left")]
        assert {item.lesson.id for item in judged.offered} == {kept.id, gone.id}
        assert await lessons.forget(gone.id)
        assert await elsewhere.outcome(judged.id, Evaluation(1.0))
        await elsewhere.ledger.write_recalls()
        left = await everything(lessons)
        assert (left.count(judged.id), gone.id in left) == (2, False)
        assert set((await lessons.ledger.credits(max_age=0.0)).tallies) == {kept.id}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_of_it_is_left_in_a_database(postgres_database):
    store = open_store(postgres_database, embedder=HashingEmbedder(), namespace="tests")
    async with VectorLessonStore(store, settings=LessonSettings()) as lessons:
        kept = await learn(lessons, CLEAN, SINK, "mug-run")
        gone = await learn(lessons, TEAPOT, BRUSH, "brush-run")
        await by_curator(lessons, kept, gone)
        await Curator(lessons.repository).rollback(kept.id, to=1)
        assert await lessons.get(gone.id) == gone
        await by_consolidation(lessons, kept, gone)
        assert await lessons.forget(gone.id)
        left = await everything(lessons)
        assert [word for word in (*WORDS, gone.id) if word in left] == []
        assert (await lessons.recall(CLEAN, k=5)).texts == (SINK,)


async def test_no_byte_of_it_is_left_on_disk(tmp_path):
    store = FaissVectorStore(tmp_path, embedder=HashingEmbedder(), namespace="tests")
    words = tuple(word.encode() for word in WORDS)
    async with VectorLessonStore(store, settings=LessonSettings()) as lessons:
        kept = await learn(lessons, CLEAN, SINK, "mug-run")
        gone = await learn(lessons, TEAPOT, BRUSH, "brush-run")
        await by_curator(lessons, kept, gone)
        assert all(word in _bytes(tmp_path) for word in words)
        assert await lessons.forget(gone.id)
        with anyio.fail_after(60):  # the write-ahead log is cleared a moment after
            while any(word in _bytes(tmp_path) for word in (*words, gone.id.encode())):  # noqa: ASYNC110
                await anyio.sleep(0.05)
    left = _bytes(tmp_path)
    assert [word for word in (*words, gone.id.encode()) if word in left] == []
    assert kept.id.encode() in left


def _bytes(folder) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


class Calls:
    """Counts the functions that this thread calls: a measure of work that no other process and no sweep changes."""

    def __init__(self) -> None:
        self.made = 0

    def _note(self, _frame: object, event: str, _about: object) -> None:
        self.made += event in ("call", "c_call")

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


async def test_a_long_ledger_is_gone_through_in_small_pieces():
    store = InMemoryVectorStore(HashingEmbedder(), namespace="tests")
    async with VectorLessonStore(store) as lessons:
        gone = await learn(lessons, TEAPOT, BRUSH, "a")
        left_out = [{"lesson_id": f"{n}", "similarity": 0.5, "reason": "4 better ones"} for n in range(40)]
        for n in range(1500):
            await lessons.records.append_once("recalls", f"r{n}", {"left_out": left_out})
        with Calls() as calls:
            turns = [calls.made]

            async def turn() -> None:
                while True:
                    await anyio.lowlevel.checkpoint()
                    turns.append(calls.made)

            async with anyio.create_task_group() as group:
                group.start_soon(turn)
                assert await lessons.forget(gone.id)
                group.cancel_scope.cancel()
        assert turns[-1] - turns[0] > 1500 * 40, "it was not gone through"
        # At most 187 records in a turn, where the bound in time allowed 200 of 600.
        longest = max(later - sooner for sooner, later in itertools.pairwise(turns))
        assert longest < (turns[-1] - turns[0]) / 8


async def test_a_lesson_is_forgotten_through_every_lesson_that_spoke_for_its_speaker(make):
    """What one took in goes on with it where it is merged in turn; what the one between knew by itself stays."""
    async with make() as lessons:
        curator = Curator(lessons.repository)
        gone, between = (
            await learn(lessons, TEAPOT, BRUSH, "brush-run"),
            await learn(lessons, CLEAN, SINK, "mug"),
        )
        last = await learn(lessons, Task("heat the potato"), "Heat the potato first.", "potato")
        await curator.merge(between.id, [gone.id], text=BRUSH)
        await curator.merge(last.id, [between.id], text=BRUSH)
        assert await lessons.forget(gone.id)
        held = await everything(lessons)
        assert not [word for word in (*WORDS, gone.id) if word in held]
        stored = await lessons.repository.read(last.id)
        assert stored.tasks == ("heat the potato", CLEAN.prompt)
        assert stored.lesson.text == "Heat the potato first."
