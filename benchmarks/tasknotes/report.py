"""The table of the benchmark: success by run, per kind of task, with notes on and off."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.tasknotes.play import ARMS, Played
from jeeves_reflexion.statistics import difference, wilson

ALL = "all kinds"


def table(played: Sequence[Played]) -> str:
    """Return a Markdown table of the games won in each run, with 95 % Wilson intervals.

    The last column is how much more of the last run's games were won with notes, with its interval (Newcombe). Seeds
    are pooled: they share the games, so the intervals are somewhat narrower than those of different games.
    """
    runs = sorted({each.run for each in played})
    lines = [
        "| kind | notes | " + " | ".join(f"run {run}" for run in runs) + f" | on - off in run {runs[-1]} |",
        "| --- " * (len(runs) + 3) + "|",
    ]
    for kind in [*sorted({each.kind for each in played}), ALL]:
        mine = [each for each in played if kind in (ALL, each.kind)]
        for arm in ARMS:
            cells = [_share([e.won for e in mine if (e.arm, e.run) == (arm, run)]) for run in runs]
            gain = _gain(mine, runs[-1]) if arm == "on" else ""
            lines.append(f"| {kind} | {arm} | {' | '.join(cells)} | {gain} |")
    return "\n".join(lines)


def _share(won: Sequence[bool]) -> str:
    share = wilson(sum(won), len(won))
    return f"{share.successes}/{share.n} = {share.value:.0%} ({share.low:.0%} to {share.high:.0%})"


def _gain(played: Sequence[Played], run: int) -> str:
    off, on = ([float(each.won) for each in played if (each.arm, each.run) == (arm, run)] for arm in ARMS)
    gain = difference(off, on)
    return f"{100 * gain.value:+.0f} points ({100 * gain.low:+.0f} to {100 * gain.high:+.0f})"
