"""The ledger: what is noted, what counts, over memory and over FAISS on disk."""

from __future__ import annotations

import json

import anyio.lowlevel
import pytest
from ledger_parts import DRAWN, figures, note, recall, verdicts

from jeeves_reflexion import Evaluation, LessonStoreError
from jeeves_reflexion.lessons.credit import tally
from jeeves_reflexion.lessons.credit.effects import NO_DRAW, Cell, Draw, Withholding
from jeeves_reflexion.lessons.credit.ledger import Ledger, RunRecall
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS
from vectorstores import FaissVectorStore, HashingEmbedder, InMemoryVectorStore

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "faiss"])
async def records(request, tmp_path):
    embedder = HashingEmbedder()
    if request.param == "memory":
        store = InMemoryVectorStore(embedder, namespace="tests")
    else:
        store = FaissVectorStore(tmp_path / "store", embedder=embedder, namespace="tests")
    async with store:
        yield store


@pytest.fixture
def ledger(records) -> Ledger:
    return Ledger(records)


async def of(ledger: Ledger, lesson_id: str):
    return figures(await ledger.credits(max_age=0), lesson_id)


async def everything(records) -> str:
    pages = [await records.scan_records(each, limit=1000) for each in (RECALLS, "run run", OUTCOMES)]
    return json.dumps([record.value for page in pages for record in page.records])


async def test_attempts_count_with_what_they_had_and_without_what_was_withheld(ledger):
    await note(ledger, "r1", ["a", "b"], ["c"])
    await note(ledger, "r2", ["c"], ["a"])
    assert await ledger.note_outcome("r1", Evaluation(1.0)) is True
    assert await ledger.note_outcome("r2", Evaluation(0.25)) is True
    assert await of(ledger, "a") == (1, 1.0, 1, 0.25)
    assert await of(ledger, "b") == (1, 1.0, 0, 0.0)
    assert await of(ledger, "c") == (1, 0.25, 1, 1.0)
    assert await of(ledger, "unheard of") == (0, 0, 0, 0)


async def test_a_recall_without_an_outcome_counts_for_nothing(ledger):
    await note(ledger, "r1", ["a"])
    assert (await ledger.credits(max_age=0)).tallies == {}


async def test_what_no_draw_decided_is_no_part_of_the_comparison(ledger):
    await ledger.note_recall(recall("r1", ["a"], left_out=["b"]))
    await ledger.note_outcome("r1", Evaluation(1.0))
    known = await ledger.credits(max_age=0)
    assert figures(known, "a") == (0, 0, 0, 0)
    assert known.lift("a").value is None
    assert "b" not in known.tallies


async def test_what_older_versions_noted_as_left_out_is_forgotten(ledger, records):
    item = {"lesson_id": "gone", "similarity": 0.5, "reason": "3 better ones"}
    await records.append_once(
        RECALLS, "old", {"format": 2, "offered": [], "withheld": [], "left_out": [item]}
    )
    assert await ledger.forget("gone") == 1
    assert (await records.get(RECALLS, "old")).value["left_out"] == []


async def test_an_outcome_counts_once(ledger):
    await note(ledger, "r1", ["a"])
    assert await ledger.note_outcome("r1", Evaluation(0.5)) is True
    assert await ledger.note_outcome("r1", Evaluation(1.0)) is False
    assert await of(ledger, "a") == (1, 0.5, 0, 0)
    assert await of(ledger, "a") == (1, 0.5, 0, 0)


async def test_a_verdict_without_a_score_is_its_pass_or_fail(ledger):
    await note(ledger, "r1", ["a"])
    await note(ledger, "r2", ["a"])
    await ledger.note_outcome("r1", Evaluation(None, passed=True))
    await ledger.note_outcome("r2", Evaluation(None, passed=False))
    assert await of(ledger, "a") == (2, 1.0, 0, 0)


async def test_an_unscorable_attempt_leaves_room_for_a_verdict(ledger):
    await note(ledger, "r1", ["a"])
    assert await ledger.note_outcome("r1", Evaluation(None)) is False
    assert await ledger.note_outcome("r1", Evaluation(0.0)) is True


async def test_an_outcome_of_an_unknown_recall_is_an_error(ledger):
    with pytest.raises(LessonStoreError, match="no recall 'nowhere'"):
        await ledger.note_outcome("nowhere", Evaluation(1.0))


@pytest.mark.parametrize("what", ["a score", "no score", "another's question", "many recalls"])
async def test_a_recall_is_written_by_the_time_that_others_may_ask_for_it(ledger, records, what):
    await note(ledger, "r1", ["a"], run_id="run", attempt=1)
    elsewhere = Ledger(records)
    assert await elsewhere.run("run") == ()
    match what:
        case "a score" | "no score":
            await ledger.note_outcome("r1", Evaluation(0.5 if what == "a score" else None))
        case "another's question":
            await ledger.note_feedback("run", 0.5, by="ann")
        case _:
            for number in range(40):
                await note(ledger, f"other{number}", [])
    assert await elsewhere.run("run") == (RunRecall("r1", 1, "task"),)
    assert await elsewhere.note_outcome("r1", Evaluation(1.0)) is (what != "a score")


@pytest.mark.parametrize("bad", [{"run_id": "cut \ud83d"}, {"attempt": float("nan")}])
async def test_a_recall_that_no_store_takes_keeps_no_other_from_being_written(ledger, records, bad):
    await note(ledger, "bad", ["a"], **{"run_id": "run", "attempt": 1, **bad})
    await note(ledger, "r1", ["a"], run_id="run", attempt=2)
    assert await ledger.note_outcome("r1", Evaluation(1.0)) is True
    with pytest.raises(LessonStoreError, match="bad"):
        await ledger.note_outcome("bad", Evaluation(0.0))
    await note(ledger, "bad again", ["a"], **{"run_id": "run", "attempt": 1, **bad})
    for number in range(40):
        await note(ledger, f"other{number}", [], run_id=f"run{number}", attempt=1)
    await ledger.note_feedback("run39", 0.5, by="ann")
    assert await of(ledger, "a") == (1, 1.0, 0, 0)
    assert await Ledger(records).run("run") == (RunRecall("r1", 2, "task"),)


async def test_many_recalls_at_once_write_each_note_once(ledger, records, monkeypatch):
    written, add = [], records.add

    async def counting(chunks, *, records):
        written.extend(record.key for record in records)
        await anyio.lowlevel.checkpoint()
        return await add(chunks, records=records)

    monkeypatch.setattr(records, "add", counting)
    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(note, ledger, f"r{number}", ["a"])
    assert len(written) == len(set(written)) >= 100 - 32  # no more than 32 wait


async def test_who_reports_an_outcome_and_why_is_kept(ledger):
    await note(ledger, "r1", ["a"])
    await ledger.note_outcome("r1", Evaluation(1.0), by="grace", reason="the build is green")
    (verdict,) = await verdicts(ledger, "r1")
    assert (verdict.kind, verdict.by, verdict.reason) == ("evaluator", "grace", "the build is green")


async def test_noting_a_recall_twice_changes_nothing(ledger):
    await note(ledger, "r1", ["a"], run_id="run", attempt=1)
    await note(ledger, "r1", ["b"], run_id="run", attempt=1)
    await ledger.note_outcome("r1", Evaluation(1.0))
    assert await of(ledger, "b") == (0, 0, 0, 0)
    assert await ledger.run("run") == (RunRecall("r1", 1, "task"),)


async def test_no_text_is_kept(ledger, records):
    await note(ledger, "r1", ["a"], ["b"], run_id="run", attempt=1)
    await ledger.note_outcome("r1", Evaluation(1.0, rationale="secret rationale"))
    await ledger.note_feedback(
        "run", 0.0, by="ann@example.org", reason="token sk-proj-AbCdEf0123456789AbCdEf"
    )
    kept = await everything(records)
    assert "the text of" not in kept
    assert "rationale" not in kept
    assert "sk-proj" not in kept
    assert "near the task" in kept


# -- the library


async def test_the_library_is_measured_by_whole_recalls(ledger):
    whole = Draw(0.2, 0.04, whole=True)
    for n in range(6):
        await note(ledger, f"all{n}", ["a", "b"])
        await note(ledger, f"none{n}", [], ["a", "b"], draw=whole)
        await note(ledger, f"part{n}", ["a"], ["b"])
        await ledger.note_outcome(f"all{n}", Evaluation(1.0))
        await ledger.note_outcome(f"none{n}", Evaluation(0.0))
        await ledger.note_outcome(f"part{n}", Evaluation(0.5))
    known = await ledger.credits(max_age=0)
    library = known.library_lift()
    assert (library.value, library.n_with, library.n_without) == (1.0, 6, 6)
    # What lacks all lessons says nothing of one of them.
    assert figures(known, "a") == (12, 9.0, 0, 0)
    assert figures(known, "b") == (6, 6.0, 6, 3.0)


async def test_what_is_exempt_is_no_part_of_its_own_comparison(ledger):
    draw = Draw(0.2, 0.04, exempt=frozenset({"a"}))
    await note(ledger, "r1", ["a", "b"], draw=draw)
    await ledger.note_outcome("r1", Evaluation(1.0))
    known = await ledger.credits()
    assert figures(known, "a") == (0, 0, 0, 0)
    assert figures(known, "b") == (1, 1.0, 0, 0)
    assert known.library_lift().n_with == 1
    assert list(known.library.cells) == [(0.2, 0.04, 2, 1)]


async def test_each_lesson_is_compared_within_its_own_share(ledger, records):
    draw = Draw(0.1, 0.02, shares={"new": 0.5, "newer": 0.25})
    await note(ledger, "r1", ["new", "known"], ["newer"], draw=draw)
    await note(ledger, "r2", ["new", "newer"], draw=draw)
    for each in ("r1", "r2"):
        await ledger.note_outcome(each, Evaluation(1.0))
    for each in (ledger, Ledger(records)):
        known = await each.credits(max_age=0)
        cells = {each: dict(known.tally(each).cells) for each in ("new", "newer", "known")}
        assert cells == {
            "new": {(0.5,): Cell(2, 2.0)},
            "newer": {(0.25,): Cell(1, 1.0, 1, 1.0)},
            "known": {(0.1,): Cell(1, 1.0)},
        }
        assert [known.scored(each) for each in ("new", "newer", "known", "other")] == [2, 2, 1, 0]
        # Whether all of a recall are offered depends on their shares.
        assert list(known.library.cells) == [(0.1, 0.02, 2, 0, 0.25, 0.5)]


async def test_the_draw_withholds_less_of_what_is_known(ledger):
    drawing = Withholding(0.1, early=0.5)
    for n in range(15):
        await note(ledger, f"r{n}", ["known"], draw=Draw(0.1, shares={"known": 0.5}))
        await ledger.note_outcome(f"r{n}", Evaluation(0.5))
    known = await ledger.credits(max_age=0)
    assert known.draw(drawing, "key", ["known", "new"]).shares == {"known": 0.25, "new": 0.5}


async def test_what_is_shown_to_help_goes_on_being_withheld(ledger):
    for n in range(40):
        await note(ledger, f"r{n}", ["a"], ["b"])
        await note(ledger, f"s{n}", [], ["a"], draw=Draw(DRAWN.share, DRAWN.whole_share, whole=n < 20))
        await ledger.note_outcome(f"r{n}", Evaluation(1.0))
        await ledger.note_outcome(f"s{n}", Evaluation(0.0))
    known = await ledger.credits(max_age=0)
    assert known.judge("a").kind == "helps"
    drawing = Withholding(0.4, seed=1)
    draws = [known.draw(drawing, str(n), ["a", "b"]) for n in range(2000)]
    drawn = [draw for draw in draws if not draw.whole]
    for lesson_id, share in (("a", 0.1), ("b", 0.4)):
        withheld = sum(lesson_id in draw.withheld for draw in drawn) / len(drawn)
        assert withheld == pytest.approx(share, abs=0.05)
    # It is noted, so that attempts are compared within the share that they were drawn by.
    assert all((draw.shares, draw.exempt) == ({"a": 0.1}, frozenset()) for draw in draws)
    # Whole recalls too, which measure the library.
    assert sum(draw.whole for draw in draws) / 2000 == pytest.approx(0.08, abs=0.03)
    assert known.draw(Withholding(), "key", ["a", "b"]) == NO_DRAW


async def test_recalls_that_found_nothing_say_nothing_of_the_library(ledger):
    await note(ledger, "r1", [])
    await ledger.note_outcome("r1", Evaluation(1.0))
    assert (await ledger.credits(max_age=0)).library_lift().n_with == 0


# -- reading


async def test_only_what_is_new_is_read(ledger, monkeypatch):
    monkeypatch.setattr(tally, "_PAGE", 3)
    old = Ledger(ledger.records, lambda: 1000.0)
    for n in range(10):
        await note(old, f"r{n}", ["a"])
        await old.note_outcome(f"r{n}", Evaluation(1.0))
    assert await of(ledger, "a") == (10, 10.0, 0, 0)
    asked = []
    scan = ledger.records.scan_records

    async def counting(collection, *, after=None, limit=100):
        asked.extend([after] if collection == OUTCOMES else [])
        return await scan(collection, after=after, limit=limit)

    monkeypatch.setattr(ledger.records, "scan_records", counting)
    await note(ledger, "new", ["a"])
    await ledger.note_outcome("new", Evaluation(0.5))
    assert await of(ledger, "a") == (11, 10.5, 0, 0)
    assert len(asked) == 1
    assert asked[0] is not None


async def test_credits_are_taken_as_they_are_for_a_while(ledger):
    await note(ledger, "r1", ["a"])
    before = await ledger.credits(max_age=60)
    await ledger.note_outcome("r1", Evaluation(1.0))
    assert await ledger.credits(max_age=60) is before
    assert figures(await ledger.credits(max_age=0), "a") == (1, 1.0, 0, 0)


async def test_many_readers_at_once_count_once(ledger, monkeypatch):
    monkeypatch.setattr(tally, "_PAGE", 2)
    for n in range(9):
        await note(ledger, f"r{n}", ["a"])
        await ledger.note_outcome(f"r{n}", Evaluation(1.0))
    found = []

    async def read(max_age: float) -> None:
        found.append(figures(await ledger.credits(max_age=max_age), "a"))

    async with anyio.create_task_group() as group:
        for n in range(10):
            group.start_soon(read, float(n % 2))
    assert found == [(9, 9.0, 0, 0)] * 10


async def test_a_reader_that_is_cancelled_leaves_nothing_half_counted(ledger, monkeypatch):
    monkeypatch.setattr(tally, "_PAGE", 2)
    for n in range(9):
        await note(ledger, f"r{n}", ["a"])
        await ledger.note_outcome(f"r{n}", Evaluation(1.0))
    scan, calls = ledger.records.scan_records, []

    async def slow(*args, **more):
        calls.append(1)
        if len(calls) == 3:
            scope.cancel()
        await anyio.lowlevel.checkpoint()
        return await scan(*args, **more)

    monkeypatch.setattr(ledger.records, "scan_records", slow)
    with anyio.CancelScope() as scope:
        await ledger.credits()
    assert scope.cancelled_caught
    assert await of(ledger, "a") == (9, 9.0, 0, 0)


# -- forgetting


async def test_a_forgotten_lesson_is_nowhere(records, monkeypatch):
    monkeypatch.setattr(tally, "_PAGE", 1)
    ledger = Ledger(records, lambda: 1000.0, settle_seconds=0)
    exempting = Draw(0.2, 0.04, exempt=frozenset({"gone"}), shares={"gone": 0.5, "a": 0.5})
    for n in range(4):
        await note(ledger, f"more{n}", ["gone"])
        await ledger.note_outcome(f"more{n}", Evaluation(1.0))
        await ledger.note_recall(
            recall(f"r{n}", ["gone", "a"], ["b"], ["gone"]), draw=exempting, run_id="run"
        )
        await ledger.note_outcome(f"r{n}", Evaluation(1.0))
    await ledger.credits()
    assert await ledger.forget("gone") == 16
    assert "gone" not in await everything(records)
    for each in (ledger, Ledger(records)):
        known = await each.credits(max_age=0)
        assert "gone" not in known.tallies
        assert figures(known, "a") == (4, 4.0, 0, 0)
        assert figures(known, "b") == (0, 0, 4, 4.0)
    assert await ledger.forget("gone") == 0


# -- what does not fit


@pytest.mark.parametrize("wrong", [{"with": 5}, {"score": "much"}, {"counts": "much"}, {"before": [1]}])
async def test_an_entry_of_another_program_is_a_clear_error(ledger, records, wrong):
    entry = {"score": 1.0, "passed": None, "stake": 1, "with": ["a"], "without": [], "recalled_at": 1.0}
    entry |= {"draw": None, **wrong}
    await records.append_once(OUTCOMES, "r1", entry)
    with pytest.raises(LessonStoreError, match="the verdict 'r1' can't be read"):
        await ledger.credits()


async def test_errors_of_the_store_are_wrapped(records):
    ledger = Ledger(records)
    await records.close()
    with pytest.raises(LessonStoreError, match="could not note an outcome"):
        await ledger.note_outcome("r1", Evaluation(1.0))
    with pytest.raises(LessonStoreError, match="could not read the ledger"):
        await ledger.credits()


async def test_it_is_known_when_a_lesson_was_last_recalled_or_withheld(records):
    ledger = Ledger(records, lambda: 5000.0)
    await note(ledger, "r1", ["a"], ["b"])
    await ledger.note_outcome("r1", Evaluation(1.0))
    known = await ledger.credits()
    assert [known.tally(each).last for each in ("a", "b", "never")] == [5000.0, 5000.0, 0.0]
