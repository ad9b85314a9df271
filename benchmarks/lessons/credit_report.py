"""The tables of the credit simulation, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.lessons.credit_play import LOOK_EVERY, Arm, K, Run, Shares, Watched
from benchmarks.lessons.credit_rule import RECALLS, Soon
from benchmarks.lessons.credit_world import EFFECT, KINDS, Kind
from jeeves_reflexion.lessons.credit.effects import MIN_EACH, RETIRE_ERROR
from jeeves_reflexion.statistics import Mean, difference_of_means, wilson
from jeeves_reflexion.types import Lift

_AFTER: Final = (50, 100, 200, 400)
_AFTER_ALONE: Final = (50, 100, 200, 400, 800, 1600)
_LABEL: Final[dict[Arm, str]] = {
    "none": "no credit",
    "oracle": "oracle",
    "measure": "withheld, nothing done",
    "retire": "retired only",
    "rank": "retired and ranked",
}


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of an attempt's ledger work in memory and on disk, over ``attempts``; ``same`` results or not."""

    attempts: int
    memory: float
    disk: float
    same: bool


_PAGE: Final = """\
# Credit: does it tell helpful, useless and harmful lessons apart?

{lessons} lessons in topics of ten (20 % change the chance of success by {effect:+.1f}, 60 % by 0, 20 % by
-{effect:.1f}), tasks that are solved without lessons in 25 to 75 of 100 tries, {attempts} attempts in each of {worlds}
worlds (seeds {seeds}), k = {k}. Recalls and outcomes go through the real ledger, which is looked at every {every}
attempts. Shares with 95 % Wilson intervals, differences with Newcombe's.

```
{command}
```
{minutes:.0f} minutes.

## Are the intervals what they say?

First where nothing is done about what is found, then under the rule that acts on it (retired and ranked; what is shown
to help is withheld by a quarter of the share, and a retired lesson stays as it was found). *Early*: the share of a
lesson of which nothing is known, which is halved the more is known, down to the other. *Held, as seen*: at the end the
95 % interval of the plain difference holds the lesson's true mean effect. *Held, as shown*: that of the shrunken lift,
which is what is shown, does; also of the lessons that are shown to help at the end, with their mean lift as shown and
the true one. More on those:
[lessons_credit_coverage.md](lessons_credit_coverage.md).

{coverage}

Where nothing is done: *missed at some look*: the interval of the plain difference, made for one look, did not hold the
truth at least once. *Retired*: by the rule, looked at again and again; of lessons without any effect it retires at most
{error:.0%}, by design. *By the interval for one look*: those that would be retired as soon as that interval lies below
zero.

{calibration}

## How soon is a harmful lesson retired?

After so many recalls in which it would have been offered. Below {least} scored attempts with and {least} without,
nothing is claimed. First the rule alone, {each} lessons of each kind, each recalled {recalls} times by itself:

{soon}

Then in the worlds, of the lessons that were recalled so often:

{retired}

## What is it worth?

Attempts solved. The oracle knows what each lesson does. What withholding costs is in the figures.

{success}

## The library as a whole

A fifth of the share withheld goes to whole recalls. The lift of recalling at all by
the ledger, and the true one of those attempts.

{library}

## Time

Ledger work of one attempt (recall, outcome, and its part of reading the credits every {every} attempts), over
{timed} attempts: {memory:.2f} ms with a store in memory, {disk:.2f} ms with FAISS on disk, whose results are {same}.
"""


def report(runs: Sequence[Run], soon: Sequence[Soon], timing: Timing, *, command: str, seconds: float) -> str:
    """Return the whole page."""
    one = next(run for run in runs if run.arm == "none")
    seeds = sorted({run.seed for run in runs})
    return _PAGE.format(
        lessons=len(one.watched),
        effect=EFFECT["helpful"],
        attempts=len(one.solved),
        worlds=len(seeds),
        seeds=", ".join(map(str, seeds)),
        k=K,
        every=LOOK_EVERY,
        command=command,
        minutes=seconds / 60,
        error=RETIRE_ERROR,
        coverage=_coverage(runs),
        calibration=_calibration(runs),
        least=MIN_EACH,
        each=len(soon[0].retired_at),
        recalls=RECALLS,
        soon=_soon(soon),
        retired=_retired(runs),
        success=_success(runs),
        library=_library(runs),
        timed=timing.attempts,
        memory=1e3 * timing.memory,
        disk=1e3 * timing.disk,
        same="the same" if timing.same else "NOT THE SAME",
    )


def _calibration(runs: Sequence[Run]) -> str:
    lines = [
        _row(
            "share withheld",
            "lessons with data",
            "missed at some look",
            "useless: retired",
            "useless: by the interval for one look",
            "helpful: retired",
        ),
        "| --- " * 6 + "|",
    ]
    for shares, watched in _by_shares(runs, "measure"):
        known = [each for each in watched if each.seen.value is not None]
        useless, helpful = (_of(watched, kind) for kind in ("useless", "helpful"))
        cells = [
            _share(each.missed for each in known),
            _share(each.retired_at is not None for each in useless),
            _share(each.naive_at is not None for each in useless),
            _share(each.retired_at is not None for each in helpful),
        ]
        lines.append(f"| {shares} | {len(known)} of {len(watched)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _coverage(runs: Sequence[Run]) -> str:
    heads = (
        "rule",
        "share withheld",
        "held, as seen",
        "held, as shown",
        "shown to help: held",
        "shown, true",
    )
    lines = [_row(*heads), "| --- " * len(heads) + "|"]
    for arm in ("measure", "rank"):
        for shares, watched in _by_shares(runs, arm):
            known = [each for each in watched if each.lift.value is not None]
            helps = [each for each in known if each.helps]
            cells = [
                _share(_holds(each, each.seen) for each in known),
                _share(_holds(each, each.lift) for each in known),
                _share(_holds(each, each.lift) for each in helps),
                _points(helps),
            ]
            lines.append(_row(_LABEL[arm], str(shares), *cells))
    return "\n".join(lines)


def _points(watched: Sequence[Watched]) -> str:
    if not watched:
        return ""
    shown = sum(each.lift.value or 0.0 for each in watched) / len(watched)
    true = sum(each.true_lift for each in watched) / len(watched)
    return f"{100 * shown:+.1f}, {100 * true:+.1f}"


def _holds(each: Watched, lift: Lift) -> bool:
    return lift.low is not None and lift.high is not None and lift.low <= each.true_lift <= lift.high


def _retired(runs: Sequence[Run]) -> str:
    heads = " | ".join(f"after {n}" for n in _AFTER)
    lines = [f"| share withheld | lessons | {heads} |", "| --- " * (2 + len(_AFTER)) + "|"]
    for shares, watched in _by_shares(runs, "measure"):
        for kind in reversed(KINDS):
            cells = []
            for n in _AFTER:
                reached = [each for each in _of(watched, kind) if each.eligible >= n]
                cells.append(_share(each.retired_at is not None and each.retired_at <= n for each in reached))
            lines.append(f"| {shares} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _soon(soon: Sequence[Soon]) -> str:
    heads = " | ".join(f"after {n}" for n in _AFTER_ALONE)
    lines = [f"| share withheld | lessons | {heads} |", "| --- " * (2 + len(_AFTER_ALONE)) + "|"]
    for each in sorted(soon, key=lambda s: (s.shares, EFFECT[s.kind])):
        cells = [_share(at is not None and at <= n for at in each.retired_at) for n in _AFTER_ALONE]
        lines.append(_row(str(each.shares), each.kind, *cells))
    return "\n".join(lines)


def _success(runs: Sequence[Run]) -> str:
    lines = [
        _row(
            "arm",
            "share withheld",
            "solved",
            "in the last quarter",
            "lost there against the oracle",
            "of no credit's",
        ),
        "| --- " * 6 + "|",
    ]
    best, worst = (_mean_of(runs, arm, Shares(), 0.25) for arm in ("oracle", "none"))
    for arm, shares in sorted(
        {(run.arm, run.shares) for run in runs}, key=lambda each: (_ORDER[each[0]], each[1])
    ):
        late = _mean_of(runs, arm, shares, 0.25)
        lost = difference_of_means(late, best)
        part = lost.value / (best.value - worst.value) if best.value > worst.value else float("nan")
        lines.append(
            f"| {_LABEL[arm]} | {shares if shares.share else ''} | {_mean_of(runs, arm, shares, 1.0).value:.1%} |"
            f" {late.value:.1%} | {100 * lost.value:.1f} points ({100 * lost.low:.1f} to {100 * lost.high:.1f}) |"
            f" {part:.0%} |"
        )
    return "\n".join(lines)


_ORDER: Final[dict[Arm, int]] = {"oracle": 0, "none": 1, "measure": 2, "retire": 3, "rank": 4}


def _mean_of(runs: Sequence[Run], arm: Arm, shares: Shares, last: float) -> Mean:
    solved = [
        each
        for run in runs
        if (run.arm, run.shares) == (arm, shares)
        for each in run.solved[-int(len(run.solved) * last) :]
    ]
    return Mean(sum(solved) / len(solved), len(solved))


def _library(runs: Sequence[Run]) -> str:
    lines = ["| arm | share withheld | seed | by the ledger | true |", "| --- " * 5 + "|"]
    for run in runs:
        lift = run.library
        if lift.value is None or lift.low is None or lift.high is None:
            continue
        interval = f"{100 * lift.low:+.1f} to {100 * lift.high:+.1f}"
        found = f"{100 * lift.value:+.1f} points ({interval}; {lift.n_with} with, {lift.n_without} without)"
        true = f"{100 * run.library_truth:+.1f}"
        lines.append(_row(_LABEL[run.arm], str(run.shares), str(run.seed), found, true))
    return "\n".join(lines)


def _by_shares(runs: Sequence[Run], arm: Arm) -> list[tuple[Shares, list[Watched]]]:
    mine = [run for run in runs if run.arm == arm]
    return [
        (shares, [each for run in mine if run.shares == shares for each in run.watched.values()])
        for shares in sorted({run.shares for run in mine})
    ]


def _of(watched: Iterable[Watched], kind: Kind) -> list[Watched]:
    return [each for each in watched if each.taught.kind == kind]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _share(flags: Iterable[bool]) -> str:
    found = list(flags)
    if not found:
        return "none"
    share = wilson(sum(found), len(found))
    return f"{share.successes}/{share.n} = {share.value:.0%} ({share.low:.0%} to {share.high:.0%})"
