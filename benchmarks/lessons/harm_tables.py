"""The tables of the harm benchmark, and a simulation of how many recalls retire a harmful lesson."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from benchmarks.report import counted_share, points, share_of, table
from jeeves_reflexion.lessons.credit.effects import Cell, Withholding, judge
from jeeves_reflexion.statistics import Difference

Arm: TypeAlias = Literal["none", "clean", "copies", "diverse", "planted", "credit", "retiring"]
ARMS: Final[Mapping[Arm, str]] = {
    "none": "no lessons",
    "clean": "true lessons only",
    "copies": "true lessons, equal ones kept",
    "diverse": "true lessons, diversity and likeness",
    "planted": "planted lessons, no credit",
    "credit": "planted lessons, credit ranks and retires",
    "retiring": "planted lessons, credit retires alone",
}
ENOUGH: Final = 40
"""After this many recalls, half of the lessons that cost 50 points are retired (docs/results/lessons_harm.md)."""

_RESAMPLES: Final = 2000
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Played:
    """One attempt: its arm, seed and round (from 0; -1 for a held-out game), and whether it was won."""

    arm: Arm
    seed: int
    round: int
    game: str
    won: bool


@dataclass(frozen=True, slots=True)
class Library:
    """What became of the lessons of one seed and arm, true ones or planted ones.

    ``recalled`` counts lessons that a recall offered or withheld, ``enough`` those with :data:`ENOUGH` such recalls or
    that were retired before; ``recalls`` is the median number of recalls of the ``retired`` ones.
    """

    seed: int
    arm: Arm
    planted: bool
    lessons: int
    recalled: int
    enough: int
    retired: int
    recalls: float | None


def tables(played: Sequence[Played], libraries: Sequence[Library]) -> str:
    """Return tables of success by arm and part of the rounds, of differences, and of what became of the lessons."""
    rounds = 1 + max(each.round for each in played)
    spans = [range(rounds * part // _PARTS, rounds * (part + 1) // _PARTS) for part in range(_PARTS)]
    spans = [range(-1, 0), *(span for span in spans if span)]
    rows: list[list[str]] = []
    for arm, label in ARMS.items():
        shares = [share_of(e.won for e in played if e.arm == arm and e.round in span) for span in spans]
        rows.append([label, *(counted_share(share, 1) for share in shares)])
    for label, better, worse in _BESIDE:
        rows.append([label, *(_beside(played, span, better, worse) for span in spans)])
    heads = ["games won", "held out", *(f"rounds {span.start + 1} to {span.stop}" for span in spans[1:])]
    fates = [
        "seed",
        "arm",
        "lessons",
        "of them recalled",
        f"{ENOUGH} times or retired",
        "retired",
        "after recalls",
    ]
    became = [
        [
            each.seed,
            ARMS[each.arm],
            f"{each.lessons} {'planted' if each.planted else 'true'}",
            each.recalled,
            each.enough,
            each.retired,
            "-" if each.recalls is None else f"{each.recalls:.0f}",
        ]
        for each in libraries
    ]
    return "\n\n".join([table(heads, rows), table(fates, became)])


def retirement(lessons: int = 200, most: int = 2000, look: int = 5) -> str:
    """Return a table of recalls until a harmful lesson is retired, by its harm and the share withheld."""
    rng, rows = random.Random(0), []
    for harm in _HARMS:
        cells = []
        for drawing in _DRAWINGS:
            after = sorted(_retired_after(rng, harm, drawing, most, look) for _ in range(lessons))
            middle, late = after[lessons // 2], after[lessons * 4 // 5]
            cells.append(" / ".join("more" if each > most else str(each) for each in (middle, late)))
        rows.append([f"{-100 * harm:.0f} points", *cells])
    heads = [
        f"{drawing.share:.0%}" + (f", {drawing.early:.0%} at first" if drawing.early else "")
        for drawing in _DRAWINGS
    ]
    return table(["a lesson costs", *heads], rows)


_HARMS: Final = (1.0, 0.5, 0.3, 0.2, 0.1)
_DRAWINGS: Final = (
    Withholding(0.05),
    Withholding(0.05, early=0.5),
    Withholding(0.1, early=0.5),
    Withholding(0.2, early=0.5),
    Withholding(0.5),
)


def _retired_after(rng: random.Random, harm: float, drawing: Withholding, most: int, look: int) -> int:
    """Recall one lesson until it is retired, on tasks that are solved without it in (1 + harm) / 2 of the tries."""
    cells: dict[tuple[float, ...], Cell] = {}
    for number in range(1, most + 1):
        share = drawing.share_for(number - 1)
        withheld = rng.random() < share
        score = float(rng.random() < (1 + harm) / 2 - (0.0 if withheld else harm))
        cell = cells.get((share,), Cell())
        cells[share,] = (
            replace(cell, n_without=cell.n_without + 1, sum_without=cell.sum_without + score)
            if withheld
            else replace(cell, n_with=cell.n_with + 1, sum_with=cell.sum_with + score)
        )
        if number % look == 0 and judge(cells).kind == "retire":
            return number
    return most + 1


_BESIDE: Final[Sequence[tuple[str, Arm, Arm]]] = (
    ("true lessons gain", "clean", "none"),
    ("keeping equal ones gains", "copies", "clean"),
    ("diversity and likeness gain", "diverse", "clean"),
    ("planted ones cost", "clean", "planted"),
    ("they cost with credit", "clean", "credit"),
    ("they cost with retiring alone", "clean", "retiring"),
    ("credit gains", "credit", "planted"),
    ("retiring alone gains", "retiring", "planted"),
)


def _beside(played: Sequence[Played], span: range, better: Arm, worse: Arm) -> str:
    """Return the difference between two arms, with a bootstrap interval over games as clusters."""
    won: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for each in played:
        if each.round in span:
            won[each.game][each.arm].append(each.won)
    sums = [(sum(game[better]) - sum(game[worse]), len(game[better])) for game in won.values()]
    rng = random.Random(0)

    def mean(of: Sequence[tuple[int, int]]) -> float:
        return sum(one for one, _ in of) / sum(number for _, number in of)

    drawn = sorted(mean(rng.choices(sums, k=len(sums))) for _ in range(_RESAMPLES))
    return points(Difference(mean(sums), drawn[int(0.025 * _RESAMPLES)], drawn[int(0.975 * _RESAMPLES) - 1]))
