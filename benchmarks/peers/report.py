"""The comparison as JSON for machines and Markdown for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from benchmarks.overhead.report import machine
from benchmarks.peers import figures
from benchmarks.peers.arms import ARMS, OURS, PEER, Arm
from benchmarks.peers.play import Played
from benchmarks.peers.workarounds import Shown
from benchmarks.vectorstores.measure import Figure
from jeeves_reflexion.experiments.comparisons import in_words
from jeeves_reflexion.statistics import Difference, Share
from jeeves_reflexion.types import JSON

_ON_ALL: Final = (
    "Both sides play the same games with the same player, the engine's own verdict, lessons written by the same "
    "rules and the same vectors; what differs is how a framework tries again, keeps, finds and shows lessons. "
    "Each framework runs in a process of its own, and games come one after the other: a game sees the lessons of "
    "all before it. [The page on this comparison](../peers.md) says more."
)
_ON_LESSONS: Final = (
    "Lessons in the block of an attempt; of these, the share from a game of the same kind, and the share that "
    "told the player something about this game; and of all second and later attempts, those that had a lesson of "
    "the very game. The arm *block* runs its lessons into one line, which the player reads, and which counts as "
    "used, as one. Memory is that of the framework's process, the median of the seeds: after it was made ready, "
    "and at its highest."
)
_ON_TIME: Final = (
    "Without engine, player, reflector and embedder: all that a framework waits for is taken off. The arms play "
    "the games of the first seed once more, game by game in turn, in one run; the engine answers from memory "
    "then. Wall time per game and per attempt, CPU time per attempt: medians over games with 95 % bootstrap "
    "intervals; ratios of the same game, per attempt, ours over the peer's with the same kind of store. The "
    "peer's FAISS store is in memory, ours is on disk, and durable when a lesson is stored."
)
_ON_PROBES: Final = (
    "Each row is run anew by this command in the peer's process (`benchmarks/peers/probes.py`); *seen* is what "
    "came of it."
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that was found.

    ``timed`` are the lanes that took turns, ``seconds`` is how long the whole took, and ``engine`` is the seconds of an
    attempt that the engine was needed for, opening included.
    """

    played: Sequence[Played]
    timed: Sequence[Played]
    shown: Sequence[Shown]
    trials: int
    games: int
    seeds: Sequence[int]
    step_limit: int
    embedder: str
    command: str
    seconds: float
    engine: float

    @property
    def arms(self) -> list[Arm]:
        """The arms that were played, in their order."""
        return [arm for arm in ARMS if figures.of_arm(self.played, arm)]

    @property
    def reference(self) -> Arm:
        """The arm that the others are compared with: ours as it comes, with a store."""
        return next(arm for arm in self.arms if arm.name == "selective")

    def versions(self) -> dict[str, str]:
        """Return the versions of both sides."""
        return {lane.arm.side: lane.version for lane in self.played}

    def as_json(self) -> dict[str, JSON]:
        """Return everything but the single tries."""
        return {
            "versions": self.versions(),
            "machine": machine(),
            "command": self.command,
            "games": self.games,
            "seeds": list(self.seeds),
            "trials": self.trials,
            "step_limit": self.step_limit,
            "embedder": self.embedder,
            "seconds": round(self.seconds, 1),
            "engine_seconds_per_attempt": round(self.engine, 4),
            "arms": [self._arm(arm) for arm in self.arms],
            "own_time": [self._time(lane) for lane in self.timed],
            "workarounds": [
                {**asdict(each.row), "seen": each.seen, "holds": each.holds} for each in self.shown
            ],
        }

    def _arm(self, arm: Arm) -> dict[str, JSON]:
        lanes = figures.of_arm(self.played, arm)
        reference = figures.of_arm(self.played, self.reference)
        return {
            "side": arm.side,
            "name": arm.name,
            "solved": [_share(figures.share_by(lanes, trial)) for trial in range(1, self.trials + 1)],
            "minus_reference": [
                _difference(figures.gain(reference, lanes, trial)) for trial in range(1, self.trials + 1)
            ],
            "attempts": sum(len(lane.tries) for lane in lanes),
            "attempts_cut_by_the_framework": sum(lane.cut for lane in lanes),
            "lessons_written": sum(lane.written for lane in lanes),
            "lessons_kept": [lane.kept for lane in lanes],
            "recalls": asdict(figures.recalls(lanes)),
            "lines_of_unknown_source": sum(lane.unknown for lane in lanes),
            "memory_mb": [dict(lane.memory) for lane in lanes],
        }

    def _time(self, lane: Played) -> dict[str, JSON]:
        found = figures.times(lane)
        return {
            "side": lane.arm.side,
            "name": lane.arm.name,
            "wall_per_game": _figure(found.game),
            "wall_per_attempt": _figure(found.wall),
            "cpu_per_attempt": _figure(found.cpu),
            "wall_over_peer": _maybe(self._ratio(lane, cpu=False)),
            "cpu_over_peer": _maybe(self._ratio(lane, cpu=True)),
            "memory_mb": dict(lane.memory),
        }

    def _ratio(self, lane: Played, *, cpu: bool) -> Figure | None:
        """Ours over the peer's with the same kind of store."""
        theirs = [
            other for other in self.timed if (other.arm.side, other.arm.store) == (PEER, lane.arm.store)
        ]
        return figures.ratio(lane, theirs[0], cpu=cpu) if lane.arm.side == OURS and theirs else None

    # -- the page ------------------------------------------------------------------------------------------------

    def as_markdown(self) -> str:
        """Return it as a page."""
        parts = [
            self._head(),
            self._success(),
            self._differences(),
            self._recalls(),
            self._own_time(),
            self._around(),
        ]
        return "\n\n".join(parts) + "\n"

    def _head(self) -> str:
        versions = " and ".join(f"{side} {version}" for side, version in self.versions().items())
        return (
            "# The same games through two Reflexions\n\n"
            f"{versions}, {self.games} ALFWorld games x {len(self.seeds)} player seeds, {self.trials} attempts a game, "
            f"{self.step_limit} commands an attempt, at most 3 lessons read. {_ON_ALL}\n\n"
            f"```\n{self.command}\n```\n\n{self.seconds / 60:.1f} minutes on {machine()}."
        )

    def _success(self) -> str:
        numbers = range(1, self.trials + 1)
        return "\n".join(
            [
                "## Games solved so far, by trial",
                "",
                "95 % Wilson intervals; the seeds share the games, so they are somewhat too narrow.",
                "",
                *_header([f"trial {n}" for n in numbers]),
                *(self._success_row(arm) for arm in self.arms),
                "",
                *(f"- {arm.side}, **{arm.name}**: {arm.what}." for arm in self.arms),
            ]
        )

    def _success_row(self, arm: Arm) -> str:
        lanes = figures.of_arm(self.played, arm)
        cells = [_cell(figures.share_by(lanes, trial)) for trial in range(1, self.trials + 1)]
        return f"| {arm.side} | {arm.name} | " + " | ".join(cells) + " |"

    def _differences(self) -> str:
        reference = figures.of_arm(self.played, self.reference)
        shown = sorted({1, min(2, self.trials), self.trials})
        lines = [
            f"## Beside {self.reference.title}",
            "",
            "Points of success within so many attempts, paired by game, 95 % interval (sign flips over games).",
            "",
            *_header([f"within {n}" for n in shown]),
        ]
        for arm in self.arms:
            if arm == self.reference:
                continue
            lanes = figures.of_arm(self.played, arm)
            cells = [in_words(figures.gain(reference, lanes, trial), self.games) for trial in shown]
            lines.append(f"| {arm.side} | {arm.name} | " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def _recalls(self) -> str:
        lines = [
            "## Lessons",
            "",
            _ON_LESSONS,
            "",
            *_header(
                ("attempts", "written", "kept", "an attempt (most)", "same kind", "used", "own game"),
                ("MB ready", "MB peak"),
            ),
        ]
        for arm in self.arms:
            lanes = figures.of_arm(self.played, arm)
            found = figures.recalls(lanes)
            kept = [lane.kept for lane in lanes if lane.kept is not None]
            row = [
                arm.side,
                arm.name,
                f"{sum(len(lane.tries) for lane in lanes):,}",
                f"{sum(lane.written for lane in lanes):,}",
                f"{sum(kept):,}" if kept else "",
                f"{found.per_attempt:.1f} ({found.most})",
                *(_percent(value) for value in (found.same_kind, found.used, found.own)),
                *(
                    _mb(figures.middle([lane.memory.get(name) for lane in lanes]))
                    for name in ("ready", "peak")
                ),
            ]
            lines.append("| " + " | ".join(row) + " |")
        cut = sum(lane.cut for lane in self.played)
        if cut:
            lines += [
                "",
                f"{cut} attempts of the arm *block* were cut by the peer's limit of turns in their middle.",
            ]
        return "\n".join(lines)

    def _own_time(self) -> str:
        lines = [
            "## A framework's own time",
            "",
            _ON_TIME,
            "",
            *_header(
                ("a game, ms", "an attempt, ms", "CPU, ms"),
                ("wall, ours : peer", "CPU, ours : peer", "MB peak"),
            ),
        ]
        for lane in self.timed:
            found = figures.times(lane)
            ratios = [self._ratio(lane, cpu=cpu) for cpu in (False, True)]
            lines.append(
                f"| {lane.arm.side} | {lane.arm.name} | "
                + " | ".join(_spread(each, 1e3) for each in (found.game, found.wall, found.cpu))
                + " | "
                + " | ".join(_spread(each) if each else "" for each in ratios)
                + f" | {_mb(lane.memory.get('peak'))} |"
            )
        lines += ["", f"For scale: the engine takes {self.engine * 1e3:.0f} ms for an attempt (mean)."]
        return "\n".join(lines)

    def _around(self) -> str:
        lines = [
            "## What had to be worked around",
            "",
            _ON_PROBES,
            "",
            "| in the peer | seen | here |",
            "| --- | --- | --- |",
        ]
        for each in self.shown:
            seen = each.seen.replace("|", "\\|")
            note = "" if each.holds else " **Not so in this version.**"
            lines.append(f"| {each.row.what}.{note} | {seen} | {each.row.here} |")
        return "\n".join(lines)


def _header(*columns: Sequence[str]) -> list[str]:
    names = ["side", "arm", *(name for group in columns for name in group)]
    return [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]


def _cell(share: Share) -> str:
    return f"{share.successes}/{share.n} = {share.value:.0%} ({share.low:.0%} to {share.high:.0%})"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _mb(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _spread(figure: Figure, scale: float = 1.0) -> str:
    middle, low, high = (f"{scale * value:.2f}" for value in (figure.value, figure.low, figure.high))
    return f"{middle} ({low} to {high})"


def _share(share: Share) -> dict[str, JSON]:
    return {"solved": share.successes, "n": share.n, "low": round(share.low, 4), "high": round(share.high, 4)}


def _difference(found: Difference) -> dict[str, JSON]:
    return {name: round(value, 4) for name, value in asdict(found).items()}


def _figure(found: Figure) -> dict[str, JSON]:
    return {"median": found.value, "low": found.low, "high": found.high}


def _maybe(found: Figure | None) -> JSON:
    return None if found is None else _figure(found)
