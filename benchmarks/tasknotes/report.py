"""The table of the benchmark: success by run, per kind of task, with notes on and off."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report import counted_share, points, share_of
from benchmarks.report import table as markdown
from benchmarks.tasknotes.play import ARMS, Played
from jeeves_reflexion.statistics import difference

ALL = "all kinds"


def table(played: Sequence[Played]) -> str:
    """Return a Markdown table of the games won in each run, with 95 % Wilson intervals.

    The last column is how much more of the last run's games were won with notes, with its interval (Newcombe). Seeds
    are pooled: they share the games, so the intervals are somewhat narrower than those of different games.
    """
    runs = sorted({each.run for each in played})
    rows = []
    for kind in [*sorted({each.kind for each in played}), ALL]:
        mine = [each for each in played if kind in (ALL, each.kind)]
        for arm in ARMS:
            won = [share_of(e.won for e in mine if (e.arm, e.run) == (arm, run)) for run in runs]
            gain = _gain(mine, runs[-1]) if arm == "on" else ""
            rows.append([kind, arm, *map(counted_share, won), gain])
    heads = ["kind", "notes", *(f"run {run}" for run in runs), f"on - off in run {runs[-1]}"]
    return markdown(heads, rows)


def _gain(played: Sequence[Played], run: int) -> str:
    off, on = ([float(each.won) for each in played if (each.arm, each.run) == (arm, run)] for arm in ARMS)
    return points(difference(off, on), 0)
