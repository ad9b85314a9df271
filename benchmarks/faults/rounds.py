"""Rounds of writing, killing and verifying."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio
import anyio.to_thread

from benchmarks.faults.lane import Item, vector_of
from benchmarks.faults.verify import Journals, Place, Verdict, verify
from benchmarks.faults.writer import Job, end, start
from vectorstores import Chunk, HashingEmbedder, open_store

Way: TypeAlias = Literal["all", "one by one", "some", "early"]
WRITERS: Final = 4
_START_TIMEOUT: Final = 60.0
_POLL: Final = 0.01
_PRELOAD_BATCH: Final = 4000
_REASONS: Final = 5


@dataclass(slots=True)
class Plan:
    """What a run does.

    ``places`` gives the address and namespace of the n-th store. Each store serves ``per_store`` rounds, and every
    other one starts with ``preload`` chunks, so that it has the index of a large store. ``between`` is called before
    the writers are killed: it kills the server, which must come back.
    """

    places: Callable[[int], tuple[str, str]]
    scratch: Path
    seed: int = 1
    rounds: int = 10
    per_store: int = 10
    preload: int = 0
    longest: float = 0.8
    """Seconds from the last of these acknowledgements to the kill, at most."""
    calls: int = 1
    """Calls of each writer that are acknowledged before any is killed, except where writers are killed early."""
    dim: int = 64
    backwards: bool = False
    between: Callable[[], None] | None = None


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    verdict: Verdict = field(default_factory=Verdict)
    rounds: int = 0
    killed: int = 0
    refused: int = 0
    """Calls refused while there was no server."""
    reasons: list[str] = field(default_factory=list)
    """The first few errors of refused calls."""
    seconds: float = 0.0


async def run_rounds(plan: Plan, *, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run the rounds one after the other."""
    outcome, start = Outcome(), time.monotonic()
    chance = random.Random(plan.seed)
    settled: dict[Place, Item] = {}
    for number in range(plan.rounds):
        url, namespace = plan.places(number // plan.per_store)
        if number % plan.per_store == 0:
            odd = number // plan.per_store % 2
            settled = await _preload(plan, url, namespace) if odd and plan.preload else {}
        round_ = Round(plan, chance, number, (url, namespace))
        journals = await anyio.to_thread.run_sync(round_.run)
        async with open_store(url, embedder=HashingEmbedder(dim=plan.dim), namespace=namespace) as store:
            verdict = await verify(store, journals, settled, plan.seed, plan.dim)
        outcome.verdict.add(verdict)
        outcome.rounds += 1
        outcome.killed += round_.killed
        outcome.refused += len(journals.refused)
        outcome.reasons += journals.refused[: _REASONS - len(outcome.reasons)]
        say(f"round {number + 1}: {verdict.say()}")
    outcome.seconds = time.monotonic() - start
    return outcome


async def _preload(plan: Plan, url: str, namespace: str) -> dict[Place, Item]:
    items: dict[Place, Item] = {}
    async with open_store(url, embedder=HashingEmbedder(dim=plan.dim), namespace=namespace) as store:
        for first in range(0, plan.preload, _PRELOAD_BATCH):
            batch = [filler(n, plan.dim) for n in range(first, min(first + _PRELOAD_BATCH, plan.preload))]
            await store.add(batch)
            items |= {("", chunk.id): (chunk.content, dict(chunk.metadata)) for chunk in batch}
        await store.search(vector_of("anything", plan.dim), k=1)
    return items


def filler(number: int, dim: int) -> Chunk:
    """Return a chunk that is in the store before the writers start."""
    content = f"filler/{number}"
    return Chunk(content, content, {"n": number}, vector=vector_of(content, dim))


class Round:
    """Starts writers, lets them write, and kills them."""

    def __init__(self, plan: Plan, chance: random.Random, number: int, place: tuple[str, str]) -> None:
        self.killed = 0
        self._plan, self._chance, self._number = plan, chance, number
        self._journals = [plan.scratch / f"journal-{number}-{writer}" for writer in range(WRITERS)]
        self._place = place

    def run(self) -> Journals:
        """Kill the writers and return their journals."""
        jobs = [self._job(writer) for writer in range(WRITERS)]
        ways: Sequence[Way] = ("all", "one by one", "some", "early")
        way: Way = "all" if self._plan.between else self._chance.choice(ways)
        writers = [start(job) for job in jobs]
        try:
            if way == "early":
                time.sleep(self._chance.random() * self._plan.longest / 4)
            else:
                self._wait_for_acknowledgements(calls=self._plan.calls)
                time.sleep(self._chance.random() * self._plan.longest)
            if self._plan.between:
                self._plan.between()
                self._wait_for_acknowledgements()
            self._kill(writers, way)
        finally:
            statuses = end(writers)
        self.killed = statuses.count(-signal.SIGKILL)
        journals = Journals()
        for path in self._journals:
            journals.read(path)
        if self.killed < WRITERS:
            journals.wrong.append(f"writers ended by themselves: {statuses}")
        return journals

    def _job(self, writer: int) -> Job:
        url, namespace = self._place
        return Job(
            url,
            namespace,
            f"r{self._number}.{writer}",
            self._plan.seed,
            str(self._journals[writer]),
            self._plan.dim,
            patient=self._plan.between is not None,
            backwards=self._plan.backwards,
        )

    def _kill(self, writers: Sequence[BaseProcess], way: Way) -> None:
        victims = list(range(WRITERS))
        self._chance.shuffle(victims)
        if way == "some":
            for victim in victims[: WRITERS // 2]:
                writers[victim].kill()
            # The others must be able to continue, whatever lock the dead processes held.
            self._wait_for_acknowledgements(set(victims[WRITERS // 2 :]))
        for victim in victims:
            writers[victim].kill()
            if way == "one by one":
                time.sleep(self._chance.random() * 0.1)

    def _wait_for_acknowledgements(self, writers: set[int] | None = None, *, calls: int = 1) -> None:
        """Wait until each of these writers has ``calls`` more acknowledged, or one has noted a fault."""
        paths = [path for n, path in enumerate(self._journals) if writers is None or n in writers]
        before = [_acknowledged(path) for path in paths]
        deadline = time.monotonic() + _START_TIMEOUT
        while any(_acknowledged(path) < known + calls for path, known in zip(paths, before, strict=True)):
            if any(path.exists() and b'"wrong"' in path.read_bytes() for path in paths):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"some writer had fewer than {calls} calls acknowledged in {_START_TIMEOUT:.0f} s"
                )
            time.sleep(_POLL)


def _acknowledged(path: Path) -> int:
    return path.read_bytes().count(b'"step"') if path.exists() else 0
