"""How much a recall and a record ask of the store below: few calls, whatever the number of lessons and attempts.

Each call of a store is at most one transaction, so these numbers are what they cost on a disk or over a network.
"""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from jeeves_reflexion import (
    Evaluation,
    Lesson,
    LessonSettings,
    Provenance,
    Reflection,
    Task,
    VectorLessonStore,
)
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.credit.ledger import Ledger
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, Verdict, counting_of, entry_of
from jeeves_reflexion.lessons.settings import Credit, Picking
from vectorstores import FaissVectorStore, HashingEmbedder, InMemoryVectorStore
from vectorstores.base import RecordWrite
from vectorstores.store import Store

pytestmark = pytest.mark.anyio

SOURCE = Provenance("learning", 1, 0.0, created_at=1.0)
CALLS = ("add", "search", "get_by_ids", "scan", "append_once", "get", "compare_and_swap", "scan_records")
THINGS = ("mug", "potato", "ladle", "egg", "tomato", "knife", "bowl", "lettuce", "bread", "kettle")


@pytest.fixture(params=["memory", "faiss"])
async def store(request, tmp_path):
    if request.param == "memory":
        made = InMemoryVectorStore(HashingEmbedder(), namespace="tests")
    else:
        made = FaissVectorStore(tmp_path / "store", embedder=HashingEmbedder(), namespace="tests")
    async with made:
        yield made


@pytest.fixture
def calls(store: Store, monkeypatch) -> list[tuple[str, dict[str, object]]]:
    """What is called of the store, with its named arguments."""
    made = []

    def noted(name):
        call = getattr(store, name)

        async def note(*given, **named):
            made.append((name, named))
            return await call(*given, **named)

        return note

    for name in CALLS:
        monkeypatch.setattr(store, name, noted(name))
    return made


def task(number: int) -> Task:
    return Task(f"put the {THINGS[number % 10]} into cabinet {number}", kind="put")


async def learn(
    lessons, number: int, text: str = "", *, run: str = "learning", of: Task | None = None
) -> Lesson:
    text = text or f"Open cabinet {number} before you fetch the {THINGS[number % 10]}."
    return await lessons.record(
        of or task(number), Reflection(text), provenance=Provenance(run, 1, 0.0, created_at=1.0)
    )


def names(calls) -> Counter[str]:
    return Counter(name for name, _ in calls)


@pytest.mark.parametrize("size", [8, 80])
async def test_a_recall_is_one_search_and_its_outcome_one_write(store, calls, size):
    lessons = VectorLessonStore(store)
    for number in range(size):
        await learn(lessons, number)
    for attempt in (1, 2, 3):
        calls.clear()
        recall = await lessons.recall(task(3), k=5, run_id="run", attempt=attempt)
        assert names(calls) == {"search": 1}
        assert next(named["k"] for name, named in calls if name == "search") == 6
        assert len(recall.offered) == 5
    calls.clear()
    await lessons.outcome(recall.id, Evaluation(1.0))
    assert names(calls) == {"scan_records": 1, "add": 1}, (
        "whether anything was forgotten since, and the write"
    )
    assert [each.attempt for each in await lessons.ledger.run("run")] == [1, 2, 3]


async def test_with_credit_a_recall_reads_the_ledger_now_and_then_only(store, calls):
    lessons = VectorLessonStore(
        store, settings=LessonSettings(credit=Credit(Withholding(0.2, seed=1), max_age=3600.0))
    )
    for number in range(12):
        await learn(lessons, number)
    for number in range(30):
        recall = await lessons.recall(task(number % 12), k=3, run_id=f"run{number}", attempt=1)
        await lessons.outcome(recall.id, Evaluation(1.0))
    calls.clear()
    for number in range(10):
        await lessons.recall(task(number), k=3, run_id="later", attempt=number)
    assert names(calls) == {"search": 10}


async def test_old_verdicts_are_not_read_again(store, calls):
    now = [1000.0]
    ledger = Ledger(store, lambda: now[0], settle_seconds=10)
    entry = entry_of(
        Verdict("evaluator", 1.0, at=1000.0),
        counting_of({"offered": [], "withheld": [], "at": 1.0, "draw": None}),
    )
    await store.add([], records=[RecordWrite(OUTCOMES, f"r{number}", entry) for number in range(700)])
    now[0] = 2000.0
    await ledger.credits(max_age=0)
    assert names(calls)["scan_records"] == 3
    calls.clear()
    await ledger.credits(max_age=0)
    assert names(calls) == {"scan_records": 1}


@pytest.mark.parametrize("size", [8, 80])
async def test_a_new_lesson_is_one_look_and_one_write(store, calls, size):
    lessons = VectorLessonStore(store)
    for number in range(size):
        await learn(lessons, number)
    calls.clear()
    await learn(lessons, size)
    assert names(calls) == {"get": 1, "add": 1}
    assert await lessons.count() == size + 1


async def test_an_equal_lesson_is_read_and_written_once_and_embedded_never(store, calls, monkeypatch):
    lessons = VectorLessonStore(store)
    for number in range(8):
        await learn(lessons, number)
    calls.clear()

    async def embed(_, texts):
        raise AssertionError(f"embedded again: {texts}")

    monkeypatch.setattr(HashingEmbedder, "embed", embed)
    again = await learn(lessons, 3, run="again")
    assert again.support == 2
    # One record says which lesson is its equal, one that it was not forgotten while this was written.
    assert names(calls) == {"get": 2, "get_by_ids": 1, "add": 1}


async def test_all_recalls_of_a_run_are_found_however_many_at_once(store):
    lessons = VectorLessonStore(store)
    await learn(lessons, 1)
    made = []

    async def recall(attempt: int) -> None:
        made.append((await lessons.recall(task(1), k=1, run_id="run", attempt=attempt)).id)

    async with anyio.create_task_group() as group:
        for attempt in range(40):
            group.start_soon(recall, attempt)
    noted = await lessons.ledger.run("run")
    assert {each.recall_id for each in noted} == set(made)
    assert {each.attempt for each in noted} == set(range(40))
    assert await lessons.ledger.run("run 1") == ()


async def test_a_recall_that_is_noted_again_is_there_once(store):
    lessons = VectorLessonStore(store)
    await learn(lessons, 1)
    recall = await lessons.recall(task(1), k=1, run_id="run", attempt=1)
    await lessons.ledger.note_recall(recall, run_id="run", attempt=1)
    assert len(await lessons.ledger.run("run")) == 1
    assert len((await store.scan_records(RECALLS)).records) == 1


@pytest.mark.parametrize("key", ["task", "lesson", "both"])
async def test_two_places_go_to_two_pieces_of_advice(store, key):
    picking = Picking(diversity=0.9)
    lessons = VectorLessonStore(store, settings=LessonSettings(key=key, picking=picking, min_similarity=-1.0))
    texts = [
        "Wash the mug in the sink before you carry it to the machine.",
        "Carry the mug to the machine after you wash it in the sink.",
        "Ask for the key of the cabinet.",
    ]
    for number, text in enumerate(texts):
        source = Provenance(f"run{number}", 1, 0.0, created_at=1.0 + number)
        await lessons.record(Task("put a clean mug in the machine"), Reflection(text), provenance=source)
    recall = await lessons.recall(Task("put a clean mug in the machine"), k=2)
    assert texts[2] in recall.texts
    assert len(set(recall.texts) & {*texts[:2]}) == 1
