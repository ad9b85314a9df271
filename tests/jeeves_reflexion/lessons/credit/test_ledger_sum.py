"""The sum over the ledger is what a naive count would find, in any order of reading and with any gaps."""

from __future__ import annotations

import time

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_parts import figures, recall

from jeeves_reflexion import Evaluation
from jeeves_reflexion.lessons.credit import tally
from jeeves_reflexion.lessons.credit.effects import Draw
from jeeves_reflexion.lessons.credit.ledger import Ledger
from jeeves_reflexion.lessons.credit.tally import VerdictReader
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, Verdict
from vectorstores import HashingEmbedder, InMemoryVectorStore

LESSONS = ["a", "b", "c"]
RUNS = 6
scores = st.sampled_from([0.0, 0.25, 0.5, 1.0])  # sums of these are exact
splits = st.lists(st.booleans(), min_size=len(LESSONS), max_size=len(LESSONS))
steps = st.one_of(
    st.tuples(st.just("recall"), st.integers(0, RUNS - 1), splits, st.sampled_from([0.0, 0.1, 0.5])),
    st.tuples(st.just("outcome"), st.integers(0, RUNS - 1), scores),
    st.tuples(st.just("feedback"), st.integers(0, RUNS - 1), scores),
    st.tuples(st.just("read"), st.booleans()),
)


class Naive:
    """What should count, kept the simple way."""

    def __init__(self) -> None:
        self.recalls: dict[int, tuple[list[bool], float]] = {}
        self.said: dict[int, float] = {}
        self.told: dict[int, float] = {}

    def figures(self, lesson: str) -> tuple[int, float, int, float]:
        at, found = LESSONS.index(lesson), {True: [], False: []}
        for run, (split, share) in self.recalls.items():
            score = self.told.get(run, self.said.get(run))
            if score is not None and share:
                found[split[at]].append(score)
        return len(found[True]), sum(found[True]), len(found[False]), sum(found[False])


async def play(story, check) -> None:
    now, naive = [0.0], Naive()
    async with InMemoryVectorStore(HashingEmbedder(), namespace="tests") as records:
        readers = [Ledger(records, lambda: now[0], settle_seconds=3) for _ in range(2)]
        for step in story:
            now[0] += 1
            match step:
                case ("recall", run, split, share) if run not in naive.recalls:
                    naive.recalls[run] = (split, share)
                    had = [each for each, offered in zip(LESSONS, split, strict=True) if offered]
                    lacked = [each for each in LESSONS if each not in had]
                    await readers[0].note_recall(
                        recall(f"r{run}", had, lacked), run_id=str(run), attempt=1, draw=Draw(share)
                    )
                case ("outcome", run, score) if run in naive.recalls:
                    noted = await readers[0].note_outcome(f"r{run}", Evaluation(score))
                    assert noted == (run not in naive.said)
                    naive.said.setdefault(run, score)
                case ("feedback", run, score) if run in naive.recalls:
                    await readers[0].note_feedback(str(run), score, by="user")
                    naive.told[run] = score
                case ("read", which):
                    check(naive, await readers[which].credits(max_age=0))
        for reader in [*readers, Ledger(records)]:
            check(naive, await reader.credits(max_age=0))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, max_size=40))
def test_every_reader_finds_what_a_naive_count_finds(monkeypatch, story):
    monkeypatch.setattr(tally, "_PAGE", 2)

    def check(naive: Naive, known) -> None:
        for lesson in LESSONS:
            assert figures(known, lesson) == naive.figures(lesson)

    anyio.run(play, story, check)


@settings(deadline=None, max_examples=40)
@given(st.lists(steps, max_size=40), st.randoms())
def test_the_order_of_verdicts_does_not_matter(story, shuffler):
    async def verdicts() -> list:
        async with InMemoryVectorStore(HashingEmbedder(), namespace="tests") as records:
            ledger = Ledger(records)
            for n, step in enumerate(story):
                if step[0] == "recall":
                    await ledger.note_recall(
                        recall(f"r{n}", LESSONS[:2], LESSONS[2:]), run_id="run", attempt=n
                    )
                elif step[0] == "outcome" and await ledger.run("run"):
                    last = (await ledger.run("run"))[-1]
                    await ledger.note_outcome(last.recall_id, Evaluation(step[2]))
                elif step[0] == "feedback" and await ledger.run("run"):
                    await ledger.note_feedback("run", step[2], by="user")
            return [Verdict.read(r) for r in (await records.scan_records(OUTCOMES, limit=1000)).records]

    found = anyio.run(verdicts)

    def summed(each: list):
        reader = VerdictReader(InMemoryVectorStore(HashingEmbedder(), namespace="tests"), time.time, 0)
        for one in each:
            reader.count(one)
        return anyio.run(reader.credits).tallies

    straight = summed(found)
    shuffler.shuffle(found)
    assert summed(found) == straight


@pytest.mark.parametrize("wrong", [-1.0])
def test_a_time_to_settle_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="settle_seconds"):
        Ledger(InMemoryVectorStore(HashingEmbedder(), namespace="tests"), settle_seconds=wrong)
