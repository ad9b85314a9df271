"""What the tries come to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.peers.arms import Arm
from benchmarks.peers.play import Own, Played
from benchmarks.vectorstores.measure import Figure, median
from jeeves_reflexion.experiments.comparisons import paired_difference
from jeeves_reflexion.statistics import Difference, Share, wilson


def of_arm(played: Sequence[Played], arm: Arm) -> list[Played]:
    """Return the lanes of an arm, one for each seed."""
    return [lane for lane in played if lane.arm.title == arm.title]


def solved_by(lanes: Sequence[Played], trial: int) -> dict[str, list[float]]:
    """Return for each game, by seed, whether it was won within ``trial`` attempts (1 or 0)."""
    found: dict[str, list[float]] = {}
    for lane in lanes:
        won = {each.task for each in lane.tries if each.won and each.number <= trial}
        for task in dict.fromkeys(each.task for each in lane.tries):
            found.setdefault(task, []).append(float(task in won))
    return found


def share_by(lanes: Sequence[Played], trial: int) -> Share:
    """Return the share of games won within ``trial`` attempts, seeds pooled."""
    each = [won for seeds in solved_by(lanes, trial).values() for won in seeds]
    return wilson(int(sum(each)), len(each))


def gain(first: Sequence[Played], second: Sequence[Played], trial: int) -> Difference:
    """Return by how much more games the second solves within ``trial`` attempts, paired by game."""
    return paired_difference(solved_by(first, trial), solved_by(second, trial))


@dataclass(frozen=True, slots=True)
class Recalls:
    """How good an arm's recalls were; shares are ``None`` where there was nothing to count.

    ``per_attempt`` is lessons in the block per attempt. ``same_kind`` and ``used`` are shares of the lessons recalled:
    from a game of the same kind, and read by the player as advice for this game. ``own`` is the share of second and
    later attempts that had a lesson of the very game.
    """

    per_attempt: float
    most: int
    same_kind: float | None
    used: float | None
    own: float | None


def recalls(lanes: Sequence[Played]) -> Recalls:
    """Count what was recalled in all attempts."""
    tries = [each for lane in lanes for each in lane.tries]
    recalled = sum(each.recalled for each in tries)
    later = [each for each in tries if each.number > 1]
    return Recalls(
        recalled / len(tries) if tries else 0.0,
        max((each.recalled for each in tries), default=0),
        _share(sum(each.same_kind for each in tries), recalled),
        _share(sum(each.used for each in tries), recalled),
        _share(sum(each.same_game > 0 for each in later), len(later)),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a framework's own, the median over games with its interval: per game; per attempt, wall and CPU."""

    game: Figure
    wall: Figure
    cpu: Figure


def times(played: Played) -> Times:
    """Return the own time of one lane."""
    game = median([each.seconds for each in played.own])
    return Times(game, median(per_attempt(played.own, cpu=False)), median(per_attempt(played.own, cpu=True)))


def per_attempt(own: Sequence[Own], *, cpu: bool) -> list[float]:
    """Return the seconds per attempt of each game."""
    return [(each.cpu if cpu else each.seconds) / each.attempts for each in own]


def ratio(ours: Played, theirs: Played, *, cpu: bool) -> Figure:
    """Return how many times the peer's time ours is: the median over games, which were played one beside the other."""
    pairs = zip(per_attempt(ours.own, cpu=cpu), per_attempt(theirs.own, cpu=cpu), strict=True)
    return median([a / b for a, b in pairs if b > 0])


def middle(values: Sequence[float | None]) -> float | None:
    """Return the median of what is known."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
