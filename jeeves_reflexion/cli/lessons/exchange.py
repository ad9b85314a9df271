"""``jeeves-reflexion lessons``: export to a file, and import from one, which is shown before it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import anyio
import click

from jeeves_reflexion.cli.connections import origin_at
from jeeves_reflexion.cli.lessons.library import Library, all_lessons, over_lessons, short, task_excerpt
from jeeves_reflexion.cli.lessons.look import create_option
from jeeves_reflexion.cli.options import (
    COUNT,
    EmbedderChoice,
    by_option,
    dry_run_option,
    embedder_option,
    yes_option,
)
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.agents_file import MOST_CHARACTERS, block_of, ranked, update_file
from jeeves_reflexion.lessons.exchange import (
    ImportPlan,
    Line,
    export_file,
    import_file,
    make_import,
    plan_import,
    to_line,
    with_tasks,
)
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import Lesson, LessonState

_SHOWN: Final = 20


@click.command(short_help="Write lessons to a file.")
@click.argument("target", metavar="FILE|-", required=False)
@click.option("--overwrite", is_flag=True, help="Replace a file that is there already.")
@click.option(
    "--to",
    "agents_file",
    metavar="AGENTS.md",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep a marked block of the active lessons, best first, up to date in this file instead.",
)
@click.option(
    "--max-characters", metavar="N", type=COUNT, default=MOST_CHARACTERS, help="The longest block of --to."
)
@over_lessons()
def export(
    library: Library, target: str | None, agents_file: Path | None, max_characters: int, *, overwrite: bool
) -> None:
    """Write lessons to a file as JSON lines, or to standard output; or, with --to, into a file that agents read."""
    if (target is None) == (agents_file is None):
        raise click.UsageError("name a file, or one that agents read with --to")
    if target is not None:
        _export_lines(library, target, overwrite=overwrite)
    elif agents_file is not None:
        _export_block(library, agents_file, max_characters)


def _export_block(library: Library, path: Path, most: int) -> None:
    async def best(store: VectorLessonStore) -> list[Lesson]:
        return ranked(await all_lessons(store), await store.ledger.credits(max_age=0.0))

    found = library.within(best)
    block, number = block_of(found, most)
    changed = update_file(path, block)
    said = f"{path} has {number} of {counted(len(found), 'active lesson')}"
    answer = {"to": str(path), "exported": number, "active": len(found), "changed": changed}
    library.give(answer, said if changed else f"{said}, as before")


def _export_lines(library: Library, target: str, *, overwrite: bool) -> None:
    path = Path(target)
    if target == "-" and library.as_json:
        raise click.UsageError("--json would stand among the lessons: name a file")
    if target != "-" and path.exists() and not overwrite:
        raise click.UsageError(f"{path} is there already: add --overwrite to replace it")
    found = library.within(with_tasks)
    said = f"exported {counted(len(found), 'lesson')}"
    if target == "-":
        for lesson, tasks in found:
            click.echo(to_line(lesson, tasks))
        library.screen.note(said)
    else:
        export_file(path, found)
        library.give({"exported": len(found), "to": str(path)}, f"{said} to {path}")


@click.command("import", short_help="Take lessons in, after a look.")
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--approve",
    is_flag=True,
    help="Let new lessons be recalled at once.  [default: they wait for review]",
)
@create_option
@embedder_option
@over_lessons(by_option, yes_option, dry_run_option)
@click.pass_context
def import_(
    ctx: click.Context,
    /,
    library: Library,
    source: Path,
    embedder: EmbedderChoice,
    *,
    approve: bool,
    create: bool,
) -> None:
    """Take in lessons that "export" wrote.

    Shows what is new, changed, the same and refused, and asks. Lessons of others are marked as imported, and are shown
    to agents as data.
    """
    lines = import_file(source)

    async def planned(store: VectorLessonStore | None) -> ImportPlan:
        states: tuple[LessonState, ...] = ("active", "proposed") if approve else ()
        return await plan_import(store, lines, approve=states, source=source.name)

    new_store = create and origin_at(library.store_address) is None
    plan = anyio.run(planned, None) if new_store else library.within(planned)
    answer = plan_answer(plan)
    if not library.as_json:
        show_plan(library, plan)
    number = len(plan.added) + len(plan.changed)
    if not number:
        library.give({"dry_run": library.dry_run, **answer}, "nothing to import")
        ctx.exit(1 if plan.refused and not plan.same else 0)
    question = f"Import {counted(number, 'lesson')}{'' if approve else '; new ones wait for review'}"
    if library.agreed(f"{question}?", answer):
        change = Change("import", f"from {source.name}", library.by)
        merged = library.within(lambda store: make_import(store, plan, change), embedder, create=create)
        also = f", {merged} of them equal to lessons that are there" if merged else ""
        done = f"imported {counted(number, 'lesson')}{also}{'' if approve else '; new ones wait for review'}"
        library.give({"dry_run": False, **answer, "merged": merged}, done)


def plan_answer(plan: ImportPlan) -> dict[str, object]:
    """Return what an import does, for a machine."""
    names = ("added", "changed", "same")
    answer: dict[str, object] = {name: [line.lesson.id for line in getattr(plan, name)] for name in names}
    return {**answer, "refused": [{"id": line.lesson.id, "reason": line.reason} for line in plan.refused]}


def show_plan(library: Library, plan: ImportPlan) -> None:
    """Show a person what an import does."""
    for what, lines in (("new", plan.added), ("changed", plan.changed), ("refused", plan.refused)):
        shown = lines if library.dry_run else lines[:_SHOWN]
        for line in shown:
            library.screen.entry(_row(what, line, plan))
        if len(shown) < len(lines):
            library.screen.note(f"and {len(lines) - len(shown)} more {what}; --dry-run shows all", "dim")
    library.screen.note(str(plan), "dim")


def _row(what: str, line: Line, plan: ImportPlan) -> dict[str, str]:
    return {
        "id": short(line.lesson.id),
        "what": what,
        "state": "-" if line.reason else line.lesson.state,
        "why": line.reason or "-",
        "was": plan.stored[line.lesson.id].text if what == "changed" else "-",
        "task": task_excerpt(line.lesson),
        "lesson": line.lesson.text,
    }
