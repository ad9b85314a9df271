"""``jeeves-reflexion lessons``: the commands that list, search, show, add, forget and re-embed lessons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.lessons.library import (
    Library,
    all_lessons,
    brief,
    change_of,
    over_lessons,
    row,
    short,
)
from jeeves_reflexion.cli.stores import embedder_for, existing
from jeeves_reflexion.errors import LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.summary import counted, when
from jeeves_reflexion.types import LessonState
from vectorstores import Reembedding
from vectorstores import reembed as move

_WHOLE_ID: Final = 32

lesson_id = click.argument("lesson_id", metavar="ID")
lesson_ids = click.argument("lesson_ids", metavar="ID...", nargs=-1, required=True)


@click.command("list", short_help="List the newest lessons.")
@click.option("--limit", metavar="N", type=options.COUNT, default=20, help="The most lessons to list.")
@click.option("--all", "everything", is_flag=True, help="List all lessons.")
@click.option("--state", type=click.Choice(get_args(LessonState)), help="List only lessons of this state.")
@over_lessons()
async def list_(library: Library, limit: int, state: LessonState | None, *, everything: bool) -> None:
    """List lessons, newest first: id, date, score, state, task and text."""
    async with library.open() as store:
        found = [each for each in await all_lessons(store) if state in (None, each.state)][::-1]
    shown = found if everything else found[:limit]
    note = "" if len(shown) == len(found) else f"{len(shown)} of {len(found)} lessons; --all shows the rest"
    library.give(
        {"count": len(found), "lessons": shown},
        rows=(row(each, state=each.state) for each in shown),
        note=note if found else f"there are no {f'{state} ' if state else ''}lessons {library.where}",
    )


@click.command(short_help="Find the active lessons nearest to a text.")
@click.argument("text")
@options.top_k(default=5, help="The most lessons to find.")
@over_lessons(options.embedder)
async def search(library: Library, text: str, k: int) -> None:
    """Find the active lessons nearest to TEXT, nearest first."""
    async with library.open() as store:
        found = await store.search(text, k=k)
    library.give(
        {"lessons": [{"similarity": each.similarity, "lesson": each.lesson} for each in found]},
        rows=(row(each.lesson, similarity=f"{each.similarity:.2f}") for each in found),
        note="" if found else f"there are no lessons {library.where}",
    )


@click.command(short_help="Show a lesson with its lift and every change.")
@lesson_id
@over_lessons()
async def show(library: Library, lesson_id: str) -> None:
    """Show a lesson: its state, its provenance, its effect on scores, and its numbered changes."""
    async with library.open() as store:
        (found,) = await library.find(store, (lesson_id,))
        id, held = found.lesson.id, found.held
        lift = (await store.ledger.credits(max_age=0.0)).lift(id)
        stored = await store.repository.read(id)
        tasks = stored.tasks if stored else ()
        entries = await library.curator(store).history(id)

    rows = []
    for entry in entries:
        text = change_of(entry.before, entry.after, told=entry.reason)
        if entry.operation == "merge" and any(each not in entry.reason for each in entry.others):
            text += f"; takes in {', '.join(map(short, entry.others))}"
        about = {"number": str(entry.number), "date": when(entry.at, "%Y-%m-%d %H:%M") or "-"}
        about |= {"operation": entry.operation, "by": f"by {entry.by}" if entry.by else "-"}
        rows.append({**about, "reason": entry.reason or "-", "text": text})
    more: dict[str, object] = {"tasks": tasks, "lift": lift}
    if held is not None:
        more = {"state": "in quarantine", "kind of order": held.kind, "why": held.why}
    answer = {"lesson": found.lesson, **more} if held is None else {"held": held}
    library.give({**answer, "history": entries}, details=(found.lesson, more), rows=rows)


@click.command(short_help="Add a lesson of your own.")
@click.argument("text")
@click.option("--task", metavar="TEXT", required=True, help="The task for which the lesson is recalled.")
@options.kind
@options.create
@over_lessons(options.embedder, options.by)
async def add(library: Library, text: str, task: str, kind: str | None) -> None:
    """Store TEXT, one sentence of advice, as a lesson for tasks like --task.

    It is checked and redacted as every lesson is. A text that gives orders waits in quarantine for approve or reject.
    """
    if not task.strip():
        raise click.UsageError("the task is empty: name the task for which the lesson is recalled")
    async with library.open(create=library.create) as store:
        written = await store.add(text, task, kind=kind, by=library.by)
    library.give({"lesson": written}, rows=[row(written, state=written.state)])


@click.command(short_help="Remove lessons for good.")
@lesson_ids
@over_lessons(options.yes, options.dry_run)
async def forget(library: Library, lesson_ids: Sequence[str]) -> None:
    """Remove lessons for good: their text, vectors, history, records, and their traces in lessons they merged into.

    Lessons that were merged into a removed lesson stay.
    """
    rows: dict[str, dict[str, str]] = {}
    async with library.open() as store:
        for given in map(str.strip, lesson_ids):
            try:
                (found,) = await library.find(store, (given,))
                rows[found.lesson.id] = brief(found.lesson, state=found.state)
            except LessonStoreError as error:
                # A damaged lesson is found only by its whole id.
                if len(given) != _WHOLE_ID or isinstance(error, UnknownLessonError):
                    raise
                rows[given] = {"id": short(given), "state": "unreadable", "lesson": str(error)}
    question = f"Forget {counted(len(rows), 'lesson')} for good?"
    if library.agreed(question, {"forgotten": list(rows)}, rows.values()):
        async with library.open() as store:
            gone = [id for id in rows if await store.forget(id)]
        library.give({"forgotten": gone}, f"forgot {counted(len(gone), 'lesson')}")


@click.command(short_help="Move lessons to another embedder.")
@click.option(
    "--embedder",
    type=options.EmbedderName(["minilm", "hashing"]),
    required=True,
    help="The new embedder.",
)
@options.gathered("library", Library, options.lessons, options.json, options.debug)
async def reembed(library: Library) -> None:
    """Move all namespaces of an address to another embedder.

    Searches use the old embedder until the move ends. In PostgreSQL writes continue too, and a move that was stopped
    can be resumed; in a folder writers wait, and a move that was stopped starts again. Programs must reopen the store
    afterwards.
    """
    existing(library.store_address)
    new, tenths = embedder_for(library.embedder, None, library.store_address), set[int]()

    def tell(step: Reembedding) -> None:
        tenth = 10 * step.done // max(step.total, 1)
        if tenth not in tenths:
            tenths.add(tenth)
            library.screen.note(f"embedded {step.done} of {step.total}")

    async with store_errors("move the lessons"):
        done = await move(library.store_address, embedder=new, on_progress=tell)
    said = f"all {done.total} entries of {library.shown} now use the embedder {library.embedder}"
    library.give({"embedder": library.embedder, "embedded": done.total}, said)
