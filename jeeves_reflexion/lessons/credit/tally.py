"""The sums of the ledger's verdicts: for each lesson, the scored attempts with it and without.

Each verdict entry says what it changes: which lessons the attempt had, which score counted before and which counts now.
So entries can be added in any order, each once, and no recall has to be kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import anyio.to_thread

from jeeves_reflexion.lessons.credit.effects import (
    MIN_EACH,
    NO_DRAW,
    RANK_EACH,
    Cell,
    Draw,
    Judgement,
    Prior,
    Stratum,
    Withholding,
    compared,
    fifth_of,
    freshness,
    judge,
    lift,
    prior_of,
    shrunken,
    utility,
)
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, Verdict
from jeeves_reflexion.types import Lift
from vectorstores.base import RecordStore

SETTLE_SECONDS: Final = 300.0
_PAGE: Final = 300  # few enough to be counted in a few milliseconds of the event loop's time
_LIBRARY: Final = None
_Tasks: TypeAlias = tuple[str, str | None]  # all tasks of a kind, or one task


@dataclass(frozen=True, slots=True)
class Tally:
    """The scored attempts of one lesson, or of the library.

    ``cells`` holds, by stratum, the attempts that a draw decided; only these are compared. ``last`` is when an attempt
    last recalled it or was drawn not to (seconds since 1970; 0: never).
    """

    cells: Mapping[Stratum, Cell] = field(default_factory=dict)
    last: float = 0.0


NO_TALLY: Final = Tally()


@dataclass(frozen=True)
class Credits:
    """What is known of each lesson's effect at one time; ``tallies`` lacks lessons without a scored attempt."""

    tallies: Mapping[str, Tally] = field(default_factory=dict)
    library: Tally = NO_TALLY
    prior: Prior = Prior()  # noqa: RUF009 - frozen
    scores: Mapping[_Tasks, tuple[int, float]] = field(default_factory=dict)

    def tally(self, lesson_id: str) -> Tally:
        """Return the counts of a lesson."""
        return self.tallies.get(lesson_id, NO_TALLY)

    def lift(self, lesson_id: str) -> Lift:
        """Return the lift of a lesson for display, corrected for selection; see ``effects.shrunken``.

        It has no value with fewer than five attempts with the lesson or without.
        """
        known = self._hint(lesson_id)
        if compared(self.tally(lesson_id).cells) < MIN_EACH:
            return Lift(n_with=known.n_with, n_without=known.n_without)
        return shrunken(known, self.prior)

    def library_lift(self) -> Lift:
        """Return the lift of recalling any lessons at all.

        Recalls that offered all lessons they found are compared with recalls that the draw withheld as a whole, if
        equally many lessons were at stake. A recall that was partly withheld counts as neither.
        """
        return lift(self.library.cells)

    def scored(self, lesson_id: str) -> int:
        """Return how many scored attempts with and without a lesson a draw decided."""
        return sum(cell.n_with + cell.n_without for cell in self.tally(lesson_id).cells.values())

    def expected(self, task_id: str, task_kind: str | None) -> float:
        """Return the score to expect of an attempt at a task from earlier attempts.

        It is the mean of the task, shrunk towards the mean of its kind with the weight of one attempt; that mean is
        shrunk towards a half in the same way.
        """
        mean = 0.5
        for tasks in (("kind", task_kind), ("task", task_id)):
            n, total = self.scores.get(tasks, (0, 0.0))
            mean = (total + mean) / (n + 1)
        return mean

    def judge(self, lesson_id: str) -> Judgement:
        """Say whether a lesson is to be retired, and why."""
        return judge(self.tally(lesson_id).cells)

    def draw(self, drawing: Withholding, key: str, lesson_ids: Sequence[str]) -> Draw:
        """Draw for one recall. Well-known lessons are withheld less, and those shown to help least."""
        if not drawing.on:
            return NO_DRAW
        shares = {
            each: drawing.floor if self.judge(each).kind == "helps" else drawing.share_for(self.scored(each))
            for each in lesson_ids
        }
        return drawing.draw(key, shares)

    def utility(self, lesson_id: str, now: float) -> float:
        """Return the utility by which a lesson is ranked: its shrunken lift minus the library's mean.

        The longer it was not recalled, the less it weighs.
        """
        last = self.tally(lesson_id).last
        fresh = freshness(now - last) if last else 1.0
        return (utility(self._hint(lesson_id), self.prior) - self.prior.mean) * fresh

    def _hint(self, lesson_id: str) -> Lift:
        """Return the lift, even from fewer attempts than it takes to show it."""
        return lift(self.tally(lesson_id).cells, least=RANK_EACH)


class VerdictReader:
    """Reads new verdicts, each once, and adds them up in any order; for one reader at a time.

    A cursor marks the end of the last page whose verdicts are all old. Later records are read again each time, and
    counted if they were not yet. PostgreSQL numbers a record before its commit, so a record may appear before younger
    ones that were read already. It never appears before the cursor: once the younger ones are old, it was committed or
    given up.
    """

    def __init__(self, records: RecordStore, clock: Callable[[], float], settle_seconds: float) -> None:
        if settle_seconds < 0:
            raise ValueError(f"settle_seconds must not be negative, got {settle_seconds}")
        self._records = records
        self._clock = clock
        self._settle = settle_seconds
        self._tallies: dict[str | None, Tally] = {}
        self._scores: dict[_Tasks, tuple[int, float]] = {}
        self._cursor: str | None = None
        self._counted: set[str] = set()  # keys of the counted records after the cursor

    async def credits(self) -> Credits:
        """Read new verdicts and return the sums."""
        after, settled = self._cursor, True
        while True:
            page = await self._records.scan_records(OUTCOMES, after=after, limit=_PAGE)
            # A page at once, without awaiting, so that a cancelled reader leaves no page half counted.
            for record in page.records:
                if record.key not in self._counted:
                    self.count(Verdict.read(record))
                    self._counted.add(record.key)
            if page.next is None:
                lessons = {key: tally for key, tally in self._tallies.items() if key is not None}
                known = Credits(lessons, self._tallies.get(_LIBRARY, NO_TALLY), scores=dict(self._scores))
                # The lifts are computed in the thread too.
                lifts = (lift(each.cells, least=RANK_EACH) for each in lessons.values())
                return replace(known, prior=await anyio.to_thread.run_sync(prior_of, lifts))
            old = self._clock() - self._settle
            for record in page.records:
                # When it was noted, by its writer's clock; an unknown time counts as old.
                at = record.value.get("at") if isinstance(record.value, Mapping) else None
                settled = settled and (at <= old if isinstance(at, int | float) else old >= 0)
            after = page.next
            if settled:
                self._cursor = after
                self._counted.difference_update(record.key for record in page.records)

    def count(self, verdict: Verdict) -> None:
        """Add a verdict to the sums, if a score counts after it."""
        if verdict.counts is None:
            return
        n = 1 if verdict.before is None else 0
        total = verdict.counts - (verdict.before or 0.0)
        draw, fifth = verdict.draw, fifth_of(verdict.expected)
        if verdict.task_id is not None:
            for tasks in (("kind", verdict.task_kind), ("task", verdict.task_id)):
                attempts, sum_of = self._scores.get(tasks, (0, 0.0))
                self._scores[tasks] = (attempts + n, sum_of + total)
        drawn = draw.share > 0.0 and not draw.whole
        for lesson_id in verdict.had:
            counted = Cell(n_with=n, sum_with=total) if drawn and lesson_id not in draw.exempt else None
            self._put(lesson_id, (draw.share_of(lesson_id), *fifth), counted, verdict.recalled_at)
        for lesson_id in verdict.lacked:
            counted = Cell(n_without=n, sum_without=total) if drawn else None
            self._put(lesson_id, (draw.share_of(lesson_id), *fifth), counted, verdict.recalled_at)
        if draw.whole_share > 0.0 and verdict.stake:
            # Apart from the fifth, these decide how likely a recall is offered whole; within a stratum only chance is
            # left.
            alike = (draw.share, draw.whole_share, verdict.stake, len(draw.exempt), *fifth)
            counted = None if verdict.lacked else Cell(n_with=n, sum_with=total)
            if draw.whole:
                counted = Cell(n_without=n, sum_without=total)
            stratum = (*alike, *sorted(draw.shares.values()))
            self._put(_LIBRARY, stratum, counted, verdict.recalled_at)

    def drop(self, lesson_id: str) -> None:
        """Forget a lesson."""
        self._tallies.pop(lesson_id, None)

    def _put(self, key: str | None, stratum: Stratum, more: Cell | None, last: float) -> None:
        tally = self._tallies.get(key, NO_TALLY)
        cells = tally.cells
        if more is not None:
            old = cells.get(stratum, Cell())
            new = Cell(
                old.n_with + more.n_with,
                old.sum_with + more.sum_with,
                old.n_without + more.n_without,
                old.sum_without + more.sum_without,
            )
            cells = {**cells, stratum: new}
        self._tallies[key] = Tally(cells, max(tally.last, last))
