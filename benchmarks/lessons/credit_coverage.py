"""``python -m benchmarks.lessons.credit_coverage``: do the intervals of lifts hold under the rule that acts on them?

Lessons of known effect are recalled by themselves, looked at again and again, and retired where harm is shown. Of those
that are shown to help in the end, the page says what would be shown, and how often its interval holds the truth.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Final

import click

from benchmarks.report import counted_share, out_option, share_of, table, write_result
from jeeves_reflexion.lessons.credit.effects import (
    Cell,
    Prior,
    Stratum,
    Withholding,
    judge,
    lift,
    prior_of,
    shrunken,
)
from jeeves_reflexion.statistics import wilson
from jeeves_reflexion.types import Lift

LOOK_EVERY: Final = 20
_EASIEST, _HARDEST = 0.75, 0.25
EFFECTS: Final[dict[str, tuple[float, ...]]] = {
    "all +10": (0.1,),
    "+20, 0 and -20": (0.2, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.2, -0.2),
    "+10, 0 and -10": (0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.1, -0.1),
}
SHARES: Final = (0.05, 0.1, 0.2)
RECALLS: Final = (400, 1600)


@dataclass(frozen=True, slots=True)
class Job:
    """Lessons of one library; with ``floor`` also those that are shown to help go on being withheld."""

    library: str
    share: float
    recalls: int
    lessons: int
    seed: int
    floor: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """A lesson at the end: its true effect, whether it is shown to help, and its lift by all attempts compared.

    ``after`` is its lift by those attempts alone that came after it had been shown to help.
    """

    effect: float
    helps: bool
    seen: Lift
    after: Lift
    retired: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """What is shown of ``n`` lessons that have a value: the mean, and how many intervals hold the truth."""

    n: int
    true: float
    shown: float
    held: int


def play(job: Job) -> list[Judged]:
    """Recall each lesson of a library so often, by the rule."""
    effects = EFFECTS[job.library]
    return [_one(job, effects[n % len(effects)], n) for n in range(job.lessons)]


def _one(job: Job, effect: float, number: int) -> Judged:
    rng = random.Random(f"{job.seed} {job.library} {job.share} {number}")
    drawing = Withholding(job.share)
    cells: dict[Stratum, Cell] = {(drawing.share,): Cell(), (drawing.floor,): Cell()}
    helps = retire = False
    for recall in range(1, job.recalls + 1):
        share = drawing.floor if helps else drawing.share
        lacks = rng.random() < share and (job.floor or not helps)
        chance = rng.uniform(_HARDEST, _EASIEST) + (0.0 if lacks else effect)
        score = float(rng.random() < chance)
        if job.floor or not helps:
            cells[share,] = with_score(cells[share,], score, lacks=lacks)
        if recall % LOOK_EVERY == 0:
            kind = judge(cells).kind
            helps = kind == "helps"
            retire = kind == "retire"
            if retire:
                break
    after: Stratum = (drawing.floor,)
    return Judged(effect, helps, lift(cells), lift({after: cells[after]}), retire)


def with_score(cell: Cell, score: float, *, lacks: bool) -> Cell:
    """Return the cell with one more attempt, that had the lesson or lacked it."""
    if lacks:
        return replace(cell, n_without=cell.n_without + 1, sum_without=cell.sum_without + score)
    return replace(cell, n_with=cell.n_with + 1, sum_with=cell.sum_with + score)


def told(lessons: Sequence[tuple[float, Lift]]) -> Told | None:
    """Say what is shown of lessons with these effects; None where nothing is."""
    known = [
        (effect, each.value, each.low <= effect <= each.high)
        for effect, each in lessons
        if each.value is not None and each.low is not None and each.high is not None
    ]
    if not known:
        return None
    effects, values, held = zip(*known, strict=True)
    return Told(len(known), fmean(effects), fmean(values), sum(held))


def columns(earlier: Sequence[Judged], now: Sequence[Judged], prior: Prior) -> list[Told | None]:
    """Return what is told of lessons: by the earlier rule, as seen, after they were shown to help, and shrunken."""
    return [
        told([(each.effect, each.seen) for each in earlier]),
        told([(each.effect, each.seen) for each in now]),
        told([(each.effect, each.after) for each in now]),
        told([(each.effect, shrunken(each.seen, prior)) for each in now]),
        told([(each.effect, shrunken(each.seen, Prior())) for each in now]),
    ]


_PAGE: Final = """\
# Credit: what is shown of lessons that were selected for it

{lessons} lessons in each line (seed {seed}), each recalled so often by itself, on tasks that are solved without it in
{hardest:.0%} to {easiest:.0%} of the tries; the rule looks every {every} recalls and retires what is shown to harm.
Effects and lifts in points of success; in brackets how many 95 % intervals hold the true effect. *Earlier rule*: a
lesson that is shown to help is withheld no more, so its lift stays as it was. The other columns: it goes on being
withheld, by a quarter of the share. *As seen*: all attempts, the plain difference. *After*: only attempts after it was
shown to help. *Shrunken*: all attempts, drawn towards what the lessons of the library do on the whole. That is what is
shown. *Few*: the same in a library with fewer than ten known lifts, drawn towards 0 with a spread of 10. A cell has the
mean lift shown, the mean true effect of the same lessons, and the intervals; a lift has a value from five of each.
The last line has 95 % Wilson intervals.

```
{command}
```
{minutes:.1f} minutes.

The tables show {recalls} recalls; the fewer are in the JSON beside this page, and in the line *all*.

## Lessons that are shown to help in the end

{selected}

## All lessons, shown to help or not

{everything}

## Retired, by true effect

A lesson without any effect is retired in at most 5 % of cases, by design.

{retired}
"""
_SHOWN: Final = {"", str(RECALLS[-1])}
_HEADS: Final = ("lessons", "withheld", "recalls", "earlier rule", "as seen", "after", "shrunken", "few")


def rows_of(results: Mapping[Job, Sequence[Judged]], *, selected: bool) -> list[list[str]]:
    """Return a row for each job, of the lessons shown to help in the end or of all, and one for all together."""
    rows: list[list[str]] = []
    held = [[0, 0] for _ in _HEADS[3:]]
    for job in (each for each in results if each.floor):
        now = results[job]
        both = [
            [each for each in lessons if each.helps or not selected]
            for lessons in (results[replace(job, floor=False)], now)
        ]
        cells = columns(both[0], both[1], prior_of(each.seen for each in now))
        for total, cell in zip(held, cells, strict=True):
            total[0] += cell.held if cell else 0
            total[1] += cell.n if cell else 0
        rows.append([job.library, f"{job.share:.0%}", str(job.recalls), *map(_told, cells)])
    shares = (wilson(*each) if each[1] else None for each in held)
    return [*rows, ["all", "", "", *(counted_share(share, 1) for share in shares)]]


def _told(cell: Told | None) -> str:
    if cell is None:
        return "none"
    return (
        f"{100 * cell.shown:+.0f} of {100 * cell.true:+.0f} ({cell.held}/{cell.n} = {cell.held / cell.n:.0%})"
    )


def retired(results: Mapping[Job, Sequence[Judged]]) -> list[list[str]]:
    """Return how many lessons of each effect the rule retired, by job."""
    rows = []
    for job, judged in results.items():
        for effect in sorted({each.effect for each in judged}) if job.floor else ():
            share = share_of(each.retired for each in judged if each.effect == effect)
            name = f"{100 * effect:+.0f}"
            rows.append([job.library, f"{job.share:.0%}", str(job.recalls), name, counted_share(share)])
    return rows


@click.command()
@click.option("--lessons", type=click.IntRange(min=10), default=1000, show_default=True, help="Of each line.")
@click.option("--seed", default=0, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@out_option("lessons_credit_coverage.md and .json")
def main(*, lessons: int, seed: int, workers: int, out: Path) -> None:
    """Play all, print the tables and write them to a file."""
    started = time.perf_counter()
    jobs = [
        Job(*each[:3], lessons, seed, each[3]) for each in product(EFFECTS, SHARES, RECALLS, (True, False))
    ]
    with ProcessPoolExecutor(workers) as pool:
        results = dict(zip(jobs, pool.map(play, jobs), strict=True))
    found = {"selected": rows_of(results, selected=True), "everything": rows_of(results, selected=False)}
    text = _PAGE.format(
        lessons=lessons,
        seed=seed,
        hardest=_HARDEST,
        easiest=_EASIEST,
        every=LOOK_EVERY,
        recalls=RECALLS[-1],
        command=f"python -m benchmarks.lessons.credit_coverage --lessons {lessons} --seed {seed}",
        minutes=(time.perf_counter() - started) / 60,
        retired=table(
            ("lessons", "withheld", "recalls", "effect", "retired"),
            [each for each in retired(results) if each[2] in _SHOWN],
        ),
        selected=table(_HEADS, [row for row in found["selected"] if row[2] in _SHOWN]),
        everything=table(_HEADS, found["everything"][-1:]),
    )
    write_result(out, "lessons_credit_coverage", found, text)
    click.echo(text)


if __name__ == "__main__":
    main()
