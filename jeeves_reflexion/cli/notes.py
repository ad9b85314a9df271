"""``jeeves-reflexion notes``: show how tasks improved their instructions, and undo it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.screen import Answers
from jeeves_reflexion.loop.note_address import default_notes_place, open_notes
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.summary import counted, when
from jeeves_reflexion.tasknotes import (
    NoteHistory,
    ReflectionStoreError,
    VersionedReflectionStore,
    task_identity,
)
from jeeves_reflexion.tasknotes.evolution import document_of, reflection_document
from jeeves_reflexion.text import abridge

_SHORT_ID = 8
_SHORTEST_ID = 4
_EXCERPT = 80


class Notes(Answers):
    """The task notes of one address and namespace, opened for each piece of work and closed after it."""

    default_address = staticmethod(default_notes_place)

    def open(self) -> VersionedReflectionStore:
        """Return the store, to open for a piece of work."""
        return open_notes(self.store_address, namespace=self.namespace, create=False)

    async def one(self, store: VersionedReflectionStore, task: str) -> NoteHistory:
        """Return the notes of a task, given its description, its id, or the beginning of its id."""
        for identity in (task_identity(task), task.strip()):
            if identity and (found := await store.history(identity)) is not None:
                return found
        start = task.strip().lower()
        matches = [each for each in await store.list() if each.identity.startswith(start)]
        if len(matches) != 1 or len(start) < _SHORTEST_ID:
            several = f": {len(matches)} ids begin so" if len(matches) > 1 else ""
            raise ReflectionStoreError(
                f"there are no notes on the task {redact(task)!r} {self.where}{several}"
            )
        return matches[0]


def _over_notes(*more: Callable[[Any], Any]) -> Callable[[options.F], options.F]:
    address_option = click.option(
        "--notes",
        "address",
        metavar="ADDRESS",
        help="A SQLite file, the folder of a lesson store, or a postgresql:// address."
        "  [default: JEEVES_NOTES, else a file in your data directory]",
    )
    return options.gathered(
        "answers", Notes, *more, address_option, options.namespace, options.json, options.debug
    )


@click.group()
def notes() -> None:
    """See how tasks improved their own instructions, and undo it.

    TASK is the task's description, or the id of its notes, of which four characters are enough. These commands never
    create a store.
    """


@notes.command("list", short_help="List the tasks that have notes.")
@_over_notes()
async def list_(answers: Notes) -> None:
    """List the tasks that have notes: id, date, version, runs and description."""
    async with answers.open() as store:
        found = await store.list()
    rows = []
    for each in found:
        times = [change.at for change in each.changes]
        times = times or [version.reflection.reflected_at for version in each.versions]
        row = {"id": each.identity[:_SHORT_ID], "date": when(max(times).timestamp()) if times else "-"}
        row |= {"version": f"version {each.current}", "reflections": counted(each.run_count, "reflection")}
        rows.append({**row, "description": abridge(each.description, _EXCERPT) or "(no description)"})
    answers.give(
        {"count": len(found), "notes": [_document(each) for each in found]},
        rows=rows,
        note="" if found else f"there are no task notes {answers.where}",
    )


@notes.command(short_help="Show the notes that the next run of a task reads.")
@click.argument("task")
@_over_notes()
async def show(answers: Notes, task: str) -> None:
    """Show the notes that the next run of a task reads, all versions with the scores of their runs, and all changes."""
    async with answers.open() as store:
        found = await answers.one(store, task)
    told, rows = _document(found), []
    for version in (None, *found.versions):  # None: the runs without notes
        number, scores = (version.number, version.scores) if version else (0, found.baseline)
        note = abridge(version.reflection.refined_description, 2 * _EXCERPT) if version else "no notes"
        current = "current" if number == found.current else ""
        row = {
            "version": str(number),
            "date": when(version.reflection.reflected_at.timestamp()) if version else "-",
            "score": f"{sum(scores) / len(scores):.2f}" if scores else "-",
            "runs": counted(len(scores), "run"),
            "state": "taken back" if version and version.withdrawn else current,
            "text": note,
        }
        rows.append(row)
    answers.give(
        {"notes": told, "history": document_of(found)},
        details=({**told, "reflection": None}, told["reflection"] or {}),
        rows=rows,
    )
    for change in found.changes:
        if change.kind != "stored":
            at = when(change.at.timestamp(), "%Y-%m-%d %H:%M")
            answers.screen.note(f"{at}  {change.old} -> {change.new}: {change.reason}")


@notes.command(short_help="Go back to an earlier version of a task's notes.")
@click.argument("task")
@click.option(
    "--to",
    metavar="N",
    type=click.IntRange(min=0),
    help="The version to return to; 0 means no notes.  [default: the version that the current one was made from]",
)
@_over_notes()
async def rollback(answers: Notes, task: str, to: int | None) -> None:
    """Go back to an earlier version of a task's notes. All versions are kept."""
    async with answers.open() as store:
        old = await answers.one(store, task)
        new = await store.rollback(old.identity, to=to)
    said = f"rolled back from version {old.current} to {new.current}"
    if old.current == new.current:
        said = f"version {new.current} is the current one already"
    answers.give({"identity": new.identity, "old": old.current, "new": new.current}, said)


@notes.command()
@click.argument("task")
@_over_notes(options.yes)
async def forget(answers: Notes, task: str) -> None:
    """Remove all versions of a task's notes for good."""
    async with answers.open() as store:
        found = await answers.one(store, task)
    row = {"id": found.identity[:_SHORT_ID], "description": found.description}
    if answers.agreed("Forget these notes for good?", {}, [row]):
        async with answers.open() as store:
            await store.forget(found.identity)
        answers.give({"forgotten": found.identity}, f"forgot the notes {found.identity[:_SHORT_ID]}")


def _document(history: NoteHistory) -> dict[str, object]:
    reflection = history.reflection
    return {
        "identity": history.identity,
        "description": history.description,
        "version": history.current,
        "run_count": history.run_count,
        "reflection": None if reflection is None else reflection_document(reflection),
    }
