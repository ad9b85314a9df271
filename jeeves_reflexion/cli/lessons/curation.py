"""``jeeves-reflexion lessons``: the commands that change lessons. Each change goes into the lesson's history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.lessons.library import Found, Library, brief, change_of, over_lessons, row, short
from jeeves_reflexion.cli.lessons.look import lesson_id, lesson_ids
from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons.curation import Decision
from jeeves_reflexion.lessons.gate import clean_words
from jeeves_reflexion.summary import counted

_DONE: Final = {"approve": "approved", "reject": "rejected", "retire": "retired", "restore": "restored"}
_MAY_BE: Final = {
    "approve": ("proposed", "active", "quarantine"),
    "reject": ("proposed", "quarantine"),
    "retire": ("active", "proposed"),
    "restore": ("retired",),
}
_waiting = (
    click.argument("lesson_ids", metavar="[ID...]", nargs=-1),
    click.option(
        "--all", "everything", is_flag=True, help="All proposed lessons; texts in quarantine are left out."
    ),
)


@click.command(short_help="Show what waits for a decision.")
@over_lessons()
async def review(library: Library) -> None:
    """Show proposed lessons and texts in quarantine, which wait for "approve" or "reject"."""
    async with library.open() as store:
        waiting = await library.curator(store).waiting()
    rows = [
        row(each, state=each.state, trust=each.trust, why=each.state_reason or "-")
        for each in waiting.proposed
    ]
    rows += [
        row(each.lesson, state="quarantine", trust=each.lesson.trust, why=f"{each.kind}: {each.why}")
        for each in waiting.held
    ]
    proposed, texts = counted(len(waiting.proposed), "proposed lesson"), counted(len(waiting.held), "text")
    note = f"{proposed}, {texts} in quarantine; approve or reject takes their ids"
    library.give(
        {"proposed": waiting.proposed, "quarantine": waiting.held},
        rows=rows,
        note=note if rows else f"nothing waits for review {library.where}",
    )


def _decision(
    decision: Decision, short_help: str, text: str, *arguments: Callable[[Any], Any]
) -> click.Command:
    """Return a command that makes one decision on several lessons: on all of them, or on none."""
    done = _DONE[decision]
    # A text approved from quarantine has no vector yet.
    embedding = [options.embedder] if decision == "approve" else []

    @click.command(decision, short_help=short_help, help=text)
    @options.options_of(
        *arguments, over_lessons(*embedding, options.by, options.reason, options.yes, options.dry_run)
    )
    async def command(library: Library, lesson_ids: Sequence[str], *, everything: bool = False) -> None:
        if everything == bool(lesson_ids):
            raise click.UsageError(f"name the lessons to {decision}, or add --all")
        if decision == "retire" and not library.reason:
            raise click.UsageError("retire needs a reason: add --reason")
        async with library.open() as store:
            if everything:
                found = [Found(lesson) for lesson in (await library.curator(store).waiting()).proposed]
            else:
                found = await library.find(store, lesson_ids)
        for each in found:
            if each.state not in _MAY_BE[decision]:
                wanted = " or ".join(_MAY_BE[decision])
                raise LessonStoreError(
                    f"lesson {each.lesson.id} is {each.state}; to {decision} one, it must be {wanted}"
                )
        held = [each.lesson.id for each in found if each.held is not None]
        lost = decision == "reject" and held
        number, end = counted(len(found), "lesson"), ", texts in quarantine for good" if lost else ""
        answer = {done: [each.lesson.id for each in found]}
        rows = [brief(each.lesson, state=each.state) for each in found]
        sure = not found or (len(found) == 1 and not lost)
        if not library.agreed(f"{decision.capitalize()} {number}{end}?", answer, rows, sure=sure):
            return

        if found:
            async with library.open() as store:
                curator = library.curator(store)
                lessons = [each.lesson.id for each in found if each.held is None]
                await curator.decide(decision, lessons, reason=library.reason)
                one = curator.approve if decision == "approve" else curator.reject
                for lesson_id in held:
                    await one(lesson_id, reason=library.reason)
        library.give(answer, f"{done} {number}")

    return command


approve = _decision(
    "approve",
    "Approve proposed lessons.",
    "Make proposed lessons active, and turn texts in quarantine into active lessons.",
    *_waiting,
)
reject = _decision(
    "reject",
    "Reject proposed lessons.",
    "Retire proposed lessons, and delete texts in quarantine.\n\nA rejected lesson stays in the store as retired, so"
    " that it is not learned again.",
    *_waiting,
)
retire = _decision(
    "retire",
    "Stop recalling lessons.",
    "Keep lessons but stop recalling them; --reason is required.",
    lesson_ids,
)


restore = _decision(
    "restore",
    "Make retired lessons active again.",
    "Make retired lessons active again, including those that were already retired when they were imported.",
    lesson_ids,
)


@click.command(short_help="Reword a lesson.")
@lesson_id
@click.argument("text")
@over_lessons(options.embedder, options.by, options.reason)
async def edit(library: Library, lesson_id: str, text: str) -> None:
    """Replace the words of a lesson by TEXT, which is checked as every lesson is."""
    async with library.open() as store:
        before = await library.one(store, lesson_id)
        after = await library.curator(store).edit(before.id, text, reason=library.reason)
    change = change_of(before, after) or "unchanged"
    library.give({"lesson": after}, rows=[{"id": short(after.id), "change": change}])


@click.command(short_help="Merge lessons into one.")
@click.argument("into", metavar="INTO")
@click.argument("others", metavar="OTHER...", nargs=-1, required=True)
@click.option("--text", metavar="TEXT", help="New words for the lesson that stays.")
@over_lessons(options.embedder, options.by, options.reason, options.yes, options.dry_run)
async def merge(library: Library, into: str, others: Sequence[str], text: str | None) -> None:
    """Merge the OTHER lessons into the lesson INTO: they are retired, and their support is added to it."""
    async with library.open() as store:
        named = {(one := await library.one(store, each)).id: one for each in (into, *others)}
        kept, *found = named.values()
        ids = [each.id for each in found]
        if not ids:
            raise click.UsageError("a merge needs at least one other lesson")
        if text is not None:
            await clean_words(kept.id, text)
        await library.curator(store).check_merge(kept.id, ids)

    rows = [{**brief(kept, what="stays"), "lesson": text or kept.text}]
    rows += [brief(each, what="retired") for each in found]
    question = f"Merge {counted(len(ids), 'lesson')} into {short(kept.id)}?"
    if not library.agreed(question, {"into": kept.id, "merged": ids}, rows):
        return
    async with library.open() as store:
        merged = await library.curator(store).merge(kept.id, ids, text=text, reason=library.reason)
    said = f"merged {counted(len(ids), 'lesson')} into {short(kept.id)}, learned {merged.support} times now"
    library.give({"lesson": merged, "merged": ids}, said)


@click.command(short_help="Undo changes of a lesson.")
@lesson_id
@click.option(
    "--to",
    metavar="N",
    type=click.IntRange(min=1),
    help='The number of the change to return to, as "show" prints it.  [default: the last but one]',
)
@over_lessons(options.embedder, options.by, options.reason, options.dry_run)
async def rollback(library: Library, lesson_id: str, to: int | None) -> None:
    """Return a lesson to its state after an earlier change; the history records this as a change too.

    Lessons that were merged into it since then come back. Support that it gained since then stays.
    """
    async with library.open() as store:
        curator = library.curator(store)
        before = await library.one(store, lesson_id)
        if to is None:
            history = await curator.history(before.id)
            if len(history) < 2:
                raise LessonStoreError(
                    f"lesson {before.id} was never changed: there is nothing to go back to"
                )
            to = history[-2].number
        undo = await curator.preview(before.id, to=to)
        after = undo.lesson
        if not library.dry_run:
            after = await curator.rollback(before.id, to=to, reason=library.reason)

    change = change_of(before, after) or "unchanged"
    library.give(
        {"lesson": after, "dry_run": library.dry_run, "back": undo.back},
        rows=[{"id": short(before.id), "change": change}],
        note="nothing was changed: a dry run" if library.dry_run else "",
    )
    if undo.back:
        library.screen.note(f"not merged into it any more: {', '.join(map(short, undo.back))}")


@click.command(short_help="Score a run afterwards.")
@click.argument("run")
@click.argument("score", type=options.Number(0, 1))
@click.option(
    "--attempt",
    metavar="N",
    type=click.IntRange(min=0),
    help="The number of the attempt.  [default: the last]",
)
@click.option("--task", metavar="ID", help="The task, if the run had several.")
@over_lessons(options.by, options.reason)
async def outcome(library: Library, run: str, score: float, attempt: int | None, task: str | None) -> None:
    """Score an attempt of RUN afterwards: SCORE, from 0 to 1, replaces the score that was noted before."""
    about = {"by": library.by, "reason": library.reason}
    async with library.open() as store:
        noted = await store.feedback(run, score, **about, attempt=attempt, task_id=task)
    was = "none counted until now" if noted.before is None else f"{noted.before:.2f} counted until now"
    said = f"noted {score:.2f} for attempt {noted.attempt} of run {run}; {was}"
    library.give({"run_id": run, "feedback": noted}, said)
