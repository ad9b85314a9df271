"""``jeeves-reflexion lessons``: the group, and its commands that only look."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

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
from jeeves_reflexion.cli.options import EmbedderChoice, check_text, embedder_option
from jeeves_reflexion.types import LessonState

if TYPE_CHECKING:
    from jeeves_reflexion.lessons.recalling import StrategyName

_SECTIONS = {
    "See": ("list", "search", "show", "history", "why", "stats", "count"),
    "Decide": ("review", "approve", "reject", "outcome"),
    "Change": ("edit", "retire", "restore", "merge", "rollback", "consolidate", "forget"),
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
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many."
)
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--state", type=click.Choice(get_args(LessonState)), help="Those of one state only.")
@common
def list_(*, limit: int, everything: bool, state: LessonState | None, where: Where) -> None:
    """List lessons, the newest first: id, date, score, state, task, sentence."""
    from jeeves_reflexion.cli.lesson_desk import LessonDesk  # noqa: PLC0415 - not for --help

    LessonDesk(where).show_newest(None if everything else limit, state)


@lessons.command(short_help="The active lessons nearest to a text.")
@click.argument("text", callback=check_text)
@click.option(
    "-k", "k", metavar="N", type=click.IntRange(min=1), default=5, show_default=True, help="How many."
)
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


@lessons.command(short_help="What a task would recall, and why.")
@click.argument("task", callback=check_text)
@click.option(
    "-k", "k", metavar="N", type=click.IntRange(min=1), default=5, show_default=True, help="How many at most."
)
@click.option(
    "--kind", metavar="KIND", callback=lambda c, p, v: v and check_text(c, p, v), help="The kind of task."
)
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="A tool of the task; may be repeated.")
@click.option(
    "--strategy", type=click.Choice(("nearest", "hybrid", "seed002")), help="How lessons are ordered."
)
@click.option(
    "--floor", metavar="X", type=click.FloatRange(-1, 1), help="The similarity below which none is recalled."
)
@click.option("--no-credit", is_flag=True, help="As a program does that doesn't rank lessons by their lift.")
@embedder_option
@common
def why(  # noqa: PLR0913 - one parameter for each option
    *,
    task: str,
    k: int,
    kind: str | None,
    tools: tuple[str, ...],
    strategy: StrategyName | None,
    floor: float | None,
    no_credit: bool,
    embedder: EmbedderChoice,
    where: Where,
) -> None:
    """Show what TASK would recall and why, and what it would not and why not.

    Nothing is noted as a recall, nothing is retired, and nothing is withheld by a draw.
    """
    from jeeves_reflexion.cli.lesson_why import Question, WhyDesk  # noqa: PLC0415
    from jeeves_reflexion.types import Task  # noqa: PLC0415

    if not task.strip():
        raise click.UsageError("the task is empty: say what would be asked")
    asked = Task(task, kind=kind, tools=tools)
    WhyDesk(where).why(Question(asked, k, strategy, floor, not no_credit, embedder))


for _command in (approve, reject, outcome, edit, retire, restore, merge, rollback, consolidate, forget):
    lessons.add_command(_command)
for _command in (export, import_, sync, reembed_):
    lessons.add_command(_command)
