"""Task notes over any record store, with their versions, safe for any number of workers and processes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import anyio

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.tasknotes.documents import document_of, history_of
from jeeves_reflexion.tasknotes.evolution import (
    NoteHistory,
    Rollback,
    judged,
    rolled_back,
    with_reflection,
    with_replacement,
    with_score,
)
from jeeves_reflexion.tasknotes.identity import checked_identity
from jeeves_reflexion.tasknotes.values import ReflectionStoreError, TaskReflection
from vectorstores.base import ConflictError, RecordStore, VectorStoreError

COLLECTION: Final = "task_notes"
TRIES: Final = 500
"""So often a change is tried again because another writer was faster. Each time one of them has got through."""

_LONGEST_WAIT: Final = 0.05


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Part of a list of histories; ``next`` goes to the next call as ``after``."""

    histories: tuple[NoteHistory, ...]
    next: str | None


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

    async def store(self, task_identity: str, reflection: TaskReflection) -> None:
        """Store a reflection as the task's newest version, with the run count that it has.

        The last of several at once is in force; :meth:`commit` counts.
        """
        _checked(reflection)
        await self._change(task_identity, lambda history: with_replacement(history, reflection))

    async def retrieve(self, task_identity: str) -> TaskReflection | None:
        """Return the reflection of the task's current version, or None."""
        history = await self.history(task_identity)
        return None if history is None else history.reflection

    async def history(self, task_identity: str) -> NoteHistory | None:
        """Return everything kept of a task's notes, or None."""
        checked_identity(task_identity)
        async with _store_errors("read task notes"):
            record = await self.records.get(COLLECTION, task_identity)
        return None if record is None else history_of(task_identity, record.value)

    async def commit(
        self,
        task_identity: str,
        reflection: TaskReflection,
        *,
        base: int | None = None,
        description: str = "",
    ) -> NoteHistory:
        """Count a reflection that was made of version ``base`` (by default the current one); return the history.

        Its run count is one more than that of the last. ``description`` is kept, cut, for people who list the notes.
        """
        _checked(reflection)
        return await self._change(
            task_identity,
            lambda history: with_reflection(history, reflection, base=base, description=description),
        )

    async def score(self, task_identity: str, version: int, score: float) -> Rollback | None:
        """Note the score of a run made under a version (0: without notes), and take back what proved worse.

        Returns what was taken back, if anything was.
        """
        if not 0.0 <= score <= 1.0:
            raise ConfigurationError(f"score must lie in [0, 1], not {score!r}")
        taken: list[Rollback | None] = [None]

        def change(history: NoteHistory) -> NoteHistory:
            changed, taken[0] = judged(with_score(history, version, score))
            return changed

        await self._change(task_identity, change)
        return taken[0]

    async def rollback(
        self, task_identity: str, *, to: int | None = None, reason: str = "by hand"
    ) -> NoteHistory:
        """Make an earlier version the current one: ``to``, or the one that the current was made of; 0 is none.

        Raises :class:`ReflectionStoreError` if there are no notes, or no such version.
        """

        def change(history: NoteHistory) -> NoteHistory:
            current = history.version(history.current)
            target = to if to is not None else (current.base if current is not None else -1)
            if target != 0 and history.version(target) is None:
                known = ", ".join(str(each.number) for each in history.versions) or "none"
                raise ReflectionStoreError(
                    f"the notes on task {task_identity} have no version {target} to go back to; there are: {known}"
                    if target > 0
                    else f"task {task_identity} has no notes to roll back"
                )
            return history if target == history.current else rolled_back(history, target, reason)

        return await self._change(task_identity, change)

    async def forget(self, task_identity: str) -> bool:
        """Remove all that is kept of a task's notes; False if there was nothing."""
        checked_identity(task_identity)
        async with _store_errors("forget task notes"):
            return await self.records.delete_records(COLLECTION, [task_identity]) > 0

    async def list(self, *, after: str | None = None, limit: int = 100) -> HistoryPage:
        """Return the notes of all tasks in the order in which they were first written, a page at a time."""
        async with _store_errors("list task notes"):
            page = await self.records.scan_records(COLLECTION, after=after, limit=limit)
        return HistoryPage(tuple(history_of(each.key, each.value) for each in page.records), page.next)

    async def close(self) -> None:
        """Close the store below."""
        close: Callable[[], Any] | None = getattr(self.records, "close", None)
        if close is not None:
            async with _store_errors("close the store of task notes"):
                await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _change(self, identity: str, change: Callable[[NoteHistory], NoteHistory]) -> NoteHistory:
        checked_identity(identity)
        async with _store_errors("store task notes"):
            for _ in range(TRIES):
                record = await self.records.get(COLLECTION, identity)
                old = NoteHistory(identity) if record is None else history_of(identity, record.value)
                new = change(old)
                if new == old:
                    return old
                version = None if record is None else record.version
                try:
                    await self.records.compare_and_swap(
                        COLLECTION, identity, document_of(new), version=version
                    )
                except ConflictError:
                    await anyio.sleep(random.uniform(0.0, _LONGEST_WAIT))  # noqa: S311 - to part the writers
                else:
                    return new
        raise ReflectionStoreError(
            f"the notes on task {identity} kept changing while they were to be written"
        )


def _checked(reflection: object) -> None:
    if not isinstance(reflection, TaskReflection):
        raise ConfigurationError(f"reflection must be a TaskReflection, not {reflection!r}")


@contextlib.asynccontextmanager
async def _store_errors(doing: str) -> AsyncIterator[None]:
    try:
        yield
    except VectorStoreError as error:
        raise ReflectionStoreError(f"could not {doing}: {error}") from error
