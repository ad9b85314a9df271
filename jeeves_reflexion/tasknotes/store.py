"""The stores of task notes: a versioned one over any record store, and an adapter of a user's store of two methods."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Self, TypeAlias

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
    with_score,
)
from jeeves_reflexion.tasknotes.values import ReflectionStore, ReflectionStoreError, TaskReflection
from jeeves_reflexion.values import check_share
from vectorstores.base import ConflictError, RecordStore, VectorStoreError

Change: TypeAlias = Callable[[NoteHistory], NoteHistory]

COLLECTION: Final = "task_notes"
TRIES: Final = 500
"""How often a change is tried while other writers are faster; at each try one of them succeeds."""

_LONGEST_WAIT: Final = 0.05


class VersionedReflectionStore:
    """A :class:`ReflectionStore` that keeps versions and the scores of the runs under each.

    ``records`` is any :class:`~vectorstores.base.RecordStore`, such as the store of the lessons. Each change is a
    compare-and-swap, repeated if another worker, process or machine wrote first, so that no run count and no score is
    lost. Everything is redacted before it is written. Errors of the record store are raised as
    :class:`ReflectionStoreError`, with the error as its cause.
    """

    def __init__(self, records: RecordStore) -> None:
        if not isinstance(records, RecordStore):
            raise ConfigurationError(f"records must be a RecordStore, not {type(records).__name__}")
        self.records = records

    async def store(self, task_identity: str, reflection: TaskReflection) -> None:
        """Store a reflection as the task's current version, with its own run count; :meth:`commit` counts.

        Of several at once, the last one is current.
        """
        if not isinstance(reflection, TaskReflection):
            raise ConfigurationError(f"reflection must be a TaskReflection, not {reflection!r}")
        await self._changed(
            task_identity, lambda history: with_reflection(history, reflection, replaces=True)
        )

    async def retrieve(self, task_identity: str) -> TaskReflection | None:
        """Return the reflection of the task's current version, else the last failed one, or None."""
        history = await self.history(task_identity)
        return None if history is None else history.reflection

    async def history(self, task_identity: str) -> NoteHistory | None:
        """Return everything that is stored of a task's notes, or None."""
        _check_identity(task_identity)
        with _store_errors("read task notes"):
            return await self._read(task_identity)

    async def commit(
        self, task_identity: str, reflection: TaskReflection, *, description: str = ""
    ) -> NoteHistory:
        """Store and count a reflection that was made from the current version; return the history.

        Its run count is that of the last reflection plus one. ``description`` is shortened and stored for people who
        list the notes.
        """
        if not isinstance(reflection, TaskReflection):
            raise ConfigurationError(f"reflection must be a TaskReflection, not {reflection!r}")
        return await self._changed(
            task_identity, lambda history: with_reflection(history, reflection, description=description)
        )

    async def score(self, task_identity: str, version: int, score: float) -> None:
        """Store the score of a run under a version; 0 is a run without notes."""
        score = check_share("score", score)
        await self._changed(task_identity, lambda history: with_score(history, version, score))

    async def rollback(
        self, task_identity: str, *, to: int | None = None, reason: str = "by hand"
    ) -> NoteHistory:
        """Make another version the current one: ``to``, by default the one that the current was made from; 0 is none.

        Raises :class:`ReflectionStoreError` if the task has no notes or no such version.
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

        return await self._changed(task_identity, change)

    async def forget(self, task_identity: str) -> bool:
        """Remove all notes of a task; returns False if it has none."""
        _check_identity(task_identity)
        with _store_errors("forget task notes"):
            return await self._remove(task_identity)

    async def list(self) -> tuple[NoteHistory, ...]:
        """Return the notes of all tasks in the order in which they were first written."""
        with _store_errors("list task notes"):
            return await self._all()

    async def close(self) -> None:
        """Close the record store."""
        close: Callable[[], Any] | None = getattr(self.records, "close", None)
        if close is not None:
            with _store_errors("close the store of task notes"):
                await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _changed(self, identity: str, change: Change) -> NoteHistory:
        _check_identity(identity)
        with _store_errors("store task notes"):
            return await self._change(identity, change)

    # -- where the notes are: the methods that another kind of store overrides

    async def _opened(self) -> RecordStore:
        """Return the records; a subclass may open its store here, at the first call."""
        return self.records

    async def _read(self, identity: str) -> NoteHistory | None:
        record = await (await self._opened()).get(COLLECTION, identity)
        return None if record is None else history_of(identity, record.value)

    async def _remove(self, identity: str) -> bool:
        return await (await self._opened()).delete_records(COLLECTION, [identity]) > 0

    async def _all(self) -> tuple[NoteHistory, ...]:
        records = each_record(await self._opened(), COLLECTION)
        return tuple([history_of(each.key, each.value) async for each in records])

    async def _change(self, identity: str, change: Change) -> NoteHistory:
        """Store what ``change`` makes of a history, which may be empty, and return it."""
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
                await anyio.sleep(random.uniform(0.0, _LONGEST_WAIT))  # noqa: S311 - keeps writers apart
            else:
                return new
        raise ReflectionStoreError(f"the notes on task {identity} kept changing during the write: try again")


def _check_identity(identity: object) -> None:
    if not isinstance(identity, str) or not identity.strip():
        raise ConfigurationError(f"task_identity must be a text that is not blank, not {identity!r}")


@contextlib.contextmanager
def _store_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except VectorStoreError as error:
        raise ReflectionStoreError(f"could not {doing}: {error}") from error


class InMemoryReflectionStore(VersionedReflectionStore):
    """Task notes that live as long as this object; safe for many tasks and threads at once."""

    def __init__(self) -> None:
        self._histories: dict[str, NoteHistory] = {}
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """The number of tasks that have notes."""
        return len(self._histories)

    def clear(self) -> None:
        """Remove all notes."""
        with self._lock:
            self._histories.clear()

    async def close(self) -> None:
        """Do nothing: the notes live as long as this object."""

    async def _read(self, identity: str) -> NoteHistory | None:
        await anyio.lowlevel.checkpoint()
        return self._histories.get(identity)

    async def _remove(self, identity: str) -> bool:
        with self._lock:
            return self._histories.pop(identity, None) is not None

    async def _all(self) -> tuple[NoteHistory, ...]:
        return tuple(self._histories.values())

    async def _change(self, identity: str, change: Change) -> NoteHistory:
        await anyio.lowlevel.checkpoint()
        with self._lock:
            old = self._histories.get(identity, NoteHistory(identity))
            new = change(old)
            if new != old:
                self._histories[identity] = new
        return new


class PlainStore(VersionedReflectionStore):
    """Adapts a user's store of two methods: one version, no scores, and the last write counts.

    Sync methods run in worker threads. The user's store is never given a failed reflection.
    """

    def __init__(self, store: ReflectionStore) -> None:
        self._store = store

    async def score(self, task_identity: str, version: int, score: float) -> None:
        """Do nothing: the user's store keeps no scores."""

    async def _read(self, identity: str) -> NoteHistory | None:
        """Return the stored reflection as a history of one version; None for none or a failed one."""
        retrieve: Callable[..., Any] = self._store.retrieve
        stored = await run(retrieve, partial(retrieve, identity))
        if stored is not None and not isinstance(stored, TaskReflection):
            raise ConfigurationError(
                f"the reflection store returned {type(stored).__name__}, not a TaskReflection"
            )
        if stored is None or not stored.complete:
            return None
        version = NoteVersion(1, stored, 0)
        return NoteHistory(identity, current=1, run_count=stored.run_count, versions=(version,))

    async def _change(self, identity: str, change: Change) -> NoteHistory:
        old = await self._read(identity) or NoteHistory(identity)
        new = change(old)
        if new.reflection is None or not new.reflection.complete:
            return old
        if new != old:
            store: Callable[..., Any] = self._store.store
            await run(store, partial(store, identity, new.reflection))
        return new
