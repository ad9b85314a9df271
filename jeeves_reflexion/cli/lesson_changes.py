"""``jeeves-reflexion lessons``: the commands that change lessons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jeeves_reflexion.cli.lesson_options import (
    Asking,
    Where,
    Why,
    asking_options,
    by_option,
    common,
    why_options,
)
from jeeves_reflexion.cli.options import EmbedderChoice, embedder_option, endpoint_options

if TYPE_CHECKING:
    from jeeves_reflexion.cli.lesson_review import ReviewDesk

_IDS = click.argument("lesson_ids", metavar="ID...", nargs=-1, required=True)


def _desk(where: Where) -> ReviewDesk:
    from jeeves_reflexion.cli.lesson_review import ReviewDesk  # noqa: PLC0415 - not for --help

    return ReviewDesk(where)


@click.command(short_help="Let what waits in.")
@click.argument("lesson_ids", metavar="[ID...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All proposed lessons, and no text in quarantine.")
@why_options
@asking_options
@common
def approve(*, lesson_ids: tuple[str, ...], everything: bool, why: Why, asking: Asking, where: Where) -> None:
    """Let proposed lessons be recalled, and texts in quarantine become lessons that are."""
    from jeeves_reflexion.cli.lesson_review import APPROVE  # noqa: PLC0415

    _desk(where).decide(APPROVE, lesson_ids, why, asking, everything=everything)


@click.command(short_help="Keep what waits out.")
@click.argument("lesson_ids", metavar="[ID...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All proposed lessons, and no text in quarantine.")
@why_options
@asking_options
@common
def reject(*, lesson_ids: tuple[str, ...], everything: bool, why: Why, asking: Asking, where: Where) -> None:
    """Retire proposed lessons, and throw texts in quarantine away.

    A rejected lesson stays, so that it is not learned again.
    """
    from jeeves_reflexion.cli.lesson_review import REJECT  # noqa: PLC0415

    _desk(where).decide(REJECT, lesson_ids, why, asking, everything=everything)


@click.command(short_help="Recall lessons no more, for a reason.")
@_IDS
@why_options
@asking_options
@common
def retire(*, lesson_ids: tuple[str, ...], why: Why, asking: Asking, where: Where) -> None:
    """Keep lessons, and recall them no more; --reason is required."""
    from jeeves_reflexion.cli.lesson_review import RETIRE  # noqa: PLC0415

    if not why.reason:
        raise click.UsageError("a lesson is retired for a reason: say it with --reason")
    _desk(where).decide(RETIRE, lesson_ids, why, asking)


@click.command(short_help="Recall retired lessons again.")
@_IDS
@why_options
@asking_options
@common
def restore(*, lesson_ids: tuple[str, ...], why: Why, asking: Asking, where: Where) -> None:
    """Recall retired lessons again."""
    from jeeves_reflexion.cli.lesson_review import RESTORE  # noqa: PLC0415

    _desk(where).decide(RESTORE, lesson_ids, why, asking)


@click.command(short_help="Say a lesson in other words.")
@click.argument("lesson_id", metavar="ID")
@click.argument("text")
@embedder_option
@why_options
@common
def edit(*, lesson_id: str, text: str, embedder: EmbedderChoice, why: Why, where: Where) -> None:
    """Say a lesson in other words; TEXT is checked as any lesson is."""
    _desk(where).edit(lesson_id, text, why, embedder)


@click.command(short_help="Let one lesson speak for others.")
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
def merge(
    *,
    into: str,
    others: tuple[str, ...],
    text: str | None,
    embedder: EmbedderChoice,
    why: Why,
    asking: Asking,
    where: Where,
) -> None:
    """Let the lesson INTO speak for others, which are retired; it takes over how often they were learned."""
    _desk(where).merge((into, *others), text, why, asking, embedder)


@click.command(short_help="Take changes of a lesson back.")
@click.argument("lesson_id", metavar="ID")
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
def rollback(
    *, lesson_id: str, to: int | None, dry_run: bool, embedder: EmbedderChoice, why: Why, where: Where
) -> None:
    """Make a lesson again what it was after an earlier change; that is a change as well.

    Lessons that were merged into it since come back. How often it was learned since still counts. A text that was let
    in from quarantine goes back there before its first change.
    """
    _desk(where).rollback(lesson_id, to, why, embedder, dry_run=dry_run)


@click.command(short_help="Remove lessons for good.")
@_IDS
@asking_options
@common
def forget(*, lesson_ids: tuple[str, ...], asking: Asking, where: Where) -> None:
    """Remove lessons for good, from everywhere: text, vectors, history, records, and the lessons that took them in.

    Lessons that were merged into one of them are lessons of their own, and stay.
    """
    _desk(where).forget(lesson_ids, asking)


@click.command(short_help="Say afterwards how a run went.")
@click.argument("run")
@click.argument("score", type=click.FloatRange(0, 1))
@click.option(
    "--attempt", metavar="N", type=click.IntRange(min=0), help="Which attempt.  [default: the last]"
)
@click.option("--task", metavar="ID", help="Which task, of a run that did several.")
@why_options
@common
def outcome(*, run: str, score: float, attempt: int | None, task: str | None, why: Why, where: Where) -> None:
    """Say afterwards how an attempt of RUN went: SCORE from 0 to 1 counts instead of what was noted before."""
    if score != score:  # noqa: PLR0124 - NaN lies in every range
        raise click.BadParameter("it must be a number from 0 to 1", param_hint="SCORE")
    _desk(where).outcome(run, score, attempt, task, why)


@click.command(short_help="Merge copies, retire what harms; rules or a model.")
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
def consolidate(  # noqa: PLR0913 - one parameter for each option
    *,
    model: str | None,
    base_url: str | None,
    api_key_env: str | None,
    timeout: float,
    embedder: EmbedderChoice,
    by: str,
    asking: Asking,
    where: Where,
) -> None:
    """Merge lessons that say the same, retire those that harm, vote on those that help or lie unused.

    With --model a language model proposes, also new wordings and lessons drawn from several; each proposal is checked.
    """
    from jeeves_reflexion.cli.endpoints import Endpoint  # noqa: PLC0415
    from jeeves_reflexion.cli.lesson_consolidation import ConsolidationDesk  # noqa: PLC0415

    if model is None and (base_url is not None or api_key_env is not None):
        raise click.UsageError("--base-url and --api-key-env need --model")
    endpoint = None if model is None else Endpoint(model, base_url, api_key_env, timeout)
    ConsolidationDesk(where).consolidate(endpoint, asking, by, embedder)
