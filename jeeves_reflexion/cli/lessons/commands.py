"""``jeeves-reflexion lessons``: the group, and what its commands take. Services beside do what they are for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from jeeves_reflexion.cli.lessons.file_commands import (
    create_option,
    export,
    import_,
    reembed,
    state_option,
    sync,
)
from jeeves_reflexion.cli.options import (
    COUNT,
    Sections,
    asking_options,
    by_option,
    check_text,
    common,
    credit_option,
    embedder_option,
    endpoint_options,
    number_option,
    served_by,
    top_k_option,
    why_options,
)
from jeeves_reflexion.types import JSON


def _narrow(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, JSON]:
    """Read KEY=VALUE; a value that is a JSON number, true, false or null is one, anything else is text."""
    found: dict[str, JSON] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{each!r} is not KEY=VALUE, such as agent=researcher")
        try:
            read: Any = json.loads(value)
        except ValueError:
            read = value
        if key in found:
            raise click.BadParameter(f"{key!r} is given twice")
        found[key] = value if key == "tool" or isinstance(read, str | list | dict) else read
    return found


_looking = served_by("lessons.service:LessonService")
_curation = served_by("lessons.review:CurationService")

_id = click.argument("lesson_id", metavar="ID")
_ids = click.argument("lesson_ids", metavar="ID...", nargs=-1, required=True)
_waiting_ids = click.argument("lesson_ids", metavar="[ID...]", nargs=-1)
_waiting_all = click.option(
    "--all", "everything", is_flag=True, help="All proposed lessons, and no text in quarantine."
)
_kind = click.option("--kind", metavar="KIND", help="The kind of the task.")

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
@state_option
@common
@_looking
def list_() -> None:
    """List lessons, the newest first: id, date, score, state, task, sentence."""


@lessons.command(short_help="The active lessons nearest to a text.")
@click.argument("text")
@top_k_option(default=5, show_default=True, help="How many.")
@embedder_option
@common
@_looking
def search() -> None:
    """Find the active lessons nearest to TEXT, the nearest first."""


@lessons.command(short_help="One lesson whole, with its lift.")
@_id
@common
@_looking
def show() -> None:
    """Show a lesson whole: its state, where it came from, and what it does for scores."""


@lessons.command(short_help="Every change of a lesson, with its number.")
@_id
@common
@_looking
def history() -> None:
    """Show every change of a lesson, with its number: who, when, why and what."""


@lessons.command(short_help="How many lessons there are.")
@common
@_looking
def count() -> None:
    """Count the lessons."""


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
@served_by("lessons.stats:StatsService")
def stats() -> None:
    """Show what the library holds, how it is used, and what it does for scores."""


@lessons.command(short_help="What waits for a decision.")
@common
@_curation
def review() -> None:
    """Show what waits for approve or reject: proposed lessons, and texts in quarantine."""


@lessons.command(short_help="Let what waits in.")
@_waiting_ids
@_waiting_all
@why_options
@asking_options
@common
@_curation
def approve() -> None:
    """Let proposed lessons be recalled, and texts in quarantine become lessons that are."""


@lessons.command(short_help="Keep what waits out.")
@_waiting_ids
@_waiting_all
@why_options
@asking_options
@common
@_curation
def reject() -> None:
    """Retire proposed lessons, and throw texts in quarantine away.

    A rejected lesson stays, so that it is not learned again.
    """


@lessons.command(short_help="Recall lessons no more, for a reason.")
@_ids
@why_options
@asking_options
@common
@_curation
def retire() -> None:
    """Keep lessons, and recall them no more; --reason is required."""


@lessons.command(short_help="Recall retired lessons again.")
@_ids
@why_options
@asking_options
@common
@_curation
def restore() -> None:
    """Recall retired lessons again."""


@lessons.command(short_help="Say a lesson in other words.")
@_id
@click.argument("text")
@embedder_option
@why_options
@common
@_curation
def edit() -> None:
    """Say a lesson in other words; TEXT is checked as any lesson is."""


@lessons.command(short_help="Let one lesson speak for others.")
@click.argument("into", metavar="INTO")
@click.argument("others", metavar="OTHER...", nargs=-1, required=True)
@click.option(
    "--text",
    metavar="TEXT",
    help="New words for the one that stays.",
)
@embedder_option
@why_options
@asking_options
@common
@_curation
def merge() -> None:
    """Let the lesson INTO speak for others, which are retired; it takes over how often they were learned."""


@lessons.command(short_help="Take changes of a lesson back.")
@_id
@click.option(
    "--to",
    metavar="N",
    type=click.IntRange(min=0),
    help='The change to go back to, as "history" numbers them; 0 is what was before the first.'
    "  [default: the last but one]",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@embedder_option
@why_options
@common
@_curation
def rollback() -> None:
    """Make a lesson again what it was after an earlier change; that is a change as well.

    Lessons that were merged into it since come back. How often it was learned since still counts. A text that was let
    in from quarantine goes back there before its first change.
    """


@lessons.command(short_help="Remove lessons for good.")
@_ids
@asking_options
@common
@_looking
def forget() -> None:
    """Remove lessons for good, from everywhere: text, vectors, history, records, and the lessons that took them in.

    Lessons that were merged into one of them are lessons of their own, and stay.
    """


@lessons.command(short_help="Say afterwards how a run went.")
@click.argument("run")
@click.argument("score", type=click.FloatRange(0, 1))
@click.option(
    "--attempt", metavar="N", type=click.IntRange(min=0), help="Which attempt.  [default: the last]"
)
@click.option("--task", metavar="ID", help="Which task, of a run that did several.")
@why_options
@common
@_curation
def outcome() -> None:
    """Say afterwards how an attempt of RUN went: SCORE from 0 to 1 counts instead of what was noted before."""


@lessons.command(short_help="Merge copies, retire what harms; rules or a model.")
@click.option(
    "--model",
    metavar="NAME",
    help="Ask this model, by its name at the endpoint.  [default: rules that need none]",
)
@endpoint_options
@embedder_option
@by_option
@asking_options
@common
@served_by("lessons.consolidation:ConsolidationService")
def consolidate() -> None:
    """Merge lessons that say the same, and retire those that harm.

    With --model a language model proposes, also new wordings and lessons drawn from several; each proposal is checked.
    """


@lessons.command(short_help="Write a lesson yourself.")
@click.argument("text", callback=check_text)
@click.option(
    "--task", metavar="TEXT", required=True, callback=check_text, help="The task that it is recalled for."
)
@_kind
@create_option
@embedder_option
@by_option
@common
@_looking
def add() -> None:
    """Store TEXT, one sentence of advice, as a lesson for tasks like --task.

    It is checked and redacted as any lesson is. A text that gives orders waits in quarantine, for approve or reject.
    """


@lessons.command(short_help="What a task would recall, and why.")
@click.argument("task")
@_kind
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="A tool of the task; may be repeated.")
@top_k_option(help="How many at most.  [default: 5]")
@click.option(
    "--preset",
    type=click.Choice(("structured_reflections", "seed002")),
    help="As the loop does with a preset: structured_reflections recalls 3.",
)
@click.option(
    "--strategy",
    type=click.Choice(("nearest", "structured_reflections", "hybrid", "seed002")),
    help="How lessons are ordered.",
)
@number_option(
    "--floor",
    "X",
    click.FloatRange(-1, 1),
    help="The similarity below which none is recalled.",
)
@click.option("--max-tokens", metavar="N", type=COUNT, help="The room for all together.")
@number_option(
    "--max-likeness",
    "X",
    click.FloatRange(0, 1, min_open=True),
    help="What share of their words two may have in common.",
)
@number_option(
    "--utility-weight",
    "X",
    click.FloatRange(min=0),
    help="How much credit counts beside relevance.",
)
@number_option(
    "--half-life",
    "DAYS",
    click.FloatRange(min=0, min_open=True),
    help="After how long without a recall credit weighs half.",
)
@click.option(
    "--where",
    "narrow",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_narrow,
    help="What a lesson's metadata must say, such as agent=researcher or tool=search; may be repeated.",
)
@credit_option
@embedder_option
@common
@served_by("lessons.explanation:ExplanationService")
def why() -> None:
    """Show what TASK would recall and why, and what it would not and why not.

    Settings that a program gives its lesson store or its loop are given here, too; what they are is shown. Nothing is
    noted as a recall, nothing is retired, and nothing is withheld by a draw.
    """


for _command in (export, import_, sync, reembed):
    lessons.add_command(_command)
