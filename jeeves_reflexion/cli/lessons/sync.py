"""``jeeves-reflexion lessons``: carry lessons between two addresses, such as a folder and a team's database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import anyio
import click

from jeeves_reflexion.cli.connections import existing, origin_at
from jeeves_reflexion.cli.lessons.exchange import plan_answer, show_plan
from jeeves_reflexion.cli.lessons.library import Library, over_lessons
from jeeves_reflexion.cli.lessons.look import create_option
from jeeves_reflexion.cli.options import (
    EmbedderChoice,
    by_option,
    dry_run_option,
    embedder_option,
    options_of,
    yes_option,
)
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.exchange import ImportPlan, Line, lines_of, make_import, plan_import
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import LessonState

Way: TypeAlias = Literal["push", "pull"]


@dataclass(frozen=True, slots=True)
class _Transfer:
    """What one side would take from the other."""

    source: Library
    target: Library
    plan: ImportPlan

    @property
    def number(self) -> int:
        return len(self.plan.added) + len(self.plan.changed)


def _carrier(name: str, ways: Sequence[Way], short_help: str, text: str) -> click.Command:
    """Return the command that carries lessons these ways."""

    @click.command(name, short_help=short_help, help=text)
    @options_of(
        click.argument("other", metavar="ADDRESS"),
        click.option(
            "--approve",
            is_flag=True,
            help="Let new lessons that are active there be recalled at once.  [default: they wait for review]",
        ),
        create_option,
        embedder_option,
        over_lessons(by_option, yes_option, dry_run_option),
    )
    def command(
        library: Library, other: str, embedder: EmbedderChoice, *, approve: bool, create: bool
    ) -> None:
        there = replace(library, address=other)
        if there.store_address == library.store_address:
            raise click.UsageError("both sides are the same address")
        # Both are looked through before either is changed.
        transfers = [_planned(*_sides(way, library, there), approve=approve, create=create) for way in ways]
        answer: dict[str, object] = {each.target.shown: plan_answer(each.plan) for each in transfers}
        if not library.as_json:
            for each in transfers:
                library.screen.note(f"from {each.source.shown} to {each.target.shown}", "bold")
                show_plan(library, each.plan)
        number = sum(each.number for each in transfers)
        if not number:
            library.give({"dry_run": library.dry_run, **answer}, "nothing to carry")
            return
        waits = "" if approve else "; new ones wait for review"
        if library.agreed(f"Carry {counted(number, 'lesson')}{waits}?", answer):
            for each in transfers:
                change = Change("import", f"from {each.source.shown}", library.by)
                made = partial(make_import, plan=each.plan, change=change)
                each.target.within(made, embedder, create=create)
            library.give({"dry_run": False, **answer}, f"carried {counted(number, 'lesson')}{waits}")

    return command


def _sides(way: Way, library: Library, there: Library) -> tuple[Library, Library]:
    return (library, there) if way == "push" else (there, library)


def _planned(source: Library, target: Library, *, approve: bool, create: bool) -> _Transfer:
    if create and origin_at(source.store_address) is None:
        lines: list[Line] = []  # this side is to be made, too
    else:
        lines = source.within(lines_of)

    async def plan(store: VectorLessonStore | None) -> ImportPlan:
        # What waits for review there waits here too.
        states: tuple[LessonState, ...] = ("active",) if approve else ()
        return await plan_import(store, lines, approve=states, source=source.shown)

    if create and origin_at(target.store_address) is None:
        return _Transfer(source, target, anyio.run(plan, None))
    existing(target.store_address)
    return _Transfer(source, target, target.within(plan))


push = _carrier(
    "push",
    ("push",),
    "Hand lessons to another address.",
    "Hand the lessons to another ADDRESS, such as a team's database.\n\nShows what is new, changed, the same and"
    " refused there, and asks. They get there as imports do: marked as imported, waiting for review. What was carried"
    " before is not carried again; one that was stopped goes on.",
)
pull = _carrier(
    "pull",
    ("pull",),
    "Take lessons from another address.",
    'Take the lessons of another ADDRESS, as "push" hands them over.',
)
sync = _carrier(
    "sync",
    ("push", "pull"),
    "Hand and take lessons, after a look at both sides.",
    'Both "push" and "pull": shows what each side would get, and asks once.\n\nWords are carried, decisions are not:'
    " each side approves and retires for itself.",
)
