"""``jeeves-reflexion lessons``: export to files, and import from them. An import is shown before it is made."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import anyio.to_thread
import click

from jeeves_reflexion.cli.lessons.admission import clean, problem_with, shape_of
from jeeves_reflexion.cli.lessons.service import LessonService, within
from jeeves_reflexion.cli.lessons.sync import export_folder
from jeeves_reflexion.cli.lessons.views import short, task_excerpt
from jeeves_reflexion.cli.options import Asking, EmbedderChoice, Where
from jeeves_reflexion.cli.service import counted
from jeeves_reflexion.cli.stores import open_for_reading, open_for_run
from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons import VectorLessonStore, gate
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.exchange.files import (
    BadLine,
    ImportReport,
    Line,
    Lines,
    export_file,
    import_file,
    plan_import,
    to_line,
    undone,
)
from jeeves_reflexion.lessons.gate import clean_prompt
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.records import MOST_TASKS
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.lessons.screening.detecting import Finding, screen
from jeeves_reflexion.lessons.traces import Forgotten, forgotten, remember
from jeeves_reflexion.reflections.folder import Malformed
from jeeves_reflexion.reflections.lesson_files import lesson_changes
from jeeves_reflexion.types import JSON, Lesson, LessonState
from vectorstores import origin_of

Format = Literal["jsonl", "markdown"]

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Importing:
    """What is imported, and how.

    ``approve`` lets new lessons be recalled at once; ``restore`` takes one's own lessons back as they were written,
    with ``force`` also those that the store has changed since; ``create`` makes a store where there is none;
    ``skip_bad`` passes over what is no lesson.
    """

    source: Path
    approve: bool = False
    restore: bool = False
    force: bool = False
    create: bool = False
    skip_bad: bool = False
    by: str = ""
    embedder: EmbedderChoice = "auto"


class FileService(LessonService):
    """Carries lessons to files and back."""

    def __init__(self, where: Where) -> None:
        super().__init__(where)
        self._stored: Mapping[str, Lesson] = {}
        self._held: dict[str, Finding] = {}

    def export(self, target: str, form: Format, state: LessonState | None, *, overwrite: bool) -> None:
        """Write lessons to a file of JSON lines, to stdout ("-"), or to a folder of Markdown files."""
        path = None if target == "-" or _is_stdout(target) else Path(target)
        if path is None and self._as_json:
            raise click.UsageError("--json would stand among the lessons: name a file")
        _check_target(path, form, overwrite=overwrite)
        found = self._read(lambda store: self._exported(store, state))
        number = len(found)
        if path is None:
            for lesson, tasks in found:
                click.echo(to_line(lesson, tasks))
        elif form == "markdown":
            export_folder(path, found)
        elif _takes_writing(path):
            _write_to(path, found)
        else:
            anyio.run(export_file, path, found)
        said = f"exported {counted(number, 'lesson')}"
        if path is None:
            self._screen.note(said)
        else:
            self._answer({"exported": number, "to": str(path), "format": form}, f"{said} to {path}")

    def import_(self, asking: Asking, **given: Any) -> None:  # noqa: ANN401 - as click gives them
        """Import lessons: show what that adds, changes and refuses, ask, and do it."""
        order = Importing(**given)
        if order.approve and order.restore:
            raise click.UsageError(
                "--approve and --restore exclude each other: --restore keeps the state as it was"
            )
        if order.force and not order.restore:
            raise click.UsageError("--force goes with --restore: nothing else goes back to an older state")
        # Not in an event loop: a pipe that nobody writes to is waited for, and Ctrl-C ends that.
        report = anyio.run(self._plan, order, _read(order))
        if not self._as_json:
            self._show(report, limit=None if asking.dry_run else _SHOWN)
        held = [line.lesson.id for line in report.added if line.lesson.id in self._held]
        answer = {**_answer(report), "quarantine": [*held]}
        if not report.changes:
            self._answer({"dry_run": asking.dry_run, **answer}, "nothing to import")
            if report.refused and not report.same:
                click.get_current_context().exit(1)
            return
        number = counted(len(report.changes), "lesson")
        waits = "" if order.approve or order.restore else "; new ones wait for review"
        if not self._go(asking, f"Import {number}{waits}?"):
            self._answer_dry(answer)
            return
        merged = self._import(order, report)
        also = f", {merged} of them merged into lessons that say the same" if merged else ""
        also += f", {len(held)} of them into quarantine" if held else ""
        self._answer({"dry_run": False, **answer, "merged": merged}, f"imported {number}{also}{waits}")

    def _show(self, report: ImportReport, *, limit: int | None) -> None:
        kinds: tuple[tuple[str, Sequence[Line]], ...] = (
            ("new", report.added),
            ("changed", report.changed),
            ("refused", report.refused),
        )
        for what, lines in kinds:
            for line in lines[:limit]:
                shown = _line_row(what, line, self._stored.get(line.lesson.id))
                if (finding := self._held.get(line.lesson.id)) is not None and not line.reason:
                    shown |= {
                        "state": "quarantine",
                        "why": f"it gives orders ({finding.kind}): {finding.why}",
                    }
                self._screen.entry(shown)
            if limit is not None and len(lines) > limit:
                self._screen.note(f"and {len(lines) - limit} more {what}; --dry-run shows all", "dim")
        for bad in report.bad[:limit]:
            self._screen.note(f"passed over: {bad.problem if '.md: ' in bad.problem else bad}")
        self._screen.note(str(report), "dim")

    # -- what touches the store and files

    async def _exported(
        self, store: VectorLessonStore, state: LessonState | None
    ) -> list[tuple[Lesson, tuple[str, ...]]]:
        with self._screen.busy():
            self._screen.waiting_for("reading lessons")
            return [each for each in await _with_tasks(store) if state is None or each[0].state == state]

    async def _plan(self, order: Importing, lines: Lines) -> ImportReport:
        older: dict[str, str] = {}
        gone = Forgotten()
        prepared = _prepared(lines, order)
        if not await anyio.to_thread.run_sync(partial(_is_there, self._place)):
            if not order.create:
                raise ConfigurationError(
                    f"no lesson store at {self._shown}: name one with --lessons or JEEVES_LESSONS, or add --create to "
                    "make it"
                )
            self._stored = {}
        else:
            async with open_for_reading(self._place, self._namespace) as store:
                self._stored = {
                    line.lesson.id: known
                    for line in lines.lessons
                    if (known := await store.get(line.lesson.id)) is not None
                }
                async with store_errors("read what was forgotten"):
                    gone = await forgotten(store.repository)
                if order.restore:
                    older = await self._older(store, prepared)
        said = {line.lesson.id: line.lesson.text for line in lines.lessons}
        tasks = {line.lesson.id: len(set(line.tasks)) for line in prepared.lessons}

        def check(lesson: Lesson) -> str | None:
            if tasks[lesson.id] > MOST_TASKS:
                return f"it names {tasks[lesson.id]} tasks, and a lesson is recalled by {MOST_TASKS} at most"
            finding = screen(said[lesson.id]) or screen(lesson.text)
            if finding is None or not order.restore or lesson.id in self._stored:
                return problem_with(lesson, said[lesson.id], restored=order.restore)
            # Somebody let it in once, so it is not lost; somebody is to do so here.
            self._held[lesson.id] = finding
            return shape_of(lesson, restored=True)

        return plan_import(
            prepared,
            self._stored,
            check=check,
            restore=order.restore,
            older=older,
            force=order.force,
            forgotten=gone,
        )

    async def _older(self, store: VectorLessonStore, lines: Lines) -> dict[str, str]:
        """Say of the lessons whose state the store has left behind what taking them back would undo."""
        differing = [
            line.lesson
            for line in lines.lessons
            if line.lesson.id in self._stored and line.lesson != self._stored[line.lesson.id]
        ]
        curator = Curator(store.repository)
        found = {lesson.id: undone(lesson, await curator.history(lesson.id)) for lesson in differing}
        return {lesson_id: what for lesson_id, what in found.items() if what}

    def _import(self, order: Importing, report: ImportReport) -> int:
        """Make an import, and return how many newcomers were merged into lessons that are there."""
        change = Change("import", f"from {order.source.name}", order.by)

        async def imported(store: VectorLessonStore) -> int:
            merged = 0
            with self._screen.busy():
                for number, line in enumerate(report.changes):
                    self._screen.waiting_for(f"imported {number} of {len(report.changes)}")
                    async with store_errors("import a lesson"):
                        if line.forgotten:
                            # First: what is forgotten and there is taken away by the next who changes it.
                            await remember(store.repository, line.lesson.id)
                        if (found := self._held.get(line.lesson.id)) is None:
                            merged += await _take(store, line, self._stored, change, order)
                        else:
                            cleaned = await gate.clean(line.lesson, line.tasks)
                            await store.quarantine.hold(cleaned, found)
            return merged

        if order.create:
            return within(lambda: open_for_run(self._place, self._namespace, order.embedder), imported)
        return self._change(imported, order.embedder)


async def _take(
    store: VectorLessonStore, line: Line, stored: Mapping[str, Lesson], change: Change, order: Importing
) -> bool:
    """Store one line; whether it was merged into a lesson that is there."""
    lesson = line.lesson
    if lesson.id in stored:
        # What somebody changed since it was shown is left as it is.
        before = stored[lesson.id]
        await store.repository.change(
            lesson.id, lambda now: lesson if now == before else None, change, tasks=line.tasks
        )
    elif order.restore or lesson.state == "retired":
        # A backup comes back lesson by lesson, and what is retired is to lie there under its own id.
        await store.repository.put(await gate.clean(lesson, line.tasks), change)
    else:
        stored_as = await store.admit(lesson, line.tasks, change)
        return stored_as.id != lesson.id
    return False


def _read(order: Importing) -> Lines:
    if not order.source.is_dir():
        return import_file(order.source, skip_bad=order.skip_bad)
    found = lesson_changes(order.source, ())
    if found.malformed and not order.skip_bad:
        shown = "; ".join(map(_malformed, found.malformed[:5]))
        raise ConfigurationError(
            f"{counted(len(found.malformed), 'file')} of {order.source} can't be read, and nothing was imported"
            f" (--skip-bad passes over such): {shown}"
        )
    lines = [
        Line(number, each, found.tasks[each.id] or (each.task_excerpt,))
        for number, each in enumerate(found.added, 1)
    ]
    bad = [BadLine(number, _malformed(each)) for number, each in enumerate(found.malformed, 1)]
    return Lines(tuple(lines), tuple(bad))


def _malformed(bad: Malformed) -> str:
    return f"{bad.path.name}: {bad.problem}"


def _prepared(lines: Lines, order: Importing) -> Lines:
    """Return lines as they may be stored: clean, without secrets, and new ones in the state that they are to have."""
    return Lines(tuple(_clean(line, order) for line in lines.lessons), lines.bad)


def _clean(line: Line, order: Importing) -> Line:
    lesson = clean(line.lesson)
    if not order.restore and lesson.state != "retired":
        state: LessonState = "active" if order.approve else "proposed"
        if state != lesson.state:
            lesson = replace(lesson, state=state, state_reason=f"from {order.source.name}")
    return replace(line, lesson=lesson, tasks=tuple(map(clean_prompt, line.tasks)))


async def _with_tasks(store: VectorLessonStore) -> list[tuple[Lesson, tuple[str, ...]]]:
    """Return every lesson with the texts of its tasks, oldest first."""
    async with store_errors("list lessons"):
        lessons = [lesson async for lesson in store.repository.each()]
        tasks = await store.repository.tasks_of([lesson.id for lesson in lessons])
    # One that is found by its own text keeps no more of its task than the beginning.
    return [(lesson, tasks.get(lesson.id) or (lesson.task_excerpt,)) for lesson in lessons]


def _check_target(path: Path | None, form: Format, *, overwrite: bool) -> None:
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


def _is_stdout(target: str) -> bool:
    """Whether a name, such as /dev/stdout, is where results are printed anyway."""
    try:
        return os.path.samestat(Path(target).stat(), os.fstat(1))
    except OSError:
        return False


def _takes_writing(path: Path) -> bool:
    """Whether a file is a pipe or a character device: it is written to, for there is nothing in it to replace."""
    return path.exists() and (stat.S_ISFIFO(mode := path.stat().st_mode) or stat.S_ISCHR(mode))


def _write_to(path: Path, lessons: Sequence[tuple[Lesson, Sequence[str]]]) -> None:
    # Not in a thread: a pipe that nobody reads is waited for, and Ctrl-C ends that.
    try:
        with path.open("w", encoding="ascii") as file:
            file.writelines(f"{to_line(lesson, tasks)}\n" for lesson, tasks in lessons)
    except OSError as error:
        raise LessonStoreError(f"{path} can't be written: {error}") from error


def _is_there(place: str) -> bool:
    return origin_of(place) is not None


def _line_row(what: str, line: Line, known: Lesson | None) -> dict[str, str]:
    lesson = line.lesson
    changed = what == "changed"
    return {
        "id": short(lesson.id),
        "what": "forgotten" if line.forgotten else what,
        "state": "-" if line.reason else lesson.state,
        "why": line.reason or (f"undoes {line.undoes}" if line.undoes else "-"),
        "was": known.text if changed and known is not None else "-",
        "task": task_excerpt(lesson),
        "lesson": lesson.text,
    }


def _answer(report: ImportReport) -> dict[str, JSON]:
    ids: Callable[[Sequence[Line]], JSON] = lambda lines: [line.lesson.id for line in lines]  # noqa: E731
    return {
        "added": ids(report.added),
        "changed": ids(report.changed),
        "same": ids(report.same),
        "refused": [{"id": line.lesson.id, "reason": line.reason} for line in report.refused],
        "undoes": {line.lesson.id: line.undoes for line in report.changes if line.undoes},
        "bad": [str(bad) for bad in report.bad],
    }
