"""``jeeves-reflexion lessons``: the group, and its commands that only look."""

from __future__ import annotations

from typing import get_args

import click

from jeeves_reflexion.cli.lesson_add import add
from jeeves_reflexion.cli.lesson_asking import why
from jeeves_reflexion.cli.lesson_changes import (
    approve,
    consolidate,
    edit,
    forget,
    merge,
    outcome,
    reject,
    restore,
    retire,
    rollback,
)
from jeeves_reflexion.cli.lesson_options import Sections, Where, common
from jeeves_reflexion.cli.lesson_transfer import export, import_, reembed_, sync
from jeeves_reflexion.cli.options import COUNT, EmbedderChoice, embedder_option, top_k_option
from jeeves_reflexion.types import LessonState

_SECTIONS = {
    "See": ("list", "search", "show", "history", "why", "stats", "count"),
    "Decide": ("review", "approve", "reject", "outcome"),
    "Change": ("add", "edit", "retire", "restore", "merge", "rollback", "consolidate", "forget"),
    "Move": ("export", "import", "sync", "reembed"),
}


@click.group(cls=Sections, sections=_SECTIONS, short_help="See, judge, change and carry what was learned.")
def lessons() -> None:
    """See, judge, change and carry what was learned.

    IDs may be cut short to four characters. What changes many lessons shows them first, and asks; --dry-run only shows.
    Every change but "forget" goes into the lesson's history and can be taken back with "rollback". Only
    "import --create" makes a store.
    """


@lessons.command("list", short_help="The newest lessons.")
@click.option("--limit", metavar="N", type=COUNT, default=20, show_default=True, help="At most so many.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--state", type=click.Choice(get_args(LessonState)), help="Those of one state only.")
@common
def list_(*, limit: int, everything: bool, state: LessonState | None, where: Where) -> None:
    """List lessons, the newest first: id, date, score, state, task, sentence."""
    from jeeves_reflexion.cli.lesson_desk import LessonDesk  # noqa: PLC0415 - not for --help

    LessonDesk(where).show_newest(None if everything else limit, state)


@lessons.command(short_help="The active lessons nearest to a text.")
@click.argument("text")
@top_k_option(default=5, show_default=True, help="How many.")
@embedder_option
@common
def search(*, text: str, k: int, embedder: EmbedderChoice, where: Where) -> None:
    """Find the active lessons nearest to TEXT, the nearest first."""
    from jeeves_reflexion.cli.lesson_desk import LessonDesk  # noqa: PLC0415

    LessonDesk(where).search(text, k, embedder)


@lessons.command(short_help="One lesson whole, with its lift.")
@click.argument("lesson_id", metavar="ID")
@common
def show(*, lesson_id: str, where: Where) -> None:
    """Show a lesson whole: its state, where it came from, and what it does for scores."""
    from jeeves_reflexion.cli.lesson_desk import LessonDesk  # noqa: PLC0415

    LessonDesk(where).show(lesson_id)


@lessons.command(short_help="Every change of a lesson, with its number.")
@click.argument("lesson_id", metavar="ID")
@common
def history(*, lesson_id: str, where: Where) -> None:
    """Show every change of a lesson, with its number: who, when, why and what."""
    from jeeves_reflexion.cli.lesson_desk import LessonDesk  # noqa: PLC0415

    LessonDesk(where).history(lesson_id)


@lessons.command(short_help="How many lessons there are.")
@common
def count(*, where: Where) -> None:
    """Count the lessons."""
    from jeeves_reflexion.cli.lesson_desk import LessonDesk  # noqa: PLC0415

    LessonDesk(where).count()


@lessons.command(short_help="The library in numbers: use, lift, stale lessons.")
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="How many lessons to name of those that help most, help least, and are stale.",
)
@common
def stats(*, top: int, where: Where) -> None:
    """Show what the library holds, how it is used, and what it does for scores."""
    from jeeves_reflexion.cli.lesson_stats import StatsDesk  # noqa: PLC0415

    StatsDesk(where).stats(top)


@lessons.command(short_help="What waits for a decision.")
@common
def review(*, where: Where) -> None:
    """Show what waits for approve or reject: proposed lessons, and texts in quarantine."""
    from jeeves_reflexion.cli.lesson_review import ReviewDesk  # noqa: PLC0415

    ReviewDesk(where).review()


for _command in (add, approve, reject, outcome, edit, retire, restore, merge, rollback, consolidate, forget):
    lessons.add_command(_command)
for _command in (why, export, import_, sync, reembed_):
    lessons.add_command(_command)
