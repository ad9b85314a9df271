"""A lesson that does not fit is kept out, wherever it comes from; one that lies in a store already is named."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from jeeves_reflexion import (
    ConfigurationError,
    Evaluation,
    FunctionAgent,
    Lesson,
    LessonStoreError,
    Provenance,
    Reflection,
    Reflexion,
    Task,
)
from jeeves_reflexion.lessons.exchange import from_line, to_line
from jeeves_reflexion.lessons.gate import clean
from jeeves_reflexion.lessons.history import HISTORY, Change
from vectorstores.base import Chunk

pytestmark = pytest.mark.anyio


TASK = Task("Find the red mug", id="mug")
GOOD = Reflection("Look in the cabinet before the drawer.")
BAD_METADATA = {
    "tasks": 5,
    "wordings": [1],
    "copies": [{"text": "No run is named."}],
    "merged_into": ["one"],
    "drawn_from": "one",
}
BAD_DATES = [1e300, -1e300, 10**400, 253_402_300_800.0]
ONE = Lesson("one", "Open the drawer first.", "t1", "Find", Provenance("r1", 1, 0.5, "m", "ann", 12.5))


@pytest.fixture(params=[*BAD_METADATA.items(), *(("created_at", date) for date in BAD_DATES)], ids=str)
def poison(request) -> Lesson:
    name, value = request.param
    if name == "created_at":
        return replace(ONE, provenance=replace(ONE.provenance, created_at=value))
    return replace(ONE, metadata={name: value})


def test_no_line_brings_it_in(poison):
    with pytest.raises(ConfigurationError, match=r"created_at|metadata"):
        from_line(to_line(poison, ["task"]))


async def test_no_program_stores_it(poison, make):
    async with make() as store:
        with pytest.raises(ConfigurationError, match=r"created_at|metadata"):
            await store.repository.put(await clean(poison, ["task"]), Change("learn"))
        assert await store.count() == 0


async def stored(store, **spoiled):
    """Store a good lesson, and change its rows behind the lessons' back; returns it."""
    good = await store.record(TASK, GOOD, provenance=Provenance("r1", 0, 0.0))
    faces = await store.store.get_by_ids([f"{good.id}:{number}" for number in range(3)])
    rows = [
        Chunk(face.content, id=face.id, metadata={**face.metadata, **spoiled}, embed_text=face.embed_text)
        for face in faces
    ]
    await store.store.add(rows)
    return good


@pytest.mark.parametrize(
    "spoiled", [{"extra": {"tasks": 5}}, {"created_at": 1e300}, {"tools": "mug"}, {"trust": "mine"}], ids=str
)
async def test_a_stored_row_is_one_error_that_names_it_and_can_be_forgotten(spoiled, make):
    async with make() as store:
        bad = await stored(store, **spoiled)
        other = await store.record(
            Task("Boil an egg", id="egg"),
            Reflection("Salt the water first."),
            provenance=Provenance("r", 0, 0),
        )
        for call in (store.list, lambda: store.get(bad.id), lambda: store.repository.read(bad.id)):
            with pytest.raises(LessonStoreError, match=f"{bad.id}:0"):
                await call()
        with pytest.raises(LessonStoreError, match=bad.id):  # what another took from it can't be told
            await store.forget(other.id)
        assert await store.forget(bad.id)
        assert [lesson.id for lesson in (await store.list()).lessons] == [other.id]
        assert not await store.forget(bad.id)
        assert await store.forget(other.id)


async def test_a_stored_row_does_not_end_a_run(make, caplog):
    async with make() as store:
        bad = await stored(store, extra={"wordings": [1]})
        agent = FunctionAgent(lambda task: "a blue mug")
        with caplog.at_level(logging.WARNING, "jeeves_reflexion"):
            result = await Reflexion(
                agent,
                evaluator=lambda task, attempt: Evaluation(0.0),
                reflector=lambda task, trials, problem=None: Reflection(
                    "Check the colour before you answer."
                ),
                lesson_store=store,
                max_attempts=2,
            ).run(TASK)
        assert [trial.recall.offered[0].lesson.text for trial in result.trials[1:]] == [
            "Check the colour before you answer."
        ]
        assert any(bad.id in record.message for record in caplog.records)


async def test_a_stored_row_does_not_keep_its_equal_from_being_learned(make, caplog):
    async with make() as store:
        bad = await stored(store, trust="mine")
        again = await store.record(TASK, GOOD, provenance=Provenance("r2", 0, 0.0))
        assert again.id != bad.id
        assert (await store.recall(TASK, k=1)).texts == (again.text,)
        assert any(bad.id in record.message for record in caplog.records)


async def test_an_entry_of_a_history_is_named_and_can_be_forgotten(make):
    async with make() as store:
        good = await store.record(TASK, GOOD, provenance=Provenance("r1", 0, 0.0))
        key = f"{good.id}:000001"
        await store.records.delete_records(HISTORY, [key])
        await store.records.append_once(HISTORY, key, {"number": "one", "after": []})
        with pytest.raises(LessonStoreError, match=key):
            await store.repository.history(good.id)
        assert await store.forget(good.id)
        assert await store.records.get(HISTORY, key) is None


async def test_metadata_of_a_user_that_looks_like_a_note_is_no_trace(make):
    async with make() as store:
        mine = replace(ONE, metadata={"seen": [{"run_id": ["x"]}, {"run_id": "r1", "attempt": {}}]})
        await store.repository.put(await clean(mine, ["Find"]), Change("learn"))
        other = await store.record(TASK, GOOD, provenance=Provenance("r9", 0, 0.0))
        assert await store.forget(other.id)
        assert await store.get("one") == mine
