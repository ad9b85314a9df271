"""The measurement as JSON for machines and Markdown for people."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from benchmarks.overhead.measure import Memory, Speed
from jeeves_reflexion.types import JSON

GOAL = 2.0
"""How many times the peer's attempts per second ours should be, lessons off."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that was measured. ``versions`` are by side, ours first; ``missing`` says why there is no peer."""

    versions: Mapping[str, str]
    runs: int
    speeds: Sequence[Speed]
    memories: Sequence[Memory]
    missing: str = ""

    def as_json(self) -> dict[str, JSON]:
        """Return it as JSON, each repetition's rate included."""
        return {
            "versions": dict(self.versions),
            "machine": machine(),
            "runs_per_repetition": self.runs,
            "goal": GOAL,
            "missing": self.missing,
            "cases": [self._case(speed) for speed in self.speeds],
            "memory": [asdict(memory) for memory in self.memories],
        }

    def _case(self, speed: Speed) -> dict[str, JSON]:
        return {
            "name": speed.case.name,
            "title": speed.case.title,
            "attempts_per_run": speed.case.attempts,
            "model_calls_per_run": {name: seen.model_calls for name, seen in speed.observed.items()},
            "attempts_per_second": {name: list(rates) for name, rates in speed.rates.items()},
            "median": {name: speed.median(name) for name in speed.rates},
            "ratio": statistics.median(self._ratios(speed)) if len(self.versions) > 1 else None,
        }

    def _ratios(self, speed: Speed) -> tuple[float, ...]:
        ours, peer = self.versions
        return speed.ratios(ours, peer)

    def as_markdown(self) -> str:
        """Return it as a page."""
        repetitions = len(next(iter(self.speeds[0].rates.values())))
        lines = [
            "# Loop overhead",
            "",
            (
                f"Measured by `python -m benchmarks.overhead` on {machine()}: {repetitions} repetitions of {self.runs} "
                "runs each, the sides taking turns in one process. The model answers at once with a fixed text; every "
                "attempt is judged by it (`score: 0.1`) and fails. Each run has an agent of its own with an empty "
                "memory, set up before the clock starts. Median, and in brackets the smallest and the largest."
            ),
            "",
            "| work | side | model calls per run | attempts per second | ours : peer |",
            "| --- | --- | --- | --- | --- |",
            *(line for speed in self.speeds for line in self._rows(speed)),
            "",
            (
                f"The goal is {GOAL:g} times the peer's attempts per second with lessons off. The peer does not learn "
                "from a run's last attempt, hence its one call less."
            ),
            "",
            (
                "Memory that stays allocated for each run of one agent, lessons off (`tracemalloc`; in the first half "
                "caches still fill):"
            ),
            "",
            "| side | runs | bytes per run, first half | bytes per run, second half |",
            "| --- | --- | --- | --- |",
            *(f"| {m.side} | {m.runs} | {m.first_half:.0f} | {m.second_half:.0f} |" for m in self.memories),
        ]
        if len(self.versions) > 1:
            lines += ["", "The peer keeps every run as an episode of its agent's memory."]
        if self.missing:
            lines += ["", f"Ours alone: {self.missing}."]
        return "\n".join(lines) + "\n"

    def _rows(self, speed: Speed) -> list[str]:
        rows = []
        for place, (name, rates) in enumerate(speed.rates.items()):
            ratio = _spread(self._ratios(speed), 2) if place == 0 and len(self.versions) > 1 else ""
            title = speed.case.title if place == 0 else ""
            calls = speed.observed[name].model_calls
            rows.append(
                f"| {title} | {name} {self.versions[name]} | {calls} | {_spread(rates, 0)} | {ratio} |"
            )
        return rows


def machine() -> str:
    """Describe the machine in a few words."""
    return f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"


def _spread(values: Sequence[float], digits: int) -> str:
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
