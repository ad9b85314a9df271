"""``jeeves-reflexion lessons why``: its options, which say how a program recalls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from jeeves_reflexion.cli.bench_options import check_finite_number
from jeeves_reflexion.cli.lesson_options import F, Where, bundled, common
from jeeves_reflexion.cli.options import (
    COUNT,
    EmbedderChoice,
    credit_option,
    embedder_option,
    top_k_option,
)
from jeeves_reflexion.types import JSON


@dataclass(frozen=True, slots=True)
class Recalling:
    """How a program recalls; what is None is as a lesson store does by itself.

    ``k`` is how many lessons it asks for, ``preset`` the loop's; ``floor`` is a cosine similarity. ``narrow`` holds
    what the metadata of a lesson must say. The others are those of ``Picking`` and ``Credit``.
    """

    k: int | None = None
    preset: str | None = None
    strategy: str | None = None
    floor: float | None = None
    max_tokens: int | None = None
    max_likeness: float | None = None
    utility_weight: float | None = None
    half_life: float | None = None
    narrow: Mapping[str, JSON] | None = None
    credit: bool | None = None


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


_OPTIONS = (
    top_k_option(help="How many at most.  [default: 5]"),
    click.option(
        "--preset",
        type=click.Choice(("structured_reflections", "seed002")),
        help="As the loop does with a preset: structured_reflections recalls 3.",
    ),
    click.option(
        "--strategy",
        type=click.Choice(("nearest", "structured_reflections", "hybrid", "seed002")),
        help="How lessons are ordered.",
    ),
    click.option(
        "--floor",
        metavar="X",
        type=click.FloatRange(-1, 1),
        callback=check_finite_number,
        help="The similarity below which none is recalled.",
    ),
    click.option("--max-tokens", metavar="N", type=COUNT, help="The room for all together."),
    click.option(
        "--max-likeness",
        metavar="X",
        type=click.FloatRange(0, 1, min_open=True),
        callback=check_finite_number,
        help="What share of their words two may have in common.",
    ),
    click.option(
        "--utility-weight",
        metavar="X",
        type=click.FloatRange(min=0),
        callback=check_finite_number,
        help="How much credit counts beside relevance.",
    ),
    click.option(
        "--half-life",
        metavar="DAYS",
        type=click.FloatRange(min=0, min_open=True),
        callback=check_finite_number,
        help="After how long without a recall credit weighs half.",
    ),
    click.option(
        "--where",
        "narrow",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_narrow,
        help="What a lesson's metadata must say, such as agent=researcher or tool=search; may be repeated.",
    ),
    credit_option,
)
_NAMES = (
    "k",
    "preset",
    "strategy",
    "floor",
    "max_tokens",
    "max_likeness",
    "utility_weight",
    "half_life",
    "narrow",
    "credit",
)


def _recalling(**given: Any) -> Recalling:  # noqa: ANN401 - as click gives them
    for name in ("half_life", "utility_weight"):
        if given["credit"] is False and given[name] is not None:
            raise click.UsageError(
                f"--{name.replace('_', '-')} says how credit counts: it excludes --no-credit"
            )
    return Recalling(**given)


def recalling_options(function: F) -> F:
    """Add the options that say how a program recalls; they come as ``recalling``, a :class:`Recalling`."""
    made = bundled(function, "recalling", _recalling, _NAMES)
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


@click.command(short_help="What a task would recall, and why.")
@click.argument("task")
@click.option("--kind", metavar="KIND", help="The kind of task.")
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="A tool of the task; may be repeated.")
@recalling_options
@embedder_option
@common
def why(
    *,
    task: str,
    kind: str | None,
    tools: tuple[str, ...],
    recalling: Recalling,
    embedder: EmbedderChoice,
    where: Where,
) -> None:
    """Show what TASK would recall and why, and what it would not and why not.

    Settings that a program gives its lesson store or its loop are given here, too; what they are is shown. Nothing is
    noted as a recall, nothing is retired, and nothing is withheld by a draw.
    """
    from jeeves_reflexion.cli.lesson_why import Question, WhyDesk  # noqa: PLC0415 - not for --help
    from jeeves_reflexion.types import Task  # noqa: PLC0415

    if not task.strip():
        raise click.UsageError("the task is empty: say what would be asked")
    WhyDesk(where).why(Question(Task(task, kind=kind, tools=tools), recalling, embedder))
