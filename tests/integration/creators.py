"""Two processes that create the same store at once, one of which is killed."""

import random
import time
from collections.abc import Iterable
from pathlib import Path

import anyio

from benchmarks.faults.verify import Journals, Verdict, verify
from benchmarks.faults.writer import Job, end, start
from vectorstores import HashingEmbedder, open_store

NAMESPACE = "test"


async def verdict_on(place: str | Path, journals: Journals, seed: int, dim: int) -> Verdict:
    """Hold what a store has against what writers noted."""
    async with open_store(place, embedder=HashingEmbedder(dim=dim), namespace=NAMESPACE) as store:
        return await verify(store, journals, {}, seed, dim)


def kill_one_of_two_creators(
    places: Iterable[str], scratch: Path, *, seed: int, dim: int, longest: float, patience: float
) -> Verdict:
    """Have two processes create a store at each place, and kill one within ``longest`` seconds, now this, now that one.

    The other must create the store and write to it within ``patience`` seconds. Returns the verdict on all places.
    """
    chance, verdict = random.Random(seed), Verdict()
    for number, place in enumerate(places):
        journals = [scratch / f"{number}-{n}" for n in range(2)]
        jobs = [Job(place, NAMESPACE, f"r.{n}", seed, str(journals[n]), dim) for n in range(2)]
        writers = [start(job) for job in jobs]
        try:
            time.sleep(chance.random() * longest)
            writers[number % 2].kill()
            other = journals[1 - number % 2]
            deadline = time.monotonic() + patience
            while not (other.exists() and other.read_bytes().count(b'"step"') > 2):
                assert time.monotonic() < deadline, "the other could not create the store or write to it"
                time.sleep(0.01)
        finally:
            end(writers)
        noted = Journals()
        for journal in journals:
            noted.read(journal)
        verdict.add(anyio.run(verdict_on, place, noted, seed, dim))
    return verdict
