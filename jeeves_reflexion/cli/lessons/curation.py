"""``jeeves-reflexion lessons``: what people do to lessons. Each change goes into the lesson's history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import click

from jeeves_reflexion.cli.lessons.library import Found, Library, brief, change_of, over_lessons, row, short
from jeeves_reflexion.cli.lessons.look import lesson_id, lesson_ids
from jeeves_reflexion.cli.options import Asking, Number, Why, asking_options, options_of, why_options
from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons import Curator, VectorLessonStore
from jeeves_reflexion.lessons.curation import Decision
from jeeves_reflexion.lessons.gate import clean_words
from jeeves_reflexion.lessons.history import has_before
from jeeves_reflexion.lessons.records import MERGED_INTO
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import Lesson


class _Rule(NamedTuple):
    """What a decision is called when it is done, and what it may be about; ``held``: texts in quarantine, too."""

    done: str
    states: tuple[str, ...]
    held: bool = False


_RULES: Final = {
    "approve": _Rule("approved", ("proposed", "active"), held=True),
    "reject": _Rule("rejected", ("proposed",), held=True),
    "retire": _Rule("retired", ("active", "proposed")),
    "restore": _Rule("restored", ("retired",)),
    # Some may have been merged into it before.
    "merge": _Rule("merged", ("active", "proposed", "retired")),
}
_waiting = (
    click.argument("lesson_ids", metavar="[ID...]", nargs=-1),
    click.option(
        "--all", "everything", is_flag=True, help="All proposed lessons, and no text in quarantine."
    ),
)


@click.command(short_help="What waits for a decision.")
@over_lessons
def review(library: Library) -> None:
    """Show what waits for approve or reject: proposed lessons, and texts in quarantine."""
    waiting = library.within(lambda store: library.curator(store).waiting())
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
    """Return the command that decides on each of several lessons; on none of them unless it can be done to all."""
    rule = _RULES[decision]

    @click.command(decision, short_help=short_help, help=text)
    @options_of(*arguments, why_options, asking_options, over_lessons)
    def command(
        library: Library, lesson_ids: Sequence[str], why: Why, asking: Asking, *, everything: bool = False
    ) -> None:
        if everything == bool(lesson_ids):
            raise click.UsageError(f"name the lessons to {decision}, or say --all")
        if decision == "retire" and not why.reason:
            raise click.UsageError("a lesson is retired for a reason: say it with --reason")

        async def decidable(store: VectorLessonStore) -> list[Found]:
            if everything:
                return [Found(lesson) for lesson in (await library.curator(store).waiting()).proposed]
            return await _fit(library, store, lesson_ids, decision)

        found = library.within(decidable)
        lost = decision == "reject" and any(each.held for each in found)
        number, end = counted(len(found), "lesson"), ", texts in quarantine for good" if lost else ""
        answer = {rule.done: [each.lesson.id for each in found]}
        rows = [brief(each.lesson, state=each.state) for each in found]
        sure = not found or (len(found) == 1 and not lost)
        if library.agreed(asking, f"{decision.capitalize()} {number}{end}?", answer, rows, sure=sure):
            if found:
                library.within(lambda store: _decide(library.curator(store, why.by), decision, found, why))
            library.give(answer, f"{rule.done} {number}")

    return command


async def _decide(curator: Curator, decision: Decision, found: Sequence[Found], why: Why) -> None:
    lessons = [each.lesson.id for each in found if each.held is None]
    await curator.decide(decision, lessons, reason=why.reason)
    for each in found:
        if each.held is not None:
            one = curator.approve if decision == "approve" else curator.reject
            await one(each.lesson.id, reason=why.reason)


approve = _decision(
    "approve",
    "Let what waits in.",
    "Let proposed lessons be recalled, and texts in quarantine become lessons that are.",
    *_waiting,
)
reject = _decision(
    "reject",
    "Keep what waits out.",
    "Retire proposed lessons, and throw texts in quarantine away.\n\nA rejected lesson stays, so that it is not learned"
    " again.",
    *_waiting,
)
retire = _decision(
    "retire",
    "Recall lessons no more, for a reason.",
    "Keep lessons, and recall them no more; --reason is required.",
    lesson_ids,
)
restore = _decision("restore", "Recall retired lessons again.", "Recall retired lessons again.", lesson_ids)


async def _fit(
    library: Library, store: VectorLessonStore, lesson_ids: Sequence[str], verb: str
) -> list[Found]:
    """Return what ids stand for; raises if something can't be done to one of them."""
    found, rule = await library.find(store, lesson_ids), _RULES[verb]
    for each in found:
        if each.held is not None and not rule.held:
            raise LessonStoreError(f"{each.lesson.id} is in quarantine: approve or reject it")
        if each.held is None and each.lesson.state not in rule.states:
            wanted = " or ".join(rule.states)
            raise LessonStoreError(
                f"lesson {each.lesson.id} is {each.lesson.state}; to {verb} one, it must be {wanted}"
            )
    return found


@click.command(short_help="Say a lesson in other words.")
@lesson_id
@click.argument("text")
@why_options
@over_lessons
def edit(library: Library, lesson_id: str, text: str, why: Why) -> None:
    """Say a lesson in other words; TEXT is checked as any lesson is."""

    async def edited(store: VectorLessonStore) -> tuple[Lesson, Lesson]:
        before = await library.one(store, lesson_id)
        return before, await library.curator(store, why.by).edit(before.id, text, reason=why.reason)

    before, after = library.within(edited)
    library.give({"lesson": after}, _told(before, after, "changed"))


@click.command(short_help="Let one lesson speak for others.")
@click.argument("into", metavar="INTO")
@click.argument("others", metavar="OTHER...", nargs=-1, required=True)
@click.option("--text", metavar="TEXT", help="New words for the one that stays.")
@why_options
@asking_options
@over_lessons
def merge(
    library: Library, into: str, others: Sequence[str], text: str | None, why: Why, asking: Asking
) -> None:
    """Let the lesson INTO speak for others, which are retired; it takes over how often they were learned."""

    async def checked(store: VectorLessonStore) -> list[Lesson]:
        found = [each.lesson for each in await _fit(library, store, (into, *others), "merge")]
        if len(found) == 1:
            raise click.UsageError("a merge takes at least one other lesson, and none into itself")
        if text is not None:
            await clean_words(found[0].id, text)
        await library.curator(store).check_merge(found[0].id, [each.id for each in found[1:]])
        return found

    kept, *found = library.within(checked)
    ids = [each.id for each in found]
    before = [each.id for each in found if each.metadata.get(MERGED_INTO) == kept.id]
    rows = [{**brief(kept, what="stays"), "lesson": text or kept.text}]
    rows += [brief(each, what="retired") for each in found]
    answer = {"merged": [each for each in ids if each not in before], "merged_before": before}
    question = f"Merge {counted(len(ids), 'lesson')} into {short(kept.id)}?"
    if not library.agreed(asking, question, {"into": kept.id, **answer}, rows):
        return

    async def made(store: VectorLessonStore) -> Lesson:
        curator = library.curator(store, why.by)
        return await curator.merge(kept.id, ids, text=text, reason=why.reason)

    merged = library.within(made)
    done = f"merged {counted(len(ids) - len(before), 'lesson')} into {short(kept.id)}"
    known = f"; {counted(len(before), 'lesson')} merged into it before" if before else ""
    library.give({"lesson": merged, **answer}, f"{done}, learned {merged.support} times now{known}")


@click.command(short_help="Take changes of a lesson back.")
@lesson_id
@click.option(
    "--to",
    metavar="N",
    type=click.IntRange(min=0),
    help='The change to go back to, as "history" numbers them; 0 is what was before the first.'
    "  [default: the last but one]",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@why_options
@over_lessons
def rollback(library: Library, lesson_id: str, to: int | None, why: Why, *, dry_run: bool) -> None:
    """Make a lesson again what it was after an earlier change; that is a change as well.

    Lessons that were merged into it since come back. How often it was learned since still counts. A text that was let
    in from quarantine is retired before its first change.
    """

    async def rolled_back(store: VectorLessonStore) -> tuple[Lesson, Lesson, list[str]]:
        curator = library.curator(store, why.by)
        before = await library.one(store, lesson_id)
        number = await _last_but_one(curator, before.id) if to is None else to
        undo = await curator.preview(before.id, to=number)
        others = [each for each in undo.back if await store.get(each) is not None]
        after = undo.lesson
        if not dry_run:
            after = await curator.rollback(before.id, to=number, reason=why.reason)
        return before, after, others

    before, after, others = library.within(rolled_back)
    rows, said = [], _told(before, after, "rolled back")
    if dry_run:
        rows, said = [{"id": short(after.id), "change": change_of(before, after) or "is so already"}], ""
    about = {"dry_run": True} if dry_run else {}
    library.give({**about, "lesson": after, "back": others}, said, rows=rows)
    if others:
        library.screen.note(f"not merged into it any more: {', '.join(map(short, others))}")
    if dry_run:
        library.screen.note("nothing was changed: a dry run", "dim")


async def _last_but_one(curator: Curator, lesson_id: str) -> int:
    """Return the number of the change that a lesson goes back to where none is named."""
    history = await curator.history(lesson_id)
    if len(history) > 1:
        return history[-2].number
    if history and has_before(history[0]):
        return 0
    raise LessonStoreError(f"lesson {lesson_id} was never changed: there is nothing to go back to")


def _told(before: Lesson, after: Lesson, done: str) -> str:
    what = change_of(before, after)
    return f"{done} {short(after.id)}: {what}" if what else f"{short(after.id)} is so already"


@click.command(short_help="Say afterwards how a run went.")
@click.argument("run")
@click.argument("score", type=Number(0, 1))
@click.option(
    "--attempt", metavar="N", type=click.IntRange(min=0), help="Which attempt.  [default: the last]"
)
@click.option("--task", metavar="ID", help="Which task, of a run that did several.")
@why_options
@over_lessons
def outcome(
    library: Library, run: str, score: float, attempt: int | None, task: str | None, why: Why
) -> None:
    """Say afterwards how an attempt of RUN went: SCORE from 0 to 1 counts instead of what was noted before."""
    noted = library.within(
        lambda store: store.feedback(run, score, by=why.by, reason=why.reason, attempt=attempt, task_id=task)
    )
    was = "none counted until now" if noted.before is None else f"{noted.before:.2f} counted until now"
    said = f"noted {score:.2f} for attempt {noted.attempt} of run {run}; {was}"
    library.give({"run_id": run, "feedback": noted}, said)
