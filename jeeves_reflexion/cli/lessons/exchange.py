"""``jeeves-reflexion lessons``: export lessons to a file, import them, or copy them between two addresses.

Every import is shown before it is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio
import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.lessons.library import Library, all_lessons, brief, over_lessons, task_excerpt
from jeeves_reflexion.cli.screen import interruptible
from jeeves_reflexion.lessons.agents_file import MOST_CHARACTERS, block_of, ranked, update_file
from jeeves_reflexion.lessons.exchange import (
    ImportPlan,
    Line,
    export_file,
    import_file,
    lines_of,
    make_import,
    plan_import,
    to_line,
)
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import LessonState

Way: TypeAlias = Literal["push", "pull"]
Answer: TypeAlias = Mapping[str, object]
_SHOWN: Final = 20


@click.command(short_help="Write lessons to a file.")
@click.argument("target", metavar="FILE|-", required=False)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@click.option(
    "--to",
    "agents_file",
    metavar="AGENTS.md",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Instead update a marked block of the active lessons, best first, in this file.",
)
@click.option(
    "--max-characters",
    metavar="N",
    type=options.COUNT,
    default=MOST_CHARACTERS,
    help="The most characters of the block of --to.",
)
@over_lessons()
async def export(
    library: Library, target: str | None, agents_file: Path | None, max_characters: int, *, overwrite: bool
) -> None:
    """Write lessons as JSON lines to a file or to standard output, or with --to into a file that agents read."""
    if (target is None) == (agents_file is None):
        raise click.UsageError("name either a file, or with --to a file that agents read")
    if agents_file is not None:
        async with library.open() as store:
            best = ranked(await all_lessons(store), await store.ledger.credits(max_age=0.0))
        block, number = block_of(best, max_characters)
        changed = update_file(agents_file, block)
        said = f"{agents_file} has {number} of {counted(len(best), 'active lesson')}"
        answer = {"to": str(agents_file), "exported": number, "active": len(best), "changed": changed}
        library.give(answer, said if changed else f"{said}, as before")
        return

    if target == "-" and library.as_json:
        raise click.UsageError("--json would mix with the lessons on standard output: name a file")
    path = Path(str(target))
    if target != "-" and not overwrite and await anyio.Path(path).exists():
        raise click.UsageError(f"{path} exists already: add --overwrite to replace it")
    async with library.open() as store:
        found = await lines_of(store)
    said = f"exported {counted(len(found), 'lesson')}"
    if target == "-":
        with interruptible():
            for line in found:
                click.echo(to_line(line.lesson, line.tasks))
        library.screen.note(said)
    else:
        export_file(path, found)
        library.give({"exported": len(found), "to": str(path)}, f"{said} to {path}")


@dataclass(frozen=True, slots=True)
class _Transfer:
    """The lessons that ``target`` would take from ``source``."""

    source: str
    target: Library
    plan: ImportPlan

    @property
    def answer(self) -> dict[str, object]:
        """The ids of the lessons, for JSON."""
        plan = self.plan
        return {
            "added": [line.lesson.id for line in plan.added],
            "same": [line.lesson.id for line in plan.same],
            "refused": [{"id": line.lesson.id, "reason": line.reason} for line in plan.refused],
        }

    @interruptible()
    def show(self) -> None:
        """Print the lessons."""
        plan, library = self.plan, self.target
        for what, lines in (("new", plan.added), ("refused", plan.refused)):
            shown = lines if library.dry_run else lines[:_SHOWN]
            for line in shown:
                lesson = line.lesson
                about = {
                    "what": what,
                    "state": "-" if line.reason else lesson.state,
                    "why": line.reason or "-",
                }
                library.screen.entry(brief(lesson, **about, task=task_excerpt(lesson)))
            if len(shown) < len(lines):
                library.screen.note(f"and {len(lines) - len(shown)} more {what}; --dry-run shows all", "dim")
        library.screen.note(str(plan), "dim")


async def _planned(
    source: str, lines: Sequence[Line], target: Library, approve: Sequence[LessonState]
) -> _Transfer:
    async with nullcontext() if target.is_new else target.open() as store:
        return _Transfer(source, target, await plan_import(store, lines, approve=approve, source=source))


async def _carry(
    library: Library, verb: str, transfers: Sequence[_Transfer], answer: Answer, *, approve: bool
) -> None:
    """Show the transfers, ask whether to make them, and make them; ``verb`` names the action."""
    for each in () if library.as_json else transfers:
        if verb == "carry":
            library.screen.note(f"from {each.source} to {each.target.shown}", "bold")
        each.show()
    lessons = counted(sum(len(each.plan.added) for each in transfers), "lesson")
    waits = "" if approve else "; new ones wait for review"
    if not any(each.plan.added for each in transfers):
        library.give({"dry_run": library.dry_run, **answer}, f"nothing to {verb}")
    elif library.agreed(f"{verb.capitalize()} {lessons}{waits}?", answer):
        merged = 0
        for each in transfers:
            change = Change("import", f"from {each.source}", each.target.by)
            async with each.target.open(create=library.create) as store:
                merged += await make_import(store, each.plan, change)
        also = f", {merged} of them equal to stored lessons" if merged else ""
        done = {"import": "imported", "carry": "carried"}[verb]
        library.give({"dry_run": False, **answer, "merged": merged}, f"{done} {lessons}{also}{waits}")


@click.command("import", short_help="Import lessons from a file.")
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--approve",
    is_flag=True,
    help="Make new lessons active at once.  [default: they wait for review]",
)
@options.create
@click.pass_context
@over_lessons(options.embedder, options.by, options.yes, options.dry_run)
async def import_(ctx: click.Context, /, library: Library, source: Path, *, approve: bool) -> None:
    """Import lessons from a file that "export" wrote.

    Shows which lessons are new, the same or refused, and asks. Lessons of others are marked as imported, and
    agents see them as data.
    """
    states: tuple[LessonState, ...] = ("active", "proposed") if approve else ()
    with interruptible():  # the file may be a pipe, or on a slow disk
        lines = import_file(source)
    transfer = await _planned(source.name, lines, library, states)
    await _carry(library, "import", [transfer], transfer.answer, approve=approve)
    if transfer.plan.refused and not (transfer.plan.added or transfer.plan.same):
        ctx.exit(1)


def _carrier(name: str, ways: Sequence[Way], short_help: str, text: str) -> click.Command:
    """Return a command that copies lessons in these directions."""

    @click.command(name, short_help=short_help, help=text)
    @options.options_of(
        click.argument("other", metavar="ADDRESS"),
        click.option(
            "--approve",
            is_flag=True,
            help="Make new lessons active at once if they are active at the source.  [default: they wait for review]",
        ),
        options.create,
        over_lessons(options.embedder, options.by, options.yes, options.dry_run),
    )
    async def command(library: Library, other: str, *, approve: bool) -> None:
        there = replace(library, address=other)
        if there.store_address == library.store_address:
            raise click.UsageError("both sides are the same address")
        # A lesson that waits for review at the source waits at the target too.
        states: tuple[LessonState, ...] = ("active",) if approve else ()
        transfers = []  # both sides are read before either is changed
        for way in ways:
            source, target = (library, there) if way == "push" else (there, library)
            lines: Sequence[Line] = []
            if not source.is_new:
                async with source.open() as store:
                    lines = await lines_of(store)
            transfers.append(await _planned(source.shown, lines, target, states))
        answer = {each.target.shown: each.answer for each in transfers}
        await _carry(library, "carry", transfers, answer, approve=approve)

    return command


push = _carrier(
    "push",
    ("push",),
    "Copy lessons to another address.",
    "Copy the lessons to another ADDRESS, such as a team's database.\n\nShows which lessons are new, the same or"
    " refused there, and asks. They arrive as imports do: marked as imported, and waiting for review. A lesson is"
    " copied once; a push that was stopped can be run again.",
)
pull = _carrier(
    "pull",
    ("pull",),
    "Copy lessons from another address.",
    'Copy the lessons of another ADDRESS to this one, as "push" does.',
)
sync = _carrier(
    "sync",
    ("push", "pull"),
    "Copy lessons in both directions.",
    'Both "push" and "pull": shows what each side would get, and asks once.\n\nTexts are copied, decisions are not:'
    " each side approves and retires its own lessons.",
)
