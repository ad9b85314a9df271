"""``jeeves-reflexion lessons``: its commands and their options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from jeeves_reflexion.cli.options import (
    EmbedderChoice,
    NamedEmbedder,
    check_text,
    debug_option,
    embedder_option,
    json_option,
    namespace_option,
)

if TYPE_CHECKING:
    from jeeves_reflexion.cli.lesson_desk import LessonDesk

F = TypeVar("F", bound=Callable[..., Any])


def _common(function: F) -> F:
    """Add the options that every command of the group has."""
    for option in (debug_option, json_option, namespace_option):
        function = option(function)
    return _place_option(function)


def _place_option(function: F) -> F:
    """Add ``--place``."""
    return click.option(
        "--place",
        metavar="PLACE",
        help="The folder of the lessons, or a postgresql:// address.  [default: JEEVES_LESSONS, else among your data]",
    )(function)


def _desk(place: str | None, namespace: str, *, as_json: bool) -> LessonDesk:
    from jeeves_reflexion.cli.lesson_desk import LessonDesk  # noqa: PLC0415 - not for --help

    return LessonDesk(place, namespace, as_json=as_json)


@click.group(short_help="See, search and remove what was learned.")
def lessons() -> None:
    """See, search and remove what was learned.

    Nothing here makes a store, and only "search" loads what finds lessons by meaning.
    """


@lessons.command("list")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many."
)
@click.option("--all", "everything", is_flag=True, help="All of them.")
@_common
def list_(*, limit: int, everything: bool, place: str | None, namespace: str, as_json: bool) -> None:
    """List lessons, the newest first: id, date, score, task, sentence."""
    _desk(place, namespace, as_json=as_json).show_newest(None if everything else limit)


@lessons.command()
@click.argument("text", callback=check_text)
@click.option(
    "-k", "k", metavar="N", type=click.IntRange(min=1), default=5, show_default=True, help="How many."
)
@embedder_option
@_common
def search(
    *, text: str, k: int, embedder: EmbedderChoice, place: str | None, namespace: str, as_json: bool
) -> None:
    """Find the lessons that a task like TEXT would recall, the nearest first."""
    _desk(place, namespace, as_json=as_json).search(text, k, embedder)


@lessons.command()
@click.argument("lesson_id", metavar="ID")
@_common
def show(*, lesson_id: str, place: str | None, namespace: str, as_json: bool) -> None:
    """Show a lesson whole, with where it came from. ID may be cut short."""
    _desk(place, namespace, as_json=as_json).show(lesson_id)


@lessons.command()
@click.argument("lesson_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@_common
def forget(
    *, lesson_ids: tuple[str, ...], yes: bool, place: str | None, namespace: str, as_json: bool
) -> None:
    """Remove lessons for good, from everywhere: text, vectors and records. IDs may be cut short."""
    if as_json and not yes:
        raise click.UsageError("--json can't ask: add --yes")
    _desk(place, namespace, as_json=as_json).forget(lesson_ids, ask=not yes)


@lessons.command()
@_common
def count(*, place: str | None, namespace: str, as_json: bool) -> None:
    """Count the lessons."""
    _desk(place, namespace, as_json=as_json).count()


@lessons.command("reembed")
@click.option(
    "--embedder",
    type=click.Choice(get_args(NamedEmbedder)),
    required=True,
    help="What is to find lessons from now on.",
)
@debug_option
@json_option
@_place_option
def reembed_(*, embedder: NamedEmbedder, place: str | None, as_json: bool) -> None:
    """Have everything in a place found by another embedder.

    All its namespaces move together. The store stays in use meanwhile, found by the old embedder, and a move that was
    stopped goes on where it was. Programs that have the store open have to open it again afterwards.
    """
    from jeeves_reflexion.cli.moving import reembed  # noqa: PLC0415 - not for --help

    reembed(place, embedder, as_json=as_json)
