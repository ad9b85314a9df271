"""What the ledger's verdicts add up to: for each lesson, scored attempts with it and without. Pure.

A verdict entry says by itself what it changes: who had the lesson, which score counted before and which counts now. So
entries may be added in any order, each once, and nothing of a recall has to be kept in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.lessons.credit.effects import (
    NO_DRAW,
    RANK_EACH,
    Cell,
    Draw,
    Judgement,
    Prior,
    Stratum,
    Withholding,
    judge,
    lift,
    prior_of,
    shown,
    utility,
)
from jeeves_reflexion.types import Lift

_LIBRARY: Final = None


@dataclass(frozen=True, slots=True)
class Counted:
    """What one verdict changes.

    ``before`` is the score that counted for the attempt until then (None: there was none), ``after`` the one that
    does now. ``had`` are the lessons that the attempt was offered, ``lacked`` those that the draw withheld from it,
    ``stake`` how many there were of both when it was recalled, at ``recalled_at`` (seconds since 1970).
    """

    before: float | None
    after: float
    had: tuple[str, ...] = ()
    lacked: tuple[str, ...] = ()
    draw: Draw = NO_DRAW
    stake: int = 0
    recalled_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Tally:
    """The scored attempts of one lesson, or of the library.

    ``cells`` holds those that a draw decided, by stratum: only they are compared. ``offered`` counts all that had the
    lesson, ``last`` is when one of them recalled it, or would have (seconds since 1970, 0: never).
    """

    cells: Mapping[Stratum, Cell] = field(default_factory=dict)
    offered: int = 0
    last: float = 0.0


NO_TALLY: Final = Tally()


@dataclass(frozen=True)
class Credits:
    """What is known of every lesson's effect at one time; lessons without a scored attempt are not in ``tallies``.

    It does not change, so what was asked of a lesson before is answered from memory.
    """

    tallies: Mapping[str, Tally] = field(default_factory=dict)
    library: Tally = NO_TALLY
    prior: Prior = Prior()  # noqa: RUF009 - frozen
    _lifts: dict[str, Lift] = field(default_factory=dict, init=False, repr=False, compare=False)
    _judged: dict[str, Judgement] = field(default_factory=dict, init=False, repr=False, compare=False)

    def tally(self, lesson_id: str) -> Tally:
        """Return the counts of a lesson."""
        return self.tallies.get(lesson_id, NO_TALLY)

    def lift(self, lesson_id: str) -> Lift:
        """Return the lift of a lesson as it may be shown, corrected for what was selected by it.

        See :func:`~jeeves_reflexion.lessons.credit.effects.shrunken`; below five attempts of each it has no value.
        """
        return shown(self.tally(lesson_id).cells, self._hint(lesson_id), self.prior)

    def library_lift(self) -> Lift:
        """Return the lift of recalling at all.

        Recalls that offered all that they found are compared with recalls that the draw withheld as a whole, among
        those with equally many lessons at stake; a recall of which a part was withheld is neither.
        """
        return lift(self.library.cells)

    def scored(self, lesson_id: str) -> int:
        """Return how many scored attempts there are of a lesson that a draw decided, with it and without."""
        return sum(cell.n_with + cell.n_without for cell in self.tally(lesson_id).cells.values())

    def judge(self, lesson_id: str) -> Judgement:
        """Say whether a lesson is to be retired, and why."""
        known = self._judged.get(lesson_id)
        if known is None:
            known = self._judged[lesson_id] = judge(self.tally(lesson_id).cells)
        return known

    def draw(self, drawing: Withholding, key: str, lesson_ids: Sequence[str]) -> Draw:
        """Draw for one recall, less of what is known well, and least of what is shown to help."""
        if not drawing.on:
            return NO_DRAW
        helpful = {each for each in lesson_ids if self.judge(each).kind == "helps"}
        scored = {each: self.scored(each) for each in lesson_ids}
        return drawing.draw(key, lesson_ids, scored=scored, helpful=helpful)

    def utility(self, lesson_id: str) -> float:
        """Return the lift to rank a lesson by: shrunken towards the library's prior."""
        return utility(self._hint(lesson_id), self.prior)

    def _hint(self, lesson_id: str) -> Lift:
        """The lift, also of fewer attempts than it is shown from."""
        known = self._lifts.get(lesson_id)
        if known is None:
            known = self._lifts[lesson_id] = lift(self.tally(lesson_id).cells, least=RANK_EACH)
        return known

    def own_prior(self) -> Prior:
        """Return the prior that these lessons make; takes a while with many."""
        return prior_of(map(self._hint, self.tallies))

    def idle(self, lesson_id: str, now: float) -> float | None:
        """Return the seconds since a lesson was last recalled for a scored attempt; None if it never was."""
        last = self.tally(lesson_id).last
        return max(now - last, 0.0) if last else None


class Tallies:
    """Adds up verdicts."""

    def __init__(self) -> None:
        self._kept: dict[str | None, Tally] = {}

    def add(self, counted: Counted) -> None:
        """Count a verdict."""
        n = 1 if counted.before is None else 0
        total = counted.after - (counted.before or 0.0)
        draw = counted.draw
        drawn = draw.share > 0.0 and not draw.whole
        for lesson_id in counted.had:
            compared = drawn and lesson_id not in draw.exempt
            cell = ((draw.share_of(lesson_id),), Cell(n_with=n, sum_with=total)) if compared else None
            self._put(lesson_id, cell, n, counted.recalled_at)
        for lesson_id in counted.lacked:
            cell = ((draw.share_of(lesson_id),), Cell(n_without=n, sum_without=total)) if drawn else None
            self._put(lesson_id, cell, 0, counted.recalled_at)
        if draw.whole_share > 0.0 and counted.stake:
            self._put(_LIBRARY, _library_cell(counted, n, total), 0, counted.recalled_at)

    def drop(self, lesson_id: str) -> None:
        """Forget a lesson."""
        self._kept.pop(lesson_id, None)

    def credits(self, prior: Prior) -> Credits:
        """Return what is known now, with a prior that was made before."""
        lessons = {key: tally for key, tally in self._kept.items() if key is not None}
        return Credits(lessons, self._kept.get(_LIBRARY, NO_TALLY), prior)

    def _put(self, key: str | None, cell: tuple[Stratum, Cell] | None, offered: int, last: float) -> None:
        tally = self._kept.get(key, NO_TALLY)
        cells = tally.cells
        if cell is not None:
            stratum, more = cell
            cells = {**cells, stratum: _sum(cells.get(stratum, Cell()), more)}
        self._kept[key] = Tally(cells, tally.offered + offered, max(tally.last, last))


def _library_cell(counted: Counted, n: int, total: float) -> tuple[Stratum, Cell] | None:
    draw = counted.draw
    # Whether none of a recall is withheld depends on all of these: within a stratum, on chance alone.
    stratum = (draw.share, draw.whole_share, counted.stake, len(draw.exempt), *sorted(draw.shares.values()))
    if counted.draw.whole:
        return stratum, Cell(n_without=n, sum_without=total)
    return None if counted.lacked else (stratum, Cell(n_with=n, sum_with=total))


def _sum(a: Cell, b: Cell) -> Cell:
    return Cell(
        a.n_with + b.n_with,
        a.sum_with + b.sum_with,
        a.n_without + b.n_without,
        a.sum_without + b.sum_without,
    )
