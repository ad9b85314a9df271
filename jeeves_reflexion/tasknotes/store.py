"""The stores of task notes: one, with versions, over any record store, and one for a user's store of two methods."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import anyio
import anyio.lowlevel

from jeeves_reflexion.callables import run
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.tasknotes.evolution import (
    NoteHistory,
    NoteVersion,
    document_of,
    history_of,
    rolled_back,
    with_reflection,
    with_replacement,
    with_score,
)
from jeeves_reflexion.tasknotes.records import SqliteRecords
from jeeves_reflexion.tasknotes.values import ReflectionStore, ReflectionStoreError, TaskReflection
from jeeves_reflexion.values import check_share
from vectorstores.base import ConflictError, RecordStore, VectorStoreError

COLLECTION: Final = "task_notes"
TRIES: Final = 500
"""So often a change is tried again because another writer was faster. Each time one of them has got through."""

_LONGEST_WAIT: Final = 0.05


class VersionedReflectionStore:
    """A :class:`ReflectionStore` that keeps versions and what the runs under each scored.

    ``records`` is any :class:`~vectorstores.base.RecordStore`, such as the store that the lessons are in. Each change
    is a compare-and-swap, made again on what another worker, process or machine wrote meanwhile: no run count and no
    score is lost. Everything is redacted before it is written. What goes wrong below is raised as
    :class:`ReflectionStoreError` with that error as its cause.
    """

    def __init__(self, records: RecordStore) -> None:
        if not isinstance(records, RecordStore):
            raise ConfigurationError(f"records must be a RecordStore, not {type(records).__name__}")
        self.records = records

    async def _opened(self) -> RecordStore:
        """Return the records; a store that is looked at only when it is first used does so here."""
        return self.records

    async def store(self, task_identity: str, reflection: TaskReflection) -> None:
        """Store a reflection as the task's newest version, with the run count that it has.

        The last of several at once is in force; :meth:`commit` counts.
        """
        _check_reflection(reflection)
        await self._change(task_identity, lambda history: with_replacement(history, reflection))

    async def retrieve(self, task_identity: str) -> TaskReflection | None:
        """Return the reflection of the task's current version, or None."""
        history = await self.history(task_identity)
        return None if history is None else history.reflection

    async def history(self, task_identity: str) -> NoteHistory | None:
        """Return everything kept of a task's notes, or None."""
        _check_identity(task_identity)
        with _store_errors("read task notes"):
            record = await (await self._opened()).get(COLLECTION, task_identity)
        return None if record is None else history_of(task_identity, record.value)

    async def commit(
        self,
        task_identity: str,
        reflection: TaskReflection,
        *,
        description: str = "",
    ) -> NoteHistory:
        """Count a reflection that was made of the current version; return the history.

        Its run count is one more than that of the last. ``description`` is kept, cut, for people who list the notes.
        """
        _check_reflection(reflection)
        return await self._change(
            task_identity, lambda history: with_reflection(history, reflection, description=description)
        )

    async def score(self, task_identity: str, version: int, score: float) -> None:
        """Note the score of a run made under a version; 0: without notes."""
        check_share("score", score)
        await self._change(task_identity, lambda history: with_score(history, version, score))

    async def rollback(
        self, task_identity: str, *, to: int | None = None, reason: str = "by hand"
    ) -> NoteHistory:
        """Make an earlier version the current one: ``to``, or the one that the current was made of; 0 is none.

        Raises :class:`ReflectionStoreError` if there are no notes, or no such version.
        """

        def change(history: NoteHistory) -> NoteHistory:
            current = history.version(history.current)
            target = current.base if to is None and current is not None else to
            if target is None or not history.versions:
                raise ReflectionStoreError(f"task {task_identity} has no notes to roll back")
            if target != 0 and history.version(target) is None:
                known = ", ".join(str(each.number) for each in history.versions)
                raise ReflectionStoreError(
                    f"the notes on task {task_identity} have no version {target}; the versions are: {known}"
                )
            return history if target == history.current else rolled_back(history, target, reason)

        return await self._change(task_identity, change)

    async def forget(self, task_identity: str) -> bool:
        """Remove all that is kept of a task's notes; False if there was nothing."""
        _check_identity(task_identity)
        with _store_errors("forget task notes"):
            return await (await self._opened()).delete_records(COLLECTION, [task_identity]) > 0

    async def list(self) -> tuple[NoteHistory, ...]:
        """Return the notes of all tasks in the order in which they were first written."""
        with _store_errors("list task notes"):
            found = each_record(await self._opened(), COLLECTION)
            return tuple([history_of(each.key, each.value) async for each in found])

    async def close(self) -> None:
        """Close the store below."""
        close: Callable[[], Any] | None = getattr(self.records, "close", None)
        if close is not None:
            with _store_errors("close the store of task notes"):
                await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _change(self, identity: str, change: Callable[[NoteHistory], NoteHistory]) -> NoteHistory:
        _check_identity(identity)
        with _store_errors("store task notes"):
            records = await self._opened()
            for _ in range(TRIES):
                record = await records.get(COLLECTION, identity)
                old = NoteHistory(identity) if record is None else history_of(identity, record.value)
                new = change(old)
                if new == old:
                    return old
                version = None if record is None else record.version
                try:
                    await records.compare_and_swap(COLLECTION, identity, document_of(new), version=version)
                except ConflictError:
                    await anyio.sleep(random.uniform(0.0, _LONGEST_WAIT))  # noqa: S311 - to part the writers
                else:
                    return new
        raise ReflectionStoreError(
            f"the notes on task {identity} kept changing while they were to be written"
        )


def _check_identity(identity: object) -> None:
    if not isinstance(identity, str) or not identity.strip():
        raise ConfigurationError(f"task_identity must be a text that is not blank, not {identity!r}")


def _check_reflection(reflection: object) -> None:
    if not isinstance(reflection, TaskReflection):
        raise ConfigurationError(f"reflection must be a TaskReflection, not {reflection!r}")


@contextlib.contextmanager
def _store_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except VectorStoreError as error:
        raise ReflectionStoreError(f"could not {doing}: {error}") from error


class InMemoryReflectionStore(VersionedReflectionStore):
    """Task notes that are gone with this object; safe for tasks and threads at once."""

    def __init__(self) -> None:
        self._histories: dict[str, NoteHistory] = {}
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """The number of tasks that have notes."""
        return len(self._histories)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._histories.clear()

    async def history(self, task_identity: str) -> NoteHistory | None:
        """Return everything kept of a task's notes, or None."""
        _check_identity(task_identity)
        await anyio.lowlevel.checkpoint()
        return self._histories.get(task_identity)

    async def forget(self, task_identity: str) -> bool:
        """Remove all that is kept of a task's notes; False if there was nothing."""
        _check_identity(task_identity)
        with self._lock:
            return self._histories.pop(task_identity, None) is not None

    async def list(self) -> tuple[NoteHistory, ...]:
        """Return the notes of all tasks in the order in which they were first written."""
        return tuple(self._histories.values())

    async def close(self) -> None:
        """Do nothing: the notes stay as long as this object."""

    async def _change(self, identity: str, change: Callable[[NoteHistory], NoteHistory]) -> NoteHistory:
        _check_identity(identity)
        await anyio.lowlevel.checkpoint()
        with self._lock:
            old = self._histories.get(identity, NoteHistory(identity))
            new = change(old)
            if new != old:
                self._histories[identity] = new
        return new


class SqliteReflectionStore(VersionedReflectionStore):
    """Task notes in the file ``path``, durable when a call returns, in any number of processes at once.

    The file is made at the first write, for this user alone; with ``create=False`` a file that is missing is an
    error. Namespaces of one file never see each other's notes. Not for network file systems, as SQLite's log isn't.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, namespace: str = "default", create: bool = True
    ) -> None:
        self.path = Path(path)
        super().__init__(SqliteRecords(self.path, namespace, create=create))


class PlainStore(VersionedReflectionStore):
    """A user's store of two methods as the reflector writes it: one version, no scores, and the last write counts.

    Its methods may be sync, and are then called in worker threads. It is never given a failed reflection.
    """

    def __init__(self, store: ReflectionStore) -> None:
        self._store = store

    async def history(self, task_identity: str) -> NoteHistory | None:
        """Return what the store has as a history of one version; None for nothing, or a failure."""
        retrieve: Callable[..., Any] = self._store.retrieve
        found = await run(retrieve, partial(retrieve, task_identity))
        if found is not None and not isinstance(found, TaskReflection):
            raise ConfigurationError(
                f"the reflection store returned {type(found).__name__}, no TaskReflection"
            )
        if found is None or not found.complete:
            return None
        version = NoteVersion(1, found, 0)
        return NoteHistory(task_identity, current=1, run_count=found.run_count, versions=(version,))

    async def score(self, task_identity: str, version: int, score: float) -> None:
        """Do nothing: there is nowhere to note it."""

    async def _change(self, identity: str, change: Callable[[NoteHistory], NoteHistory]) -> NoteHistory:
        old = await self.history(identity) or NoteHistory(identity)
        new = change(old)
        if new != old and new.reflection is not None and new.reflection.complete:
            store: Callable[..., Any] = self._store.store
            await run(store, partial(store, identity, new.reflection))
        return new
