"""``jeeves-reflexion notes``: its commands and their options."""

from __future__ import annotations

import click

from jeeves_reflexion.cli.options import renamed, served_by, where_options

_common = where_options(
    renamed(
        "--notes",
        "--place",
        "place",
        metavar="ADDRESS",
        help="A SQLite file, a folder of notes, the folder of a lesson store, or a postgresql:// address."
        "  [default: JEEVES_NOTES, else among your data]",
    )
)
_service = served_by("note_service:NoteService")


@click.group(short_help="See how tasks improved their instructions, and take it back.")
def notes() -> None:
    """See how tasks improved their own instructions, and take it back.

    TASK is the id of a task's notes, which may be cut short, or the task's description. Nothing here makes a store.
    """


@notes.command("list")
@_common
@_service
def list_() -> None:
    """List the tasks that have notes: id, date, version, runs, description."""


@notes.command()
@click.argument("task")
@_common
@_service
def show() -> None:
    """Show what the next run of a task gets to read."""


@notes.command()
@click.argument("task")
@_common
@_service
def history() -> None:
    """Show a task's versions with the scores of their runs, and what was taken back and why."""


@notes.command()
@click.argument("task")
@click.option(
    "--to",
    metavar="N",
    type=click.IntRange(min=0),
    help="The version to go to; 0 is no notes.  [default: the one that the current was made of]",
)
@_common
@_service
def rollback() -> None:
    """Go back to an earlier version of a task's notes; nothing is lost by it."""


@notes.command()
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@_common
@_service
def forget() -> None:
    """Remove the notes of tasks for good, all versions."""
