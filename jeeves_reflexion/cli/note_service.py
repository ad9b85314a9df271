"""``jeeves-reflexion notes``: what its commands do."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio
import click

from jeeves_reflexion.cli.options import Where
from jeeves_reflexion.cli.service import Service, counted, with_values
from jeeves_reflexion.loop.note_address import default_notes_place, open_notes
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.tasknotes import (
    NoteHistory,
    NoteVersion,
    ReflectionStoreError,
    VersionedReflectionStore,
    task_identity,
)
from jeeves_reflexion.tasknotes.evolution import document_of, reflection_document
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON

T = TypeVar("T")

_WHOLE_ID = 64
_SHORT_ID = 8
_SHORTEST_ID = 4
_EXCERPT = 80


class NoteService(Service):
    """Answers questions about the task notes of one place and namespace, each with one opening of the store."""

    def __init__(self, where: Where) -> None:
        super().__init__(where, default_notes_place())

    def list_(self) -> None:
        """Print a line for each task."""
        histories = self._within(_all)
        if self._as_json:
            self._document({"count": len(histories), "notes": [_summary(each) for each in histories]})
            return
        for each in histories:
            self._screen.entry(_row(each))
        if not histories:
            self._screen.note(f"there are no task notes {self._where}")

    def show(self, task: str) -> None:
        """Print a task's current notes."""
        (history,) = self._resolved((task,))
        if self._as_json:
            self._document({"notes": _summary(history)})
            return
        self._screen.details(_details(history))

    def history(self, task: str) -> None:
        """Print a task's versions and what became of them."""
        (history,) = self._resolved((task,))
        if self._as_json:
            self._document({"history": document_of(history)})
            return
        self._screen.entry(_version_row(history, 0, history.baseline, "no notes"))
        for version in history.versions:
            text = version.reflection.refined_description
            self._screen.entry(_version_row(history, version.number, version.scores, text, version))
        for change in history.changes:
            if change.kind != "stored":
                self._screen.note(f"{_when(change.at)}  {change.old} -> {change.new}: {change.reason}")

    def rollback(self, task: str, to: int | None) -> None:
        """Go back to an earlier version."""

        async def rolled_back(store: VersionedReflectionStore) -> tuple[NoteHistory, NoteHistory]:
            old = await self._one(store, task)
            return old, await store.rollback(old.identity, to=to)

        old, new = self._within(rolled_back)
        if self._as_json:
            self._document({"identity": new.identity, "old": old.current, "new": new.current})
        elif old.current == new.current:
            self._screen.result(f"version {new.current} is the current one already")
        else:
            self._screen.result(f"rolled back from version {old.current} to {new.current}")

    def forget(self, tasks: Sequence[str], *, yes: bool) -> None:
        """Remove the notes of tasks; nothing is removed unless all of them are found."""
        if self._as_json and not yes:
            raise click.UsageError("--json can't ask: add --yes")
        histories = self._resolved(tasks)
        for each in () if yes else histories:
            self._screen.note(f"{each.identity[:_SHORT_ID]}  {each.description}")
        number = counted(len(histories), "task")
        if not yes:
            click.confirm(f"Forget the notes of {number} for good?", abort=True, err=True)

        async def forgotten(store: VersionedReflectionStore) -> list[JSON]:
            return [each.identity for each in histories if await store.forget(each.identity)]

        gone = self._within(forgotten)
        self._answer({"forgotten": gone}, f"forgot the notes of {number}")

    # -- what touches the store

    def _within(self, work: Callable[[VersionedReflectionStore], Awaitable[T]]) -> T:
        async def opened() -> T:
            async with open_notes(self._place, namespace=self._namespace, create=False) as store:
                return await work(store)

        return anyio.run(opened)

    def _resolved(self, tasks: Sequence[str]) -> list[NoteHistory]:
        async def resolved(store: VersionedReflectionStore) -> list[NoteHistory]:
            found = [await self._one(store, task) for task in tasks]
            return list({each.identity: each for each in found}.values())

        return self._within(resolved)

    async def _one(self, store: VersionedReflectionStore, task: str) -> NoteHistory:
        for identity in (task_identity(task), task.strip()):
            if identity and (history := await store.history(identity)) is not None:
                return history
        start = task.strip().lower()
        if not all(each in "0123456789abcdef" for each in start) or len(start) >= _WHOLE_ID:
            raise ReflectionStoreError(f"there are no notes on the task {redact(task)!r} {self._where}")
        if len(start) < _SHORTEST_ID:
            raise click.UsageError(f"the id {task!r} is too short: give at least {_SHORTEST_ID} characters")
        matches = [history for history in await _all(store) if history.identity.startswith(start)]
        if not matches:
            raise ReflectionStoreError(f"there are no notes on a task {task!r} {self._where}")
        if len(matches) > 1:
            ids = ", ".join(each.identity[:16] for each in matches[:5])
            raise ReflectionStoreError(f"{len(matches)} tasks {self._where} begin with {task!r}: {ids}")
        return matches[0]


async def _all(store: VersionedReflectionStore) -> list[NoteHistory]:
    found: list[NoteHistory] = []
    after: str | None = None
    while True:
        page = await store.list(after=after, limit=500)
        found += page.histories
        if page.next is None:
            return found
        after = page.next


def _row(history: NoteHistory) -> dict[str, str]:
    return {
        "id": history.identity[:_SHORT_ID],
        "date": _latest(history),
        "version": f"version {history.current}",
        "reflections": f"{history.run_count} reflections",
        "description": abridge(history.description, _EXCERPT) or "(no description)",
    }


def _latest(history: NoteHistory) -> str:
    times = [change.at for change in history.changes] or [
        each.reflection.reflected_at for each in history.versions
    ]
    return _when(max(times), "%Y-%m-%d") if times else "-"


def _version_row(
    history: NoteHistory,
    number: int,
    scores: Sequence[float],
    text: str,
    version: NoteVersion | None = None,
) -> dict[str, str]:
    mean = f"{sum(scores) / len(scores):.2f}" if scores else "-"
    state = "current" if number == history.current else ""
    if version is not None and version.withdrawn:
        state = "taken back"
    return {
        "version": str(number),
        "date": "" if version is None else _when(version.reflection.reflected_at, "%Y-%m-%d"),
        "score": mean,
        "runs": counted(len(scores), "run"),
        "state": state,
        "text": abridge(text, 2 * _EXCERPT),
    }


def _details(history: NoteHistory) -> dict[str, str]:
    reflection = history.reflection
    details = {
        "id": history.identity,
        "task": history.description,
        "version": f"{history.current} of {len(history.versions)}",
        "reflections": str(history.run_count),
    }
    if reflection is not None:
        details |= {
            "written": _when(reflection.reflected_at, "%Y-%m-%d %H:%M:%S %z"),
            "instructions": reflection.refined_description,
            "output": reflection.refined_expected_output,
        }
        details |= {f"observed {n}": text for n, text in enumerate(reflection.observations, 1)}
        details |= {f"suggested {n}": text for n, text in enumerate(reflection.suggestions, 1)}
        details["failed"] = reflection.failure or ""
    return with_values(details)


def _summary(history: NoteHistory) -> JSON:
    reflection = history.reflection
    return {
        "identity": history.identity,
        "description": history.description,
        "version": history.current,
        "run_count": history.run_count,
        "reflection": None if reflection is None else reflection_document(reflection),
    }


def _when(moment: datetime.datetime, form: str = "%Y-%m-%d %H:%M") -> str:
    return moment.astimezone().strftime(form)
