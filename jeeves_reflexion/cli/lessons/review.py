"""What people do to lessons: let them in, retire, reword, merge, take back. Each goes into the lesson's history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import click

from jeeves_reflexion.cli.lessons.service import Found, LessonService, naming
from jeeves_reflexion.cli.lessons.views import change_of, held_as_json, held_row, row, short
from jeeves_reflexion.cli.options import Asking, EmbedderChoice, Why
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.service import counted
from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.credit.ledger import RUNS, Feedback
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.curation import Curator, Decision
from jeeves_reflexion.lessons.gate import clean_words
from jeeves_reflexion.lessons.history import has_before
from jeeves_reflexion.lessons.records import MERGED_INTO
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.types import JSON, Lesson, LessonState
from vectorstores.base import RecordStore

_SHORTEST_RUN = 4
_EVERY: Final[tuple[LessonState, ...]] = ("active", "proposed", "retired")


@dataclass(frozen=True, slots=True)
class Rule:
    """What a decision is called when it is ``done``, and what it may be about: ``held``: texts in quarantine, too."""

    done: str
    states: tuple[LessonState, ...]
    held: bool = False


_RULES: Final[Mapping[Decision, Rule]] = {
    "approve": Rule("approved", ("proposed", "active"), held=True),
    "reject": Rule("rejected", ("proposed",), held=True),
    "retire": Rule("retired", ("active", "proposed")),
    "restore": Rule("restored", ("retired",)),
}
# Some may have been merged into it before.
_MERGE: Final = Rule("merged", _EVERY)


@dataclass(frozen=True, slots=True)
class Undone:
    """A lesson before and after a rollback, and those that come out of it and go into it again.

    With ``held`` it goes back into quarantine.
    """

    before: Lesson
    after: Lesson
    back: tuple[str, ...]
    again: tuple[str, ...]
    held: bool


class CurationService(LessonService):
    """Shows what waits for a decision, and carries decisions out."""

    def review(self) -> None:
        """Print what waits: proposed lessons, and texts in quarantine with the reason."""
        waiting = self._read(lambda store: Curator(store.repository).waiting())
        if self._as_json:
            held = [held_as_json(each) for each in waiting.held]
            self._document({"proposed": [plain(each) for each in waiting.proposed], "quarantine": held})
            return
        for lesson in waiting.proposed:
            about = (("state", lesson.state), ("trust", lesson.trust), ("why", lesson.state_reason or "-"))
            fields = row(lesson, *about)
            del fields["score"]
            self._screen.entry(fields)
        for each in waiting.held:
            self._screen.entry(held_row(each))
        if not waiting.proposed and not waiting.held:
            self._screen.note(f"nothing waits for review {self._where}")
        else:
            proposed = counted(len(waiting.proposed), "proposed lesson")
            texts = counted(len(waiting.held), "text")
            self._screen.note(f"{proposed}, {texts} in quarantine; approve or reject takes their ids", "dim")

    def approve(self, lesson_ids: Sequence[str], why: Why, asking: Asking, *, everything: bool) -> None:
        """Let lessons and texts in."""
        self._decide("approve", lesson_ids, why, asking, everything=everything)

    def reject(self, lesson_ids: Sequence[str], why: Why, asking: Asking, *, everything: bool) -> None:
        """Retire proposed lessons, and throw texts away."""
        self._decide("reject", lesson_ids, why, asking, everything=everything)

    def retire(self, lesson_ids: Sequence[str], why: Why, asking: Asking) -> None:
        """Have lessons recalled no more."""
        if not why.reason:
            raise click.UsageError("a lesson is retired for a reason: say it with --reason")
        self._decide("retire", lesson_ids, why, asking)

    def restore(self, lesson_ids: Sequence[str], why: Why, asking: Asking) -> None:
        """Have retired lessons recalled again."""
        self._decide("restore", lesson_ids, why, asking)

    def _decide(
        self,
        decision: Decision,
        lesson_ids: Sequence[str],
        why: Why,
        asking: Asking,
        *,
        everything: bool = False,
    ) -> None:
        """Decide on each of several lessons; on none of them unless it can be done to all."""
        if everything == bool(lesson_ids):
            raise click.UsageError(f"name the lessons to {decision}, or say --all")
        rule = _RULES[decision]

        async def decidable(store: VectorLessonStore) -> list[Found]:
            if everything:
                return [Found(lesson) for lesson in (await Curator(store.repository).waiting()).proposed]
            return await self._resolved(store, lesson_ids, decision, rule)

        async def decide(store: VectorLessonStore) -> None:
            curator = Curator(store.repository, by=why.by)
            lessons = [each.lesson.id for each in found if each.held is None]
            await curator.decide(decision, lessons, reason=why.reason)
            for each in found:
                if each.held is not None and decision == "approve":
                    await curator.approve(each.lesson.id, reason=why.reason)
                elif each.held is not None:
                    await curator.reject(each.lesson.id, reason=why.reason)

        found = self._read(decidable)
        lost = decision == "reject" and any(each.held for each in found)
        end = ", texts in quarantine for good" if lost else ""
        number = counted(len(found), "lesson")
        question = f"{decision.capitalize()} {number}{end}?"
        sure = len(found) == 1 and not lost
        answer: dict[str, JSON] = {rule.done: [each.lesson.id for each in found]}
        if found and not self._go(asking, question, [naming(each) for each in found], sure=sure):
            self._answer_dry(answer)
            return
        if found:
            self._change(decide)
        self._answer(answer, f"{rule.done} {number}")

    def edit(self, lesson_id: str, text: str, why: Why, embedder: EmbedderChoice) -> None:
        """Say a lesson in other words."""

        async def edited(store: VectorLessonStore) -> tuple[Lesson, Lesson]:
            before = await self._one(store, lesson_id)
            return before, await Curator(store.repository, by=why.by).edit(before.id, text, reason=why.reason)

        before, after = self._change(edited, embedder)
        self._answer({"lesson": plain(after)}, _told(before, after, "changed"))

    def merge(
        self,
        into: str,
        others: Sequence[str],
        text: str | None,
        why: Why,
        asking: Asking,
        embedder: EmbedderChoice,
    ) -> None:
        """Let one lesson speak for others."""

        async def checked(store: VectorLessonStore) -> tuple[Lesson, list[Lesson]]:
            first, *rest = await self._resolved(store, (into, *others), "merge", _MERGE)
            if not rest:
                raise click.UsageError("a merge takes at least one other lesson, and none into itself")
            if text is not None:
                await clean_words(first.lesson.id, text)
            found = [each.lesson for each in rest]
            await Curator(store.repository).check_merge(first.lesson.id, [each.id for each in found])
            return first.lesson, found

        kept, found = self._read(checked)
        ids = [each.id for each in found]
        before = [each.id for each in found if each.metadata.get(MERGED_INTO) == kept.id]
        rows = [{"id": short(kept.id), "what": "stays", "lesson": text or kept.text}]
        rows += [{"id": short(each.id), "what": "retired", "lesson": each.text} for each in found]
        answer: dict[str, JSON] = {
            "merged": [each for each in ids if each not in before],
            "merged_before": list(before),
        }
        if not self._go(asking, f"Merge {counted(len(ids), 'lesson')} into {short(kept.id)}?", rows):
            self._answer_dry({"into": kept.id, **answer})
            return
        merged = self._change(
            lambda store: Curator(store.repository, by=why.by).merge(
                kept.id, ids, text=text, reason=why.reason
            ),
            embedder,
        )
        done = f"merged {counted(len(ids) - len(before), 'lesson')} into {short(kept.id)}"
        were = "was" if len(before) == 1 else "were"
        known = f"; {counted(len(before), 'lesson')} {were} merged into it before" if before else ""
        self._answer(
            {"lesson": plain(merged), **answer}, f"{done}, learned {merged.support} times now{known}"
        )

    def rollback(
        self, lesson_id: str, to: int | None, why: Why, embedder: EmbedderChoice, *, dry_run: bool
    ) -> None:
        """Make a lesson again what it was after an earlier change; the one before the last unless named."""

        async def done(store: VectorLessonStore) -> Undone:
            return await self._rolled_back(store, lesson_id, to, None if dry_run else why)

        undone = self._read(done) if dry_run else self._change(done, embedder)
        if self._as_json:
            about = {"dry_run": True} if dry_run else {}
            others = {"back": list(undone.back), "again": list(undone.again)}
            self._document({**about, "lesson": plain(undone.after), "quarantine": undone.held, **others})
            return
        if dry_run:
            what = change_of(undone.before, undone.after)
            if undone.held:
                what = f"goes back into quarantine{f', with {what}' if what else ''}"
            self._screen.entry({"id": short(undone.after.id), "change": what or "is so already"})
        elif undone.held:
            self._screen.result(f"put {short(undone.after.id)} back into quarantine")
        else:
            self._screen.result(_told(undone.before, undone.after, "rolled back"))
        for said, ids in (
            ("not merged into it any more", undone.back),
            ("merged into it again", undone.again),
        ):
            if ids:
                self._screen.note(f"{said}: {', '.join(map(short, ids))}")
        if dry_run:
            self._answer_dry({})

    def outcome(self, run: str, score: float, attempt: int | None, task: str | None, why: Why) -> None:
        """Note what someone says later of an attempt."""
        if score != score:  # noqa: PLR0124 - NaN lies in every range
            raise click.BadParameter("it must be a number from 0 to 1", param_hint="SCORE")

        async def noted_in(store: VectorLessonStore) -> tuple[str, Feedback]:
            run_id = run if await store.ledger.run(run) else await _run_beginning(store.records, run)
            return run_id, await store.feedback(
                run_id, score, by=why.by, reason=why.reason, attempt=attempt, task_id=task
            )

        run_id, noted = self._read(noted_in)
        was = "none counted until now" if noted.before is None else f"{noted.before:.2f} counted until now"
        self._answer(
            {"run_id": run_id, "feedback": plain(noted)},
            f"noted {score:.2f} for attempt {noted.attempt} of run {run_id}; {was}",
        )

    # -- what touches the store

    async def _resolved(
        self, store: VectorLessonStore, lesson_ids: Sequence[str], verb: str, rule: Rule
    ) -> list[Found]:
        """Return what ids stand for; raises if something can't be done to one of them."""
        found = await self._resolve(store, lesson_ids)
        for each in found:
            if each.held is not None and not rule.held:
                raise LessonStoreError(f"{each.lesson.id} is in quarantine: approve or reject it")
            if each.held is None and each.lesson.state not in rule.states:
                wanted = " or ".join(rule.states)
                raise LessonStoreError(
                    f"lesson {each.lesson.id} is {each.lesson.state}; to {verb} one, it must be {wanted}"
                )
        return found

    async def _rolled_back(
        self, store: VectorLessonStore, lesson_id: str, to: int | None, why: Why | None
    ) -> Undone:
        """Roll a lesson back; without ``why`` say what that would do."""
        curator = Curator(store.repository, by="" if why is None else why.by)
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
        after = undo.lesson if why is None else await curator.rollback(before.id, to=to, reason=why.reason)
        return Undone(before, after, back, again, undo.held)


def _told(before: Lesson, after: Lesson, done: str) -> str:
    what = change_of(before, after)
    return f"{done} {short(after.id)}: {what}" if what else f"{short(after.id)} is so already"


async def _run_beginning(records: RecordStore, start: str) -> str:
    """Return the one run whose id begins so; ``start`` itself where there is none, for the ledger to say so."""
    if len(start) < _SHORTEST_RUN:
        return start
    async with store_errors("look for a run"):
        found = [record.key async for record in each_record(records, RUNS) if record.key.startswith(start)]
    if len(found) > 1:
        raise LessonStoreError(f"{len(found)} runs begin with {start!r}: {', '.join(found[:5])}")
    return found[0] if found else start
