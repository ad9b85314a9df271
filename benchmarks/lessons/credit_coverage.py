"""``python -m benchmarks.lessons.credit_coverage``: do the intervals of lifts hold under the rule that acts on them?

Lessons of known effect are recalled alone, checked again and again, and retired if harm is shown. For those that are
shown to help, the page has the lift that is shown, at that moment and in the end, and how often its interval holds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Final

import click
import numpy as np

from benchmarks.lessons.credit_play import MIXES, Play, chances
from benchmarks.report import counted_share, out_option, share_of, table, write_result
from jeeves_reflexion.lessons.credit.effects import Prior, Withholding, judge, lift, prior_of, shrunken
from jeeves_reflexion.statistics import wilson
from jeeves_reflexion.types import Lift

LOOK_EVERY: Final = 20
ALIKE: Final = "all +10"
EFFECTS: Final[dict[str, tuple[float, ...]]] = {
    ALIKE: (0.1,),
    "+20, 0 and -20": (0.2, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.2, -0.2),
    "+10, 0 and -10": (0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.1, -0.1),
}
SHARES: Final = (0.05, 0.1, 0.2)
RECALLS: Final = (400, 1600)


@dataclass(frozen=True, slots=True)
class Job:
    """The lessons of one library, and the mix of their tasks."""

    library: str
    mix: str
    share: float
    recalls: int
    lessons: int
    seed: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A lesson: its true effect, its lift in the end, and its lift when it was first shown to help (None if never).

    ``declared`` and ``in_end`` are plain lifts; ``prior`` is the library's at the time of ``declared``.
    """

    effect: float
    helps: bool
    retired: bool
    in_end: Lift
    declared: Lift | None
    prior: Prior


@dataclass(frozen=True, slots=True)
class Told:
    """The mean true and shown effect of ``n`` lessons with a lift, and how many intervals hold the truth."""

    n: int
    true: float
    shown: float
    held: int


def play(job: Job) -> list[Judged]:
    """Recall each lesson of a library ``job.recalls`` times, and apply the rule."""
    rng = np.random.default_rng([job.seed, *map(ord, f"{job.library} {job.mix} {job.share} {job.recalls}")])
    effects = np.resize(EFFECTS[job.library], job.lessons)
    mix = MIXES[job.mix]
    played = Play(rng, chances(rng, mix, effects), Withholding(job.share), mix.tried)
    helps = np.zeros(job.lessons, bool)
    lifts = [Lift()] * job.lessons
    declared: dict[int, tuple[Lift, Prior]] = {}
    retired: set[int] = set()
    for recall in range(1, job.recalls + 1):
        played.recall(helps)
        if recall % LOOK_EVERY:
            continue
        for lesson in set(range(job.lessons)) - retired:
            cells = played.cells(lesson)
            kind = judge(cells).kind
            helps[lesson], lifts[lesson] = kind == "helps", lift(cells)
            if kind == "retire":
                retired.add(lesson)
        new = set(np.flatnonzero(helps).tolist()) - declared.keys()
        if new:
            prior = prior_of(lifts)
            declared |= {lesson: (lifts[lesson], prior) for lesson in new}
    return [
        Judged(
            float(effects[n]),
            bool(helps[n]) and n not in retired,
            n in retired,
            lifts[n],
            *declared.get(n, (None, Prior())),
        )
        for n in range(job.lessons)
    ]


def told(lessons: Sequence[tuple[float, Lift]]) -> Told | None:
    """Return what is shown of lessons with these effects; None if no lesson has a lift."""
    known = [
        (effect, each.value, each.low <= effect <= each.high)
        for effect, each in lessons
        if each.value is not None and each.low is not None and each.high is not None
    ]
    if not known:
        return None
    effects, values, held = zip(*known, strict=True)
    return Told(len(known), fmean(effects), fmean(values), sum(held))


def columns(lessons: Sequence[Judged], *, selected: bool) -> list[Told | None]:
    """Return the columns for all lessons, or only for those shown to help: when that was shown, and in the end."""
    prior = prior_of(each.in_end for each in lessons)
    ever = [(each.effect, each.declared, each.prior) for each in lessons if each.declared is not None]
    ends = [(each.effect, each.in_end) for each in lessons if each.helps or not selected]
    return [
        told([(effect, seen) for effect, seen, _ in ever]),
        told([(effect, shrunken(seen, then)) for effect, seen, then in ever]),
        told(ends),
        told([(effect, shrunken(seen, prior)) for effect, seen in ends]),
        told([(effect, shrunken(seen, Prior())) for effect, seen in ends]),
    ]


_PAGE: Final = """\
# Credit: the lifts shown for lessons that were selected by their lifts

**Limits.** In a library of lessons that all have the same effect, nearly every interval holds, which lifts the line
*all*. If most lessons have no effect and a few a large one, a normal prior is wrong and shrinks those few too far: see
the lines of +20, 0 and -20.

{lessons} lessons in each line (seed {seed}), each recalled alone, at 20 tasks of its own. The rule looks every {every}
recalls, withholds lessons that are shown to help from a quarter of the share, and retires those that are shown to
harm. Without the lesson, tasks that are *alike* are solved with chances from a beta(2, 2) distribution, *apart* from
beta(0.15, 0.15). Effects and lifts are points of success. A cell has the mean lift shown, the mean true effect of the
same lessons, and how many 95 % intervals hold it. *Declared*: at the look that first showed a lesson to help, which is
a stopping time. *In the end*: the lessons that are then shown to help. *Seen* is the plain difference; *shown* is
shrunk towards the mean effect in the library. *Few*: for a library with fewer than ten known lifts, shrunk towards 0
with a spread of 10. The last lines have 95 % Wilson intervals.

```
{command}
```
{minutes:.1f} minutes.

The tables are for {recalls} recalls; the JSON beside this page and the line *all* include the runs with fewer.

## Lessons that are shown to help

{selected}

## All lessons in the end, shown to help or not

{everything}

## Retired, by true effect

By design, at most 5 % of lessons without any effect are retired.

{retired}
"""
_HEADS: Final = (
    *("lessons", "tasks", "withheld", "recalls", "declared, seen", "declared, shown"),
    *("in the end, seen", "in the end, shown", "in the end, few"),
)


def rows_of(results: Mapping[Job, Sequence[Judged]], *, selected: bool) -> list[list[str]]:
    """Return a row for each job, and two for all together, over lessons shown to help or over all."""
    cells = {job: columns(lessons, selected=selected) for job, lessons in results.items()}
    rows = [
        [job.library, job.mix, f"{job.share:.0%}", str(job.recalls), *map(_told, found)]
        for job, found in cells.items()
    ]
    for name, those in (
        ("all", [*cells]),
        ("of libraries that differ", [j for j in cells if j.library != ALIKE]),
    ):
        shares = [
            (sum(each.held for each in column if each), sum(each.n for each in column if each))
            for column in zip(*(cells[job] for job in those), strict=True)
        ]
        rows.append(
            [name, "", "", "", *(counted_share(wilson(*each) if each[1] else None, 1) for each in shares)]
        )
    return rows


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
        for effect in sorted({each.effect for each in judged}):
            share = share_of(each.retired for each in judged if each.effect == effect)
            name = f"{100 * effect:+.0f}"
            rows.append(
                [job.library, job.mix, f"{job.share:.0%}", str(job.recalls), name, counted_share(share)]
            )
    return rows


@click.command()
@click.option("--lessons", type=click.IntRange(min=10), default=200, show_default=True, help="Of each line.")
@click.option("--seed", default=0, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@out_option("lessons_credit_coverage.md and .json")
def main(*, lessons: int, seed: int, workers: int, out: Path) -> None:
    """Play all libraries, and print and write the tables."""
    started = time.perf_counter()
    lines = product(EFFECTS, ("alike", "apart"), SHARES, RECALLS)
    jobs = [Job(*line, lessons, seed) for line in lines]
    with ProcessPoolExecutor(workers) as pool:
        results = dict(zip(jobs, pool.map(play, jobs), strict=True))
    found = {"selected": rows_of(results, selected=True), "everything": rows_of(results, selected=False)}
    most = str(RECALLS[-1])
    text = _PAGE.format(
        lessons=lessons,
        seed=seed,
        every=LOOK_EVERY,
        recalls=most,
        command=f"python -m benchmarks.lessons.credit_coverage --lessons {lessons} --seed {seed}",
        minutes=(time.perf_counter() - started) / 60,
        retired=table(
            (*_HEADS[:4], "effect", "retired"), [row for row in retired(results) if row[3] == most]
        ),
        selected=table(_HEADS, [row for row in found["selected"] if row[3] in ("", most)]),
        everything=table(("lessons", *_HEADS[6:]), [[row[0], *row[6:]] for row in found["everything"][-2:]]),
    )
    write_result(out, "lessons_credit_coverage", found, text)
    click.echo(text)


if __name__ == "__main__":
    main()
