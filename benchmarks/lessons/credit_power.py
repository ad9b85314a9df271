"""``python -m benchmarks.lessons.credit_power``: after how many recalls is the effect of a lesson detected?

The rule is the one that acts (:func:`~jeeves_reflexion.lessons.credit.effects.judge`, at every look), with and without
knowledge about the tasks. The page also says how often lessons without any effect are judged helpful or harmful.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import anyio
import click
import numpy as np

from benchmarks.lessons.credit_alfworld import WITHOUT, win_shares
from benchmarks.lessons.credit_play import MIXES, Chances, Mix, Numbers, Play, chances
from benchmarks.report import counted_share, out_option, share_of, table, write_result
from jeeves_reflexion.lessons.credit.effects import Withholding, judge

SHARES: Final = ((0.05, None), (0.1, None), (0.2, None), (0.5, None), (0.05, 0.5))
EFFECTS: Final = (0.05, 0.1, 0.2)
SKEWED: Final = {"nine in ten solved": Mix(spread=(9, 1)), "one in ten solved": Mix(spread=(1, 9))}
RULES: Final = {"apart from tasks": False, "by tasks": True}
NULL_RECALLS: Final = 1600
GAME_COUNT: Final = 24
ORDERS: Final = 6
RARER: Final = (("its own", "fourth", 4), ("planted", "other", 2))
GAMES: Final = "lessons_credit_alfworld.json"


@dataclass(frozen=True, slots=True)
class Job:
    """Lessons of one effect, recalled until both rules decide, or ``recalls`` times; ``games`` are real outcomes."""

    effect: float | str
    mix: str
    share: float
    early: float | None
    recalls: int
    lessons: int
    seed: int
    games: tuple[tuple[float, ...], tuple[float, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """By rule and lesson: the number of recalls until the verdict (above ``recalls``: none), and if it is "helps"."""

    at: dict[str, Numbers]
    helps: dict[str, Numbers]


def play(job: Job) -> Told:
    """Recall until both rules have decided on all lessons."""
    rng = np.random.default_rng([job.seed, *map(ord, f"{job.effect} {job.mix} {job.share} {job.early}")])
    mix = {**MIXES, **SKEWED}.get(job.mix, Mix())
    if job.games is None:
        given = chances(rng, mix, np.full(job.lessons, float(job.effect)))
    else:
        given = Chances(*(np.tile(np.array(each), (job.lessons, 1)) for each in job.games))
    played = Play(rng, given, Withholding(job.share, early=job.early), mix.tried)
    at = {rule: np.full(job.lessons, job.recalls + 1) for rule in RULES}
    helps = {rule: np.zeros(job.lessons, bool) for rule in RULES}
    nobody = np.zeros(job.lessons, bool)  # only the first verdict counts, so none changes the withheld share
    look = 20
    while played.recalls < job.recalls and any((each > job.recalls).any() for each in at.values()):
        while played.recalls < look:
            played.recall(nobody)
        for rule, by_tasks in RULES.items():
            for lesson in np.flatnonzero(at[rule] > job.recalls).tolist():
                kind = judge(played.cells(lesson, by_fifth=by_tasks)).kind
                if kind in ("helps", "retire"):
                    at[rule][lesson], helps[rule][lesson] = look, kind == "helps"
        look = min(max(look + 20, round(look * 1.05)), job.recalls)
    return Told(at, helps)


def until_half(at: Numbers, most: int) -> str:
    """Return after how many recalls half of the lessons have a verdict, with its 95 % interval by order statistics."""
    ordered, n = np.sort(at), len(at)
    reach = 0.98 * np.sqrt(n)
    places = [n // 2, max(int(n / 2 - reach), 0), min(int(n / 2 + reach), n - 1)]
    value, low, high = (f"{x:,}" if x <= most else f"over {most:,}" for x in ordered[places].tolist())
    return value if value == high else f"{value} ({low} to {high})"


def ratio(pooled: Numbers, alone: Numbers, most: int) -> str:
    """Return the ratio of recalls until half of the lessons have a verdict, with a bootstrap interval over lessons."""
    if np.median(alone) > most or np.median(pooled) > most:
        return "-"
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(alone), size=(1000, len(alone)))
    parts = np.median(pooled[drawn], axis=1) / np.median(alone[drawn], axis=1)
    low, high = np.quantile(parts, (0.025, 0.975))
    return f"{np.median(pooled) / np.median(alone):.0%} ({low:.0%} to {high:.0%})"


def _points(effect: float | str) -> str:
    return effect if isinstance(effect, str) else f"{100 * effect:+.0f}"


def _withheld(job: Job) -> str:
    return f"{job.share:.0%}" if job.early is None else f"{job.early:.0%} at first, then {job.share:.0%}"


def power_rows(results: dict[Job, Told]) -> list[list[str]]:
    """Return how many recalls each job took, by rule."""
    rows = []
    for job, told in results.items():
        alone, pooled = (told.at[rule] for rule in RULES)
        figures = [until_half(each, job.recalls) for each in told.at.values()]
        by = counted_share(share_of((pooled <= 800).tolist()))
        name = f"{_points(job.effect)} ({_true(job)})" if job.games else _points(job.effect)
        rows.append([name, _withheld(job), job.mix, *figures, ratio(pooled, alone, job.recalls), by])
    return rows


def _true(job: Job) -> str:
    without, having = job.games or ((), ())
    return f"{100 * float(np.mean(having) - np.mean(without)):+.0f}"


def error_rows(results: dict[Job, Told]) -> list[list[str]]:
    """Return how often lessons without any effect were judged helpful and harmful, by rule."""
    rows = []
    for job, told in results.items():
        kinds = [
            (told.at[rule] <= job.recalls) & (told.helps[rule] == helps)
            for rule in RULES
            for helps in (True, False)
        ]
        rows.append([job.mix, _withheld(job), *(counted_share(share_of(kind.tolist()), 1) for kind in kinds)])
    return rows


_PAGE: Final = """\
# Credit: how many recalls detect the effect of a lesson

**Limits.** The rule keeps a margin: if failures or successes are rare and few attempts lack the lesson, scores are too
skewed for a normal approximation. The recalls fall to a third only if tasks are far apart and were tried before, or if
few attempts lack the lesson; not if tasks are alike, not for effects that are found soon anyhow, and not on ALFWorld's
games (see *part*).

{lessons} lessons in each line (seed {seed}), each recalled alone at tasks drawn from its own 20 (or 100). The rule
looks after 20, 40, ... recalls, and from 400 on after each 5 % more. Told means that the rule that acts says "helps"
or "retire", by a bound that holds at every look. A cell says after how many recalls half of the lessons are told, with
its 95 % interval. A helpful lesson turns the same share of failures into successes at all its tasks, a harmful one
successes into failures. Without the lesson, tasks that are *alike* are solved with chances from a beta(2, 2)
distribution, *different* from beta(0.3, 0.3), *apart* from beta(0.15, 0.15), which means nearly always or never.

*Apart from tasks*: all attempts in one group. *By tasks* is the rule that acts: it compares attempts that were expected
to score alike, by earlier scores of the task (five strata). The error is the same for both. *Part* is the number of
recalls by tasks divided by that apart from tasks, with a bootstrap over lessons.

Two things were tried and are no longer in the tree: a mixture fitted to lessons of this size saved almost nothing, and
without the margin 6.7 % of lessons without any effect were retired where one in ten tries is solved (both at commit
d1f4dd75).

```
{command}
```
{minutes:.1f} minutes.

## By effect and share withheld

{power}

## By tasks

{mixes}

## On ALFWorld

Outcomes of the real engine: {games} genuine games (valid_seen, drawn by seed 0), 16 commands, the offline player in
{orders} search orders of each game, without a lesson and with one. Recalls are drawn from these: a random game, won
with the share of orders in which it was won. The lesson of a line differs for each game; *at every other game* means
that it has no effect at the others. The true effect is in brackets. `--games FOLDER` plays the games again.

{alfworld}

## Lessons without any effect

{null_lessons} in each line. Judged helpful, and retired, within {null_recalls:,} recalls; the rule promises at most 5 %
of each.

{errors}
"""


_HEADS: Final = ("effect", "withheld", "tasks", *RULES, "part", "by tasks, told by 800")


@click.command()
@click.option("--lessons", type=click.IntRange(min=10), default=200, show_default=True, help="Of each line.")
@click.option("--most", type=click.IntRange(min=100), default=12_800, show_default=True, help="Recalls.")
@click.option("--seed", default=0, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@click.option(
    "--games", type=click.Path(exists=True, path_type=Path), help="ALFWorld games, to play them again."
)
@out_option(f"lessons_credit_power.md and .json, and {GAMES}")
def main(*, lessons: int, most: int, seed: int, workers: int, games: Path | None, out: Path) -> None:
    """Play all lessons, and print and write the tables."""
    started = time.perf_counter()
    if games is not None:
        won = anyio.run(partial(win_shares, games, count=GAME_COUNT, orders=ORDERS, seed=0, workers=workers))
        out.mkdir(parents=True, exist_ok=True)
        (out / GAMES).write_text(json.dumps(won) + "\n", encoding="utf-8")
    played = _games(out / GAMES)
    played |= {
        f"{had}, at every {which} game": _at_some(played, had, step)
        for had, which, step in RARER
        if had in played
    }
    plan, null = (most, lessons, seed), (min(most, NULL_RECALLS), 5 * lessons, seed)
    jobs = {
        "power": [
            Job(effect, mix, share, early, *plan)
            for mix, effect, (share, early) in product(("alike", "apart"), EFFECTS, SHARES)
        ],
        "mixes": [
            Job(effect, mix, share, None, *plan)
            for mix, effect, share in product(MIXES, (0.1, -0.1), (0.05, 0.2))
        ],
        "alfworld": [
            Job(had, "ALFWorld", share, None, *plan, (played[WITHOUT], shares))
            for (had, shares), share in product(played.items(), (0.05, 0.2))
            if had != WITHOUT
        ],
        "errors": [
            Job(0.0, mix, share, None, *null)
            for mix, share in product(("alike", "apart", *SKEWED), (0.05, 0.2))
        ],
    }
    with ProcessPoolExecutor(workers) as pool:
        told = {part: dict(zip(each, pool.map(play, each), strict=True)) for part, each in jobs.items()}
    parts = {part: (error_rows if part == "errors" else power_rows)(each) for part, each in told.items()}
    null_heads = ("tasks", "withheld", *(f"{rule}: {what}" for rule in RULES for what in ("helps", "harms")))
    text = _PAGE.format(
        lessons=lessons,
        seed=seed,
        games=len(played.get(WITHOUT, ())),
        orders=ORDERS,
        command=f"python -m benchmarks.lessons.credit_power --lessons {lessons} --most {most} --seed {seed}",
        minutes=(time.perf_counter() - started) / 60,
        null_lessons=5 * lessons,
        null_recalls=null[0],
        errors=table(null_heads, parts["errors"]),
        **{part: table(_HEADS, parts[part]) for part in ("power", "mixes", "alfworld")},
    )
    write_result(out, "lessons_credit_power", parts, text)
    click.echo(text)


def _at_some(played: Mapping[str, tuple[float, ...]], had: str, step: int) -> tuple[float, ...]:
    """Return the win shares of a lesson that has an effect only at every ``step``-th game."""
    both = enumerate(zip(played[WITHOUT], played[had], strict=True))
    return tuple(having if game % step == 0 else without for game, (without, having) in both)


def _games(path: Path) -> dict[str, tuple[float, ...]]:
    if not path.exists():
        return {}
    return {had: tuple(shares) for had, shares in json.loads(path.read_text(encoding="utf-8")).items()}


if __name__ == "__main__":
    main()
