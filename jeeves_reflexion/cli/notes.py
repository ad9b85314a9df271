"""``jeeves-reflexion notes``: its commands and their options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from jeeves_reflexion.cli.options import debug_option, json_option, namespace_option, renamed

if TYPE_CHECKING:
    from jeeves_reflexion.cli.note_service import NoteService

F = TypeVar("F", bound=Callable[..., Any])


def _common(function: F) -> F:
    """Add the options that every command of the group has."""
    for option in (debug_option, json_option, namespace_option):
        function = option(function)
    return renamed(
        "--notes",
        "--place",
        "place",
        metavar="ADDRESS",
        help="A SQLite file, a folder of notes, the folder of a lesson store, or a postgresql:// address."
        "  [default: JEEVES_NOTES, else among your data]",
    )(function)


def _desk(place: str | None, namespace: str, *, as_json: bool) -> NoteService:
    from jeeves_reflexion.cli.note_service import NoteService  # noqa: PLC0415 - not for --help

    return NoteService(place, namespace, as_json=as_json)


@click.group(short_help="See how tasks improved their instructions, and take it back.")
def notes() -> None:
    """See how tasks improved their own instructions, and take it back.

    TASK is the id of a task's notes, which may be cut short, or the task's description. Nothing here makes a store.
    """


@notes.command("list")
@_common
def list_(*, place: str | None, namespace: str, as_json: bool) -> None:
    """List the tasks that have notes: id, date, version, runs, description."""
    _desk(place, namespace, as_json=as_json).show_all()


@notes.command()
@click.argument("task")
@_common
def show(*, task: str, place: str | None, namespace: str, as_json: bool) -> None:
    """Show what the next run of a task gets to read."""
    _desk(place, namespace, as_json=as_json).show(task)


@notes.command()
@click.argument("task")
@_common
def history(*, task: str, place: str | None, namespace: str, as_json: bool) -> None:
    """Show a task's versions with the scores of their runs, and what was taken back and why."""
    _desk(place, namespace, as_json=as_json).history(task)


@notes.command()
@click.argument("task")
@click.option(
    "--to",
    metavar="N",
    type=click.IntRange(min=0),
    help="The version to go to; 0 is no notes.  [default: the one that the current was made of]",
)
@_common
def rollback(*, task: str, to: int | None, place: str | None, namespace: str, as_json: bool) -> None:
    """Go back to an earlier version of a task's notes; nothing is lost by it."""
    _desk(place, namespace, as_json=as_json).rollback(task, to)


@notes.command()
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@_common
def forget(*, tasks: tuple[str, ...], yes: bool, place: str | None, namespace: str, as_json: bool) -> None:
    """Remove the notes of tasks for good, all versions."""
    if as_json and not yes:
        raise click.UsageError("--json can't ask: add --yes")
    _desk(place, namespace, as_json=as_json).forget(tasks, ask=not yes)
