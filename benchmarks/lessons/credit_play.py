"""Plays a world: recalls by an arm's rule, notes all in the real ledger, and keeps the truth beside it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from benchmarks.lessons.credit_world import Posed, Taught, World
from jeeves_reflexion.lessons.credit.effects import Draw, Withholding, lift, recall_key
from jeeves_reflexion.lessons.credit.ledger import Ledger
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.types import Evaluation, Lesson, Lift, Provenance, Recall, RecalledLesson
from vectorstores.base import RecordStore

Arm: TypeAlias = Literal["none", "oracle", "measure", "retire", "rank"]
ARMS: Final[tuple[Arm, ...]] = get_args(Arm)

K: Final = 3
LOOK_EVERY: Final = 20
_MINUTE: Final = 60.0
_NOBODY: Final = Provenance("world", 1, None)


@dataclass(frozen=True, slots=True, order=True)
class Shares:
    """What is withheld: of any lesson, and of one of which nothing is known (0: no more)."""

    share: float = 0.0
    early: float = 0.0

    def __str__(self) -> str:
        return f"{self.share:.0%}" + (f", early {self.early:.0%}" if self.early else "")


@dataclass(slots=True)
class Watched:
    """One lesson in one run: what is true of it, and when the rules said what."""

    taught: Taught
    eligible: int = 0
    truth: float = 0.0  # the sum of its effects on the chances of those attempts
    retired_at: int | None = None
    naive_at: int | None = None
    missed: bool = False
    helps: bool = False
    seen: Lift = field(default_factory=Lift)  # the plain difference
    lift: Lift = field(default_factory=Lift)  # as it is shown

    @property
    def true_lift(self) -> float:
        """Its mean effect on the attempts for which it was drawn, other lessons and limits of a chance included."""
        return self.truth / self.eligible if self.eligible else 0.0


@dataclass(slots=True)
class Run:
    """What came of one arm in one world. ``solved`` holds one entry per attempt."""

    arm: Arm
    shares: Shares
    seed: int
    solved: list[bool] = field(default_factory=list)
    watched: dict[str, Watched] = field(default_factory=dict)
    library: Lift = field(default_factory=Lift)
    library_truth: float = 0.0
    ledger_seconds: float = 0.0


class Player:
    """One arm in one world over one ledger.

    ``none`` recalls by similarity, ``oracle`` by the true effect; both keep no ledger. ``measure`` recalls as ``none``
    does, less what is withheld; ``retire`` also leaves out what the rule retires, and withholds less of what it shows
    to help; ``rank`` ranks by similarity plus utility besides.
    """

    def __init__(self, world: World, arm: Arm, shares: Shares, records: RecordStore) -> None:
        self._world, self._arm = world, arm
        self._now = 1.7e9
        self._ledger = Ledger(records, lambda: self._now)
        self._drawing = Withholding(shares.share, seed=world.seed, early=shares.early or None)
        self._known = Credits()
        self._utility: dict[str, float] = {}
        self._touched: set[str] = set()
        self._whole_truth: list[float] = []
        self.run = Run(arm, shares, world.seed)
        self.run.watched = {each.id: Watched(each) for topic in world.topics for each in topic}

    async def play(self, attempts: int) -> Run:
        """Try so many tasks, and look at the credits every :data:`LOOK_EVERY` of them."""
        keeps = self._arm not in ("none", "oracle")
        for number in range(attempts):
            posed = self._world.task(number)
            picked = self._pick(posed)
            if not keeps:
                self.run.solved.append(posed.solved(picked))
                continue
            await self._attempt(number, posed, picked)
            if (number + 1) % LOOK_EVERY == 0:
                await self._look()
        if keeps:
            self.run.library = self._known.library_lift()
            self.run.library_truth = sum(self._whole_truth) / max(len(self._whole_truth), 1)
        return self.run

    def _pick(self, posed: Posed) -> list[Taught]:
        if self._arm == "oracle":
            good = [each for each in posed.topic if each.effect >= 0]
            return sorted(good, key=lambda each: (each.effect, posed.similarity[each.id]), reverse=True)[:K]
        retires = self._arm in ("retire", "rank")
        live = [each for each in posed.topic if not (retires and self.run.watched[each.id].retired_at)]

        def rank(each: Taught) -> float:
            bonus = self._utility.get(each.id, self._known.prior.mean) if self._arm == "rank" else 0.0
            return posed.similarity[each.id] + bonus

        return sorted(live, key=rank, reverse=True)[:K]

    async def _attempt(self, number: int, posed: Posed, picked: Sequence[Taught]) -> None:
        self._now += _MINUTE
        draw = self._draw(number, [each.id for each in picked])
        offered = [each for each in picked if each.id not in draw.withheld]
        solved = posed.solved(offered)
        self.run.solved.append(solved)
        self._note_truth(posed, picked, draw)
        recall = Recall(
            f"{number}",
            "task",
            tuple(_found(each, posed) for each in offered),
            tuple(_found(each, posed) for each in picked if each.id in draw.withheld),
        )
        started = time.perf_counter()
        await self._ledger.note_recall(recall, draw=draw)
        await self._ledger.note_outcome(recall.id, Evaluation(float(solved)))
        self.run.ledger_seconds += time.perf_counter() - started

    def _draw(self, number: int, ids: list[str]) -> Draw:
        key = recall_key("world", number, "")
        if self._arm == "measure":
            return self._drawing.draw(key, ids, scored={each: self._known.scored(each) for each in ids})
        return self._known.draw(self._drawing, key, ids)

    def _note_truth(self, posed: Posed, picked: Sequence[Taught], draw: Draw) -> None:
        if draw.whole_share:
            self._whole_truth.append(posed.chance(picked) - posed.chance(()))
        if draw.whole:
            return
        for each in picked:
            others = [other for other in picked if other is not each and other.id not in draw.withheld]
            watched = self.run.watched[each.id]
            watched.eligible += 1
            watched.truth += posed.chance([*others, each]) - posed.chance(others)
            self._touched.add(each.id)

    async def _look(self) -> None:
        started = time.perf_counter()
        self._known = await self._ledger.credits(max_age=0)
        self.run.ledger_seconds += time.perf_counter() - started
        for lesson_id in self._touched:
            watched = self.run.watched[lesson_id]
            watched.lift = self._known.lift(lesson_id)
            watched.seen = seen = lift(self._known.tally(lesson_id).cells)
            self._utility[lesson_id] = self._known.utility(lesson_id)
            if seen.low is None or seen.high is None:
                continue
            watched.missed = watched.missed or not seen.low <= watched.true_lift <= seen.high
            if seen.high < 0 and watched.naive_at is None:
                watched.naive_at = watched.eligible
            kind = self._known.judge(lesson_id).kind
            watched.helps = kind == "helps"
            if watched.retired_at is None and kind == "retire":
                watched.retired_at = watched.eligible
        self._touched.clear()


def _found(each: Taught, posed: Posed) -> RecalledLesson:
    similarity = min(max(posed.similarity[each.id], -1.0), 1.0)
    return RecalledLesson(Lesson(each.id, each.id, "task", "", _NOBODY), similarity, "near the task")
