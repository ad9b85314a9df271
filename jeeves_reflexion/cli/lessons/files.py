"""``jeeves-reflexion lessons``: export to files, and import from them. An import is shown before it is made."""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import anyio
import click

from jeeves_reflexion.cli.lessons.exchange import (
    MANIFEST,
    Importing,
    Planned,
    edits_of,
    export_folder,
    orders,
    planned_import,
    take_in,
    take_over,
    with_tasks,
)
from jeeves_reflexion.cli.lessons.library import Library, brief, over_lessons, short, task_excerpt
from jeeves_reflexion.cli.lessons.look import create_option, state_option
from jeeves_reflexion.cli.options import (
    Asking,
    EmbedderChoice,
    asking_options,
    by_option,
    embedder_option,
    gathered,
)
from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.exchange.files import ImportReport, Line, export_file, to_line
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import LessonState

_SHOWN: Final = 20
_STDOUT: Final = ("-", "/dev/stdout", "/dev/fd/1")


@click.command(short_help="Write lessons to a file or a folder.")
@click.argument("target", metavar="FILE|FOLDER|-")
@click.option(
    "--format",
    "form",
    type=click.Choice(("jsonl", "markdown")),
    default="jsonl",
    show_default=True,
    help="A line of JSON for each lesson, or a folder with a Markdown file for each.",
)
@state_option
@click.option(
    "--overwrite", is_flag=True, help="Replace a file, or files of a folder, that are there already."
)
@over_lessons
def export(library: Library, target: str, form: str, state: LessonState | None, *, overwrite: bool) -> None:
    """Write lessons to a file, or to a folder of Markdown files that people read and edit."""
    path = None if target in _STDOUT else Path(target)
    if path is None and library.as_json:
        raise click.UsageError("--json would stand among the lessons: name a file")
    _check_target(path, form, overwrite=overwrite)
    found = [
        each for each in library.within(with_tasks, doing="reading lessons") if state in (None, each[0].state)
    ]
    said = f"exported {counted(len(found), 'lesson')}"
    lines = (f"{to_line(lesson, tasks)}\n" for lesson, tasks in found)
    if path is None:
        for line in lines:
            click.echo(line, nl=False)
        library.screen.note(said)
        return
    if form == "markdown":
        export_folder(path, found)
    elif _takes_writing(path):
        try:  # not in a thread: a pipe that nobody reads is waited for, and Ctrl-C ends that
            with path.open("w", encoding="ascii") as file:
                file.writelines(lines)
        except OSError as error:
            raise LessonStoreError(f"{path} can't be written: {error.strerror}") from error
    else:
        anyio.run(export_file, path, found)
    library.give({"exported": len(found), "to": str(path), "format": form}, f"{said} to {path}")


def _check_target(path: Path | None, form: str, *, overwrite: bool) -> None:
    if form == "markdown":
        if path is None:
            raise click.UsageError("Markdown goes to a folder: name one")
        if path.exists() and not path.is_dir():
            raise click.UsageError(f"{path} is no folder: Markdown is a file for each lesson")
        if path.is_dir() and not overwrite and any(path.iterdir()):
            raise click.UsageError(
                f"{path} is not empty: add --overwrite to replace the files that are in it"
            )
    elif path is not None:
        if path.is_dir():
            raise click.UsageError(f"{path} is a folder: name a file, or add --format markdown")
        if path.exists() and not _takes_writing(path) and not overwrite:
            raise click.UsageError(f"{path} is there already: add --overwrite to replace it")


def _takes_writing(path: Path) -> bool:
    """Whether a file is a pipe or a character device: it is written to, for there is nothing in it to replace."""
    return path.exists() and (stat.S_ISFIFO(mode := path.stat().st_mode) or stat.S_ISCHR(mode))


@click.command("import", short_help="Take lessons in, after a look.")
@gathered(
    "order",
    Importing,
    click.argument("source", metavar="FILE|FOLDER", type=click.Path(exists=True, path_type=Path)),
    click.option(
        "--approve",
        is_flag=True,
        help="Let new lessons be recalled at once.  [default: they wait for review]",
    ),
    click.option(
        "--restore",
        is_flag=True,
        help="Take your own lessons back as they were written: trust, state and support too.",
    ),
    click.option(
        "--force",
        is_flag=True,
        help="With --restore: undo what was done to these lessons since, forgetting too.",
    ),
    create_option,
    click.option(
        "--skip-bad", is_flag=True, help="Pass over what is no lesson, instead of importing nothing."
    ),
)
@embedder_option
@by_option
@asking_options
@over_lessons
@click.pass_context
def import_(
    ctx: click.Context,
    /,
    library: Library,
    order: Importing,
    embedder: EmbedderChoice,
    by: str,
    asking: Asking,
) -> None:
    """Take in lessons that "export" wrote: JSON lines, or a folder of Markdown files.

    Shows what is new, changed, the same and refused, and asks. Lessons of others are marked as imported, and are shown
    to agents as data. --restore leaves a lesson alone that was changed since it was exported, unless --force is given;
    one that was forgotten comes back with both alone.
    """
    # Not in an event loop: a pipe that nobody writes to is waited for, and Ctrl-C ends that.
    planned = planned_import(library, order)
    report = planned.report
    held = [line.lesson.id for line in report.added if line.lesson.id in planned.held]
    answer = {**_import_document(report), "quarantine": held}
    if not library.as_json:
        _show_import(library, planned, None if asking.dry_run else _SHOWN)
    if not report.changes:
        library.give({"dry_run": asking.dry_run, **answer}, "nothing to import")
        ctx.exit(1 if report.refused and not report.same else 0)
    number = counted(len(report.changes), "lesson")
    waits = "" if order.approve or order.restore else "; new ones wait for review"
    if library.agreed(asking, f"Import {number}{waits}?", answer):
        merged = library.within(
            lambda store: take_in(store, planned, order, by), embedder, create=order.create, doing="importing"
        )
        also = f", {merged} of them merged into lessons that say the same" if merged else ""
        also += f", {len(held)} of them into quarantine" if held else ""
        library.give({"dry_run": False, **answer, "merged": merged}, f"imported {number}{also}{waits}")


def _show_import(library: Library, planned: Planned, limit: int | None) -> None:
    report = planned.report
    for what, lines in (("new", report.added), ("changed", report.changed), ("refused", report.refused)):
        for line in lines[:limit]:
            library.screen.entry(_line_row(what, line, planned))
        if limit is not None and len(lines) > limit:
            library.screen.note(f"and {len(lines) - limit} more {what}; --dry-run shows all", "dim")
    for bad in report.bad[:limit]:
        library.screen.note(f"passed over: {bad.problem if '.md: ' in bad.problem else bad}")
    library.screen.note(str(report), "dim")


def _line_row(what: str, line: Line, planned: Planned) -> dict[str, str]:
    lesson, finding = line.lesson, planned.held.get(line.lesson.id)
    state, why = str(lesson.state), f"undoes {line.undoes}" if line.undoes else "-"
    if line.reason:
        state, why = "-", line.reason
    elif finding is not None:
        state, why = "quarantine", orders(finding)
    known = planned.stored.get(lesson.id) if what == "changed" else None
    return {
        "id": short(lesson.id),
        "what": "forgotten" if line.forgotten else what,
        "state": state,
        "why": why,
        "was": "-" if known is None else known.text,
        "task": task_excerpt(lesson),
        "lesson": lesson.text,
    }


def _import_document(report: ImportReport) -> dict[str, object]:
    found = {"added": report.added, "changed": report.changed, "same": report.same}
    return {
        **{name: [line.lesson.id for line in lines] for name, lines in found.items()},
        "refused": [{"id": line.lesson.id, "reason": line.reason} for line in report.refused],
        "undoes": {line.lesson.id: line.undoes for line in report.changes if line.undoes},
        "bad": [str(bad) for bad in report.bad],
    }


@click.command(short_help="Take over what was edited in a folder.")
@click.argument("folder", type=click.Path(path_type=Path))
@by_option
@asking_options
@over_lessons
@click.pass_context
def sync(ctx: click.Context, /, library: Library, folder: Path, by: str, asking: Asking) -> None:
    """Take over what people did to the Markdown files of a FOLDER to which lessons were exported.

    Shows what was added, changed and removed, and asks. A lesson whose file was removed is retired.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"there is no folder {folder}")
    exported = (folder / MANIFEST).exists()
    edits = library.within(lambda store: edits_of(store, folder))
    rows = [
        *(brief(cleaned.lesson, what="added") for cleaned in edits.added),
        *(brief(after, what="changed", was=before.text) for before, after in edits.changed),
        *(brief(lesson, what="removed: to be retired") for lesson in edits.removed),
        *(brief(lesson, what=f"refused: {why}") for lesson, why in edits.refused),
    ]
    answer = {
        "added": [cleaned.lesson.id for cleaned in edits.added],
        "changed": [after.id for _, after in edits.changed],
        "removed": [lesson.id for lesson in edits.removed],
        "refused": [{"id": lesson.id, "reason": why} for lesson, why in edits.refused],
        "malformed": [{"path": bad.path.name, "problem": bad.problem} for bad in edits.malformed],
    }
    if not library.as_json:
        for row in rows:
            library.screen.entry(row)
        for bad in edits.malformed:
            library.screen.note(f"left alone: {bad.path.name}: {bad.problem}")
    number, nothing = len(rows) - len(edits.refused), f"{folder} says what is {library.where}"
    if edits.refused or edits.malformed:
        nothing = f"all but what is told above is so {library.where}"
    elif not exported and not any(folder.glob("*.md")):
        nothing = f"no lessons were exported to {folder}, and no file of one lies there"
    _apply(library, asking, number, answer, nothing, lambda store: take_over(store, folder, edits, by))
    ctx.exit(1 if edits.refused and not number else 0)


def _apply(
    library: Library,
    asking: Asking,
    number: int,
    answer: Mapping[str, object],
    nothing: str,
    work: Callable[[VectorLessonStore], Awaitable[object]],
) -> None:
    """Make changes after a question; ``nothing`` says what it means that there is none."""
    changes = counted(number, "change")
    if not number:
        library.give({"dry_run": asking.dry_run, **answer})
        library.screen.note(f"nothing to apply: {nothing}")
    elif library.agreed(asking, f"Apply {changes}?", answer):
        library.within(work, doing="applying")
        library.give({"dry_run": False, **answer}, f"applied {changes}")
