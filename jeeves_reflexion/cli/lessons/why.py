"""``jeeves-reflexion lessons why``: what a task would recall, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from jeeves_reflexion.cli.connections import credit_of
from jeeves_reflexion.cli.lessons.library import Library, over_lessons, short, task_excerpt
from jeeves_reflexion.cli.lessons.look import kind_option
from jeeves_reflexion.cli.options import COUNT, Number, credit_option, top_k_option
from jeeves_reflexion.cli.screen import lift_words
from jeeves_reflexion.lessons import LessonSettings, Picking, VectorLessonStore
from jeeves_reflexion.loop.presets import preset_of
from jeeves_reflexion.redaction import redact_record
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import JSON, Recall, RecalledLesson, Task


def _settings(given: Mapping[str, Any]) -> LessonSettings:
    """The settings of a program's lesson store; what is None is as a store does by itself."""
    for name in ("half_life", "utility_weight"):
        if given["credit"] is False and given[name] is not None:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} says how credit counts: it excludes --no-credit")
    picked = ("max_tokens", "max_likeness", "utility_weight")
    weighed = True if given["utility_weight"] is not None else given["credit"]
    narrow, floor = given["narrow"], given["floor"]
    settings = LessonSettings(
        picking=Picking(**{name: given[name] for name in picked if given[name] is not None}),
        credit=credit_of(weighed, half_life=given["half_life"]),
        where=(lambda _: narrow) if narrow else None,
    )
    return settings if floor is None else replace(settings, min_similarity=floor)


def _described(settings: LessonSettings, k: int, narrow: Mapping[str, JSON]) -> dict[str, JSON]:
    picking, credit = settings.picking, settings.credit
    return {
        "k": k,
        "floor": settings.min_similarity,
        "max_tokens": picking.max_tokens,
        "max_likeness": picking.max_likeness,
        "credit": credit is not None,
        "utility_weight": picking.utility_weight if credit else None,
        "half_life_days": credit.half_life_days if credit else None,
        "where": narrow,
    }


def _narrow(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE; a value that is a JSON number, true, false or null is one, anything else is text."""
    found: dict[str, Any] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{each!r} is not KEY=VALUE, such as agent=researcher")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        if key in found:
            raise click.BadParameter(f"{key!r} is given twice")
        found[key] = value if key == "tool" or isinstance(read, str | list | dict) else read
    return found


@click.command(short_help="What a task would recall, and why.")
@click.argument("task")
@kind_option
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="A tool of the task; may be repeated.")
@top_k_option(help="How many at most.  [default: 5]")
@click.option(
    "--preset",
    type=click.Choice(("structured_reflections", "seed002")),
    help="As the loop does with a preset: structured_reflections recalls 3.",
)
@click.option("--floor", metavar="X", type=Number(-1, 1), help="The similarity below which none is recalled.")
@click.option("--max-tokens", metavar="N", type=COUNT, help="The room for all together.")
@click.option(
    "--max-likeness",
    metavar="X",
    type=Number(0, 1, min_open=True),
    help="What share of their words two may have in common.",
)
@click.option(
    "--utility-weight", metavar="X", type=Number(min=0), help="How much credit counts beside relevance."
)
@click.option(
    "--half-life",
    metavar="DAYS",
    type=Number(min=0, min_open=True),
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
@over_lessons
def why(library: Library, task: str, kind: str | None, tools: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401 - one for each option
    """Show what TASK would recall and why, and what it would not and why not.

    Settings that a program gives its lesson store or its loop are given here, too; what they are is shown. Nothing is
    noted as a recall, nothing is retired, and nothing is withheld by a draw.
    """
    if not task.strip():
        raise click.UsageError("the task is empty: say what would be asked")
    asked, settings = Task(task, kind=kind, tools=tools), _settings(given)
    k = preset_of(given["preset"]).top_k_lessons if given["k"] is None else given["k"]
    described = _described(settings, k, given["narrow"])

    async def explained(store: VectorLessonStore) -> Recall:
        return await VectorLessonStore(store.store, settings=settings).explain(asked, k=k)

    recall, screen = library.within(explained, doing="recalling"), library.screen
    if library.as_json:
        answer = {"task": redact_record(asked).public(), "settings": described}
        library.give({**answer, "offered": recall.offered, "left_out": recall.left_out})
        return
    said = [f"{name.replace('_', ' ')} {_said(value)}".strip() for name, value in described.items() if value]
    screen.note(f"as recalled with {', '.join(said)}", "dim")
    if not recall.offered:
        screen.note(f"nothing would be recalled {library.where}", "bold")
    for what, where, items in (
        ("recalled, best first", "in", recall.offered),
        ("not recalled", "out", recall.left_out),
    ):
        if items:
            screen.note(f"{what}: {counted(len(items), 'lesson')}", "bold")
        for item in items:
            screen.entry(_row(item, where))


def _said(value: JSON) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items())
    return "" if value is True else str(value)


def _row(item: RecalledLesson, where: str) -> dict[str, str]:
    known = item.lift is not None and item.lift.value is not None
    return {
        "id": short(item.lesson.id),
        "where": where,
        "similarity": f"{item.similarity:.2f}",
        "lift": lift_words(item.lift) if known else "-",
        "reason": item.reason,
        "task": task_excerpt(item.lesson),
        "lesson": item.lesson.text,
    }
