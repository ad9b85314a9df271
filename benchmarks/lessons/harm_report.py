"""The tables of the harm benchmark: success by arm, and what planted lessons cost, with intervals."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.lessons.harm_play import ARMS, Arm, Library, Played
from jeeves_reflexion.statistics import wilson

_LABEL: Final[Mapping[Arm, str]] = {
    "clean": "true lessons only",
    "planted": "planted lessons, no credit",
    "credit": "planted lessons, credit",
}
_RESAMPLES: Final = 2000
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Costs:
    """Mean success by arm of one part of the rounds, game by game."""

    games: tuple[Mapping[Arm, float], ...]

    def cost(self, arm: Arm) -> float:
        """By how much an arm does worse than the clean one."""
        return sum(each["clean"] - each[arm] for each in self.games) / len(self.games)

    @property
    def ratio(self) -> float:
        """The cost with credit as a share of that without."""
        without = self.cost("planted")
        return self.cost("credit") / without if without > 0 else math.inf

    def resampled(self, rng: random.Random) -> Costs:
        """Return the costs of as many games, drawn from these with replacement."""
        return Costs(tuple(rng.choices(self.games, k=len(self.games))))


def tables(played: Sequence[Played], libraries: Sequence[Library]) -> str:
    """Return success by arm and part of the rounds, the costs, and what became of the lessons."""
    rounds = 1 + max(each.round for each in played)
    spans = [range(rounds * part // _PARTS, rounds * (part + 1) // _PARTS) for part in range(_PARTS)]
    spans = [span for span in spans if span]
    whole = [*spans, range(rounds)]
    heads = [f"rounds {span.start + 1} to {span.stop}" for span in spans] + ["all"]
    lines = [_row("games won", *heads), "| --- " * (1 + len(heads)) + "|"]
    lines += [_row(_LABEL[arm], *(_won(played, arm, span) for span in whole)) for arm in ARMS]
    costs = [_costs(played, span) for span in whole]
    lines += [
        _row("cost without credit", *(_points(each, lambda c: c.cost("planted")) for each in costs)),
        _row("cost with credit", *(_points(each, lambda c: c.cost("credit")) for each in costs)),
        _row("with, of without", *(_ratio(each) for each in costs)),
        "",
        _row("seed", "true lessons", "of them retired", "planted lessons", "of them retired"),
        "| --- " * 5 + "|",
    ]
    lines += [
        _row(
            str(each.seed),
            str(each.true),
            str(each.true_retired),
            str(each.planted),
            str(each.planted_retired),
        )
        for each in libraries
    ]
    return "\n".join(lines)


def _costs(played: Sequence[Played], span: range) -> Costs:
    # A game is a cluster: its rounds and seeds are no independent games.
    won: dict[str, dict[Arm, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for each in played:
        if each.round in span:
            won[each.game][each.arm].append(each.won)
    return Costs(
        tuple({arm: sum(found) / len(found) for arm, found in by_arm.items()} for by_arm in won.values())
    )


def _interval(costs: Costs, figure: Callable[[Costs], float]) -> tuple[float, float]:
    rng = random.Random(0)
    found = sorted(figure(costs.resampled(rng)) for _ in range(_RESAMPLES))
    return found[int(0.025 * _RESAMPLES)], found[int(0.975 * _RESAMPLES) - 1]


def _points(costs: Costs, figure: Callable[[Costs], float]) -> str:
    low, high = _interval(costs, figure)
    return f"{100 * figure(costs):+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"


def _ratio(costs: Costs) -> str:
    low, high = _interval(costs, lambda each: each.ratio)
    return f"{costs.ratio:.0%} ({low:.0%} to {high:.0%})"


def _won(played: Sequence[Played], arm: Arm, span: range) -> str:
    won = [each.won for each in played if each.arm == arm and each.round in span]
    share = wilson(sum(won), len(won))
    return f"{share.successes}/{share.n} = {share.value:.1%}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
