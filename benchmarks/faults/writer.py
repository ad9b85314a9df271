"""A process that writes to a store until it is killed, and notes each acknowledged call."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

import anyio

from benchmarks.faults.lane import Lane, Step, vector_of
from vectorstores import JSON, ConflictError, HashingEmbedder, Store, StoreUnavailableError, open_store

RACES: Final = "races"
COUNTER: Final = "counter"
_PATIENCE: Final = 0.2
# Loaded once and forked, so that a writer starts in milliseconds. A missing module raises only where it is needed.
_HEAVY: Final = [__name__, "faiss", "vectorstores.sqlite_faiss", "pgvector.psycopg", "vectorstores.postgres"]


@dataclass(frozen=True, slots=True)
class Job:
    """What a writer does: ``lanes`` concurrent streams of steps, acknowledged in the file ``journal``.

    A ``patient`` writer tries again when the store is unavailable (its server was killed). It starts a new lane,
    because the outcome of the failed step is unknown.
    """

    url: str
    namespace: str
    name: str
    seed: int
    journal: str
    dim: int
    lanes: int = 3
    patient: bool = False
    backwards: bool = False


class Journal:
    """A file of acknowledgements; each is written whole before the next step begins."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, **entry: JSON) -> None:
        """Append a line."""
        os.write(self._handle, json.dumps(entry).encode() + b"\n")


async def write(job: Job) -> None:
    """Write to the store until killed."""
    journal = Journal(Path(job.journal))
    embedder = HashingEmbedder(dim=job.dim)
    async with (
        open_store(job.url, embedder=embedder, namespace=job.namespace) as store,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_end_with, os.getppid())
        for number in range(job.lanes):
            tasks.start_soon(_write_lane, store, job, f"{job.name}.{number}", journal)


async def _end_with(parent: int) -> None:
    """End this process when its parent is gone."""
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells of it
        await anyio.sleep(_PATIENCE)
    os._exit(1)


async def _write_lane(store: Store, job: Job, name: str, journal: Journal) -> None:
    for life in count():
        lane = Lane(f"{name}.{life}", job.seed, job.dim)
        journal.note(lane=lane.name, began=True)
        try:
            await run_lane(store, lane, job.dim, journal)
        except StoreUnavailableError as error:
            journal.note(lane=lane.name, refused=str(error))
            if not job.patient:
                raise
        await anyio.sleep(_PATIENCE)


async def run_lane(store: Store, lane: Lane, dim: int, journal: Journal, *, steps: int | None = None) -> None:
    """Carry out a lane's steps and acknowledge them one by one."""
    for number in count() if steps is None else range(steps):
        step = lane.plan()
        result = await perform(store, lane, step)
        journal.note(lane=lane.name, step=step.kind, result=result)
        lane.done(step)
        if number % 8 == 7:
            await _look(store, lane, dim, journal)


async def _look(store: Store, lane: Lane, dim: int, journal: Journal) -> None:
    """Search for the newest chunk of the lane: a writer must find what it wrote."""
    newest = next((key for collection, key in reversed(lane.items) if not collection), None)
    if newest is None:
        return
    content = lane.items["", newest][0]
    hits = await store.search(vector_of(content, dim), k=1)
    if not hits or hits[0].chunk.content != content:
        journal.note(lane=lane.name, wrong=f"{newest} was written and then not found")


async def perform(store: Store, lane: Lane, step: Step) -> JSON:
    """Make the call of a step."""
    if step.kind == "add":
        return len(await store.add(step.chunks, records=step.records))
    if step.kind == "delete":
        return await store.delete(step.ids, records=step.records)
    if step.kind == "update":
        (chunk,) = await store.get_by_ids(step.ids, vectors=True)
        return len(await store.add([replace(chunk, metadata={**chunk.metadata, **step.patch})]))
    return await _write_record(store, lane, step)


async def _write_record(store: Store, lane: Lane, step: Step) -> JSON:
    if step.kind == "race":
        return await store.append_once(RACES, f"{round_of(lane.name)}/{step.number}", lane.name)
    if step.kind == "count":
        return await _count(store, lane, step.number)
    (record,) = step.records
    if step.kind == "append":
        return await store.append_once(record.collection, record.key, record.value)
    swapped = await store.compare_and_swap(record.collection, record.key, record.value, version=step.version)
    return swapped.version


async def _count(store: Store, lane: Lane, number: int) -> int:
    while True:
        found = await store.get(COUNTER, round_of(lane.name))
        counts = dict(found.value) if found is not None and isinstance(found.value, dict) else {}
        if found is not None and counts.get(lane.name, 0) == number:
            return found.version
        counts[lane.name] = number
        try:
            swapped = await store.compare_and_swap(
                COUNTER,
                round_of(lane.name),
                counts,
                version=None if found is None else found.version,
            )
        except ConflictError:
            continue
        return swapped.version


def round_of(lane: str) -> str:
    """Return the part of a lane's name that all lanes of its round share."""
    return lane.partition(".")[0]


def turn_back_time() -> None:
    """Make each reading of this process's clock earlier than the reading before."""
    start = time.time()
    looks = count(1)
    time.time = lambda: start - 10.0 * next(looks)
    time.time_ns = lambda: int((start - 10.0 * next(looks)) * 1e9)


def start(job: Job) -> BaseProcess:
    """Start a writer."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_HEAVY)
    process = context.Process(target=_run, args=(job,), daemon=True)
    process.start()
    return process


def end(processes: Sequence[BaseProcess]) -> list[int | None]:
    """Kill the processes that still run, and return all exit codes (for a signal, its negative number)."""
    for process in processes:
        process.kill()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def _run(job: Job) -> None:
    try:
        if job.backwards:
            turn_back_time()
        anyio.run(write, job)
    except BaseException as error:
        Journal(Path(job.journal)).note(lane=job.name, wrong=f"a writer ended: {_first(error)!r}")
        raise


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
