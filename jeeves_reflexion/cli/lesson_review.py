"""``jeeves-reflexion lessons``: what people do to lessons: let them in, retire, reword, merge, take back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import anyio
import click

from jeeves_reflexion.cli.desk import counted
from jeeves_reflexion.cli.lesson_desk import Found, LessonDesk, naming
from jeeves_reflexion.cli.lesson_options import Asking, Why
from jeeves_reflexion.cli.lesson_rows import BELOW, change_of, held_as_json, held_row, row, short
from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.credit.ledger import RUNS, Feedback
from jeeves_reflexion.lessons.curation import Curator, Decision, Waiting
from jeeves_reflexion.lessons.gate import clean_words
from jeeves_reflexion.lessons.history import has_before
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.lessons.schema import MERGED_INTO
from jeeves_reflexion.types import JSON, Lesson, LessonState
from vectorstores.base import RecordStore

_PAGE = 500
_SHORTEST_RUN = 4


@dataclass(frozen=True, slots=True)
class Kind:
    """Which lessons something may be done to: those of certain states, and whether to texts in quarantine."""

    verb: str
    states: tuple[LessonState, ...]
    held: bool = False


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that is done to lessons: to all of them in one write."""

    of: Kind
    done: str
    name: Decision


APPROVE: Final = Deed(Kind("approve", ("proposed", "active"), held=True), "approved", "approve")
REJECT: Final = Deed(Kind("reject", ("proposed",), held=True), "rejected", "reject")
RETIRE: Final = Deed(Kind("retire", ("active", "proposed")), "retired", "retire")
RESTORE: Final = Deed(Kind("restore", ("retired",)), "restored", "restore")
# Some may have been merged into it before.
_MERGE: Final = Kind("merge", ("active", "proposed", "retired"))


@dataclass(frozen=True, slots=True)
class Undone:
    """A lesson before and after a rollback to change ``to``, and those that come out of it and go into it again.

    With ``held`` it goes back into quarantine.
    """

    before: Lesson
    after: Lesson
    to: int
    back: tuple[str, ...]
    again: tuple[str, ...]
    held: bool


class ReviewDesk(LessonDesk):
    """Shows what waits for a decision, and carries decisions out. Each goes into the lesson's history."""

    def review(self) -> None:
        """Print what waits: proposed lessons, and texts in quarantine with the reason."""
        waiting = anyio.run(self._waiting)
        if self._as_json:
            held = [held_as_json(each) for each in waiting.held]
            self._document({"proposed": [plain(each) for each in waiting.proposed], "quarantine": held})
            return
        for lesson in waiting.proposed:
            about = (("state", lesson.state), ("trust", lesson.trust), ("why", lesson.state_reason or "-"))
            fields = row(lesson, *about)
            del fields["score"]
            self._screen.entry(fields, BELOW)
        for each in waiting.held:
            self._screen.entry(held_row(each), BELOW)
        if not waiting.proposed and not waiting.held:
            self._screen.note(f"nothing waits for review {self._where}")
        else:
            proposed = counted(len(waiting.proposed), "proposed lesson")
            texts = counted(len(waiting.held), "text")
            self._screen.note(f"{proposed}, {texts} in quarantine; approve or reject takes their ids", "dim")

    def decide(
        self, deed: Deed, lesson_ids: Sequence[str], why: Why, asking: Asking, *, everything: bool = False
    ) -> None:
        """Do something to each of several lessons; to none of them unless it can be done to all."""
        if everything == bool(lesson_ids):
            raise click.UsageError(f"name the lessons to {deed.of.verb}, or say --all")
        found = anyio.run(self._decidable, deed.of, lesson_ids)
        if everything and not found:
            self._say([], deed)
            return
        rows = [naming(each) for each in found]
        lost = deed is REJECT and any(each.held for each in found)
        end = ", texts in quarantine for good" if lost else ""
        question = f"{deed.of.verb.capitalize()} {counted(len(found), 'lesson')}{end}?"
        if self._go(asking, question, rows, sure=len(found) == 1 and not lost):
            self._say(anyio.run(self._decide, deed, found, why), deed)
        else:
            self._answer_dry({deed.done: [each.lesson.id for each in found]})

    def edit(self, lesson_id: str, text: str, why: Why, embedder: EmbedderChoice) -> None:
        """Say a lesson in other words."""
        before, after = anyio.run(self._edit, lesson_id, text, why, embedder)
        self._tell(before, after, "changed")

    def merge(
        self,
        lesson_ids: Sequence[str],
        text: str | None,
        why: Why,
        asking: Asking,
        embedder: EmbedderChoice,
    ) -> None:
        """Let the first lesson speak for the others."""
        into, *others = [each.lesson for each in anyio.run(self._decidable, _MERGE, lesson_ids)]
        if not others:
            raise click.UsageError("a merge takes at least one other lesson, and none into itself")
        if text is not None:
            anyio.run(clean_words, into.id, text)
        anyio.run(self._check_merge, into.id, [each.id for each in others])
        before = [each.id for each in others if each.metadata.get(MERGED_INTO) == into.id]
        rows = [{"id": short(into.id), "what": "stays", "lesson": text or into.text}]
        rows += [{"id": short(each.id), "what": "retired", "lesson": each.text} for each in others]
        question = f"Merge {counted(len(others), 'lesson')} into {short(into.id)}?"
        ids = [each.id for each in others]
        answer: dict[str, JSON] = {
            "merged": [each for each in ids if each not in before],
            "merged_before": list(before),
        }
        if not self._go(asking, question, rows):
            self._answer_dry({"into": into.id, **answer})
            return
        merged = anyio.run(self._merge, into.id, ids, text, why, embedder)
        if self._as_json:
            self._document({"lesson": plain(merged), **answer})
            return
        done = f"merged {counted(len(ids) - len(before), 'lesson')} into {short(into.id)}"
        were = "was" if len(before) == 1 else "were"
        known = f"; {counted(len(before), 'lesson')} {were} merged into it before" if before else ""
        self._screen.result(f"{done}, learned {merged.support} times now{known}")

    def rollback(
        self, lesson_id: str, to: int | None, why: Why, embedder: EmbedderChoice, *, dry_run: bool = False
    ) -> None:
        """Make a lesson again what it was after an earlier change; the one before the last unless named."""
        if dry_run:
            undone = anyio.run(self._undone, lesson_id, to)
        else:
            undone = anyio.run(self._rollback, lesson_id, to, why, embedder)
        answer: dict[str, JSON] = {
            "quarantine": undone.held,
            "back": list(undone.back),
            "again": list(undone.again),
        }
        if self._as_json:
            about = {"dry_run": True} if dry_run else {}
            self._document({**about, "lesson": plain(undone.after), **answer})
            return
        if dry_run:
            what = change_of(undone.before, undone.after)
            if undone.held:
                what = f"goes back into quarantine{f', with {what}' if what else ''}"
            self._screen.entry({"id": short(undone.after.id), "change": what or "is so already"})
        elif undone.held:
            self._screen.result(f"put {short(undone.after.id)} back into quarantine")
        else:
            self._tell(undone.before, undone.after, "rolled back")
        for said, others in (
            ("not merged into it any more", undone.back),
            ("merged into it again", undone.again),
        ):
            if others:
                self._screen.note(f"{said}: {', '.join(map(short, others))}")
        if dry_run:
            self._answer_dry({})

    def outcome(self, run: str, score: float, attempt: int | None, task: str | None, why: Why) -> None:
        """Note what someone says later of an attempt."""
        run_id, noted = anyio.run(self._outcome, run, score, attempt, task, why)
        if self._as_json:
            self._document({"run_id": run_id, "feedback": plain(noted)})
            return
        was = "none counted until now" if noted.before is None else f"{noted.before:.2f} counted until now"
        self._screen.result(f"noted {score:.2f} for attempt {noted.attempt} of run {run_id}; {was}")

    # -- answers

    def _say(self, lessons: Sequence[Lesson], deed: Deed) -> None:
        if self._as_json:
            self._document({deed.done: [lesson.id for lesson in lessons]})
        else:
            self._screen.result(f"{deed.done} {counted(len(lessons), 'lesson')}")

    def _tell(self, before: Lesson, after: Lesson, done: str) -> None:
        if self._as_json:
            self._document({"lesson": plain(after)})
        else:
            what = change_of(before, after)
            self._screen.result(
                f"{done} {short(after.id)}: {what}" if what else f"{short(after.id)} is so already"
            )

    # -- what touches the store

    async def _waiting(self) -> Waiting:
        async with self._reading() as store:
            return await Curator(store.repository).waiting()

    async def _decidable(self, kind: Kind, lesson_ids: Sequence[str]) -> list[Found]:
        """Return the lessons that are named, or all that are proposed where none is; raises if one can't be taken."""
        async with self._reading() as store:
            if not lesson_ids:
                return [Found(lesson) for lesson in (await Curator(store.repository).waiting()).proposed]
            found = await self._resolve(store, lesson_ids)
        for each in found:
            if each.held is not None and not kind.held:
                raise LessonStoreError(f"{each.lesson.id} is in quarantine: approve or reject it")
            if each.held is None and each.lesson.state not in kind.states:
                wanted = " or ".join(kind.states)
                raise LessonStoreError(
                    f"lesson {each.lesson.id} is {each.lesson.state}; to {kind.verb} one, it must be {wanted}"
                )
        return found

    async def _decide(self, deed: Deed, found: Sequence[Found], why: Why) -> list[Lesson]:
        async with self._changing() as store:
            curator = Curator(store.repository, by=why.by)
            lessons = [each.lesson.id for each in found if each.held is None]
            await curator.decide(deed.name, lessons, reason=why.reason)
            for each in found:
                if each.held is not None and deed is APPROVE:
                    await curator.approve(each.lesson.id, reason=why.reason)
                elif each.held is not None:
                    await curator.reject(each.lesson.id, reason=why.reason)
        return [each.lesson for each in found]

    async def _edit(
        self, lesson_id: str, text: str, why: Why, embedder: EmbedderChoice
    ) -> tuple[Lesson, Lesson]:
        async with self._changing(embedder) as store:
            before = await self._one(store, lesson_id)
            return before, await Curator(store.repository, by=why.by).edit(before.id, text, reason=why.reason)

    async def _check_merge(self, into: str, others: Sequence[str]) -> None:
        async with self._reading() as store:
            await Curator(store.repository).check_merge(into, others)

    async def _merge(
        self, into: str, others: Sequence[str], text: str | None, why: Why, embedder: EmbedderChoice
    ) -> Lesson:
        async with self._changing(embedder) as store:
            return await Curator(store.repository, by=why.by).merge(
                into, others, text=text, reason=why.reason
            )

    async def _rollback(self, lesson_id: str, to: int | None, why: Why, embedder: EmbedderChoice) -> Undone:
        async with self._changing(embedder) as store:
            curator = Curator(store.repository, by=why.by)
            undone = await self._undoing(store, curator, lesson_id, to)
            after = await curator.rollback(undone.before.id, to=undone.to, reason=why.reason)
            return replace(undone, after=after)

    async def _undone(self, lesson_id: str, to: int | None) -> Undone:
        async with self._reading() as store:
            return await self._undoing(store, Curator(store.repository), lesson_id, to)

    async def _undoing(
        self, store: VectorLessonStore, curator: Curator, lesson_id: str, to: int | None
    ) -> Undone:
        before = await self._one(store, lesson_id)
        if to is None:
            history = await curator.history(before.id)
            if len(history) < 2 and not (history and has_before(history[0])):
                raise LessonStoreError(
                    f"lesson {before.id} was never changed: there is nothing to go back to"
                )
            to = history[-2].number if len(history) > 1 else 0
        undo = await curator.preview(before.id, to=to)
        back, again = [
            tuple([each for each in others if await store.get(each) is not None])
            for others in (undo.back, undo.again)
        ]
        return Undone(before, undo.lesson, to, back, again, undo.held)

    async def _outcome(
        self, run: str, score: float, attempt: int | None, task: str | None, why: Why
    ) -> tuple[str, Feedback]:
        async with self._reading() as store:
            run_id = run if await store.ledger.run(run) else await _run_beginning(store.records, run)
            noted = await store.ledger.note_feedback(
                run_id, score, by=why.by, reason=why.reason, attempt=attempt, task_id=task
            )
            return run_id, noted


async def _run_beginning(records: RecordStore, start: str) -> str:
    """Return the one run whose id begins so; ``start`` itself where there is none, for the ledger to say so."""
    if len(start) < _SHORTEST_RUN:
        return start
    found: list[str] = []
    after: str | None = None
    async with store_errors("look for a run"):
        while True:
            page = await records.scan_records(RUNS, after=after, limit=_PAGE)
            found += [record.key for record in page.records if record.key.startswith(start)]
            if page.next is None:
                break
            after = page.next
    if len(found) > 1:
        raise LessonStoreError(f"{len(found)} runs begin with {start!r}: {', '.join(found[:5])}")
    return found[0] if found else start
