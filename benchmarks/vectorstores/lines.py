"""A run's settings and lines, and its page and JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal

from benchmarks.report import machine, table
from benchmarks.timing import Figure, differences, median, ratios
from benchmarks.vectorstores.vectors import DIM, MEMBERS
from jeeves_reflexion.types import JSON


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes and repetitions of a run; ``width`` is the number of concurrent calls."""

    small: tuple[int, ...] = (1_000, 10_000)
    large: tuple[int, ...] = (100_000,)
    postgres: tuple[int, ...] = (10_000, 100_000)
    repetitions: int = 15
    calls: int = 40
    queries: int = 200
    width: int = 32
    quiet: float = 1.0


QUICK: Final = Settings((300,), (6_000,), (600,), repetitions=2, calls=4, queries=20, quiet=0.1)
"""Takes seconds; the figures say little, but every line is measured."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: a figure in ``unit`` (none for a share), and its bound, if any.

    ``ours`` and ``beside`` are the milliseconds of the calls whose ratio or difference the figure is.
    """

    store: str
    what: str
    found: Figure
    unit: str = ""
    ours: Figure | None = None
    beside: Figure | None = None
    against: str = ""
    note: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the bound holds; None if there is none."""
        if self.at_most is None and self.at_least is None:
            return None
        over = self.at_most is not None and self.found.value > self.at_most
        return not over and (self.at_least is None or self.found.value >= self.at_least)

    @property
    def bound(self) -> str:
        """The bound in words."""
        if self.at_most is not None:
            return f"at most {self.at_most:g} {self.unit}".strip()
        return "" if self.at_least is None else f"at least {self.at_least:g} {self.unit}".strip()

    @property
    def verdict(self) -> str:
        """Whether the bound holds, in a word."""
        return {True: "yes", False: "**no**", None: ""}[self.met]


def text(figure: Figure, unit: str) -> str:
    """Write a figure with its unit and, if it was measured more than once, its interval."""

    def digits(value: float) -> str:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if unit else f"{value:.4f}"

    spread = f" ({digits(figure.low)} to {digits(figure.high)})" if len(figure.each) > 1 else ""
    return f"{digits(figure.value)} {unit}".rstrip() + spread


def milliseconds(seconds: Sequence[float]) -> list[float]:
    """Return seconds as milliseconds."""
    return [1e3 * each for each in seconds]


@dataclass(slots=True)
class Run:
    """One run: its settings, its scratch folder, and its lines so far."""

    settings: Settings
    folder: Path
    command: str
    say: Callable[[str], None]
    lines: list[Line] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Keep a line and show it."""
        self.lines.append(line)
        self.say(f"{line.store}: {line.what}: {text(line.found, line.unit)} {line.verdict}")

    def compare(
        self,
        name: tuple[str, str],
        sides: tuple[Sequence[float], Sequence[float]],
        against: str,
        kind: Literal["times", "times faster", "difference"],
        bound: float,
        note: str = "",
    ) -> None:
        """Add a line with this store and name, given the seconds of a call on our side and beside it.

        ``bound`` is the least factor for "times faster", and the highest factor or milliseconds otherwise.
        """
        ours, beside = map(milliseconds, sides)
        faster = kind == "times faster"
        if kind == "difference":
            found = differences(ours, beside)
        else:
            found = ratios(beside, ours) if faster else ratios(ours, beside)
        line = Line(
            *name,
            found,
            "ms" if kind == "difference" else "times",
            median(ours),
            median(beside),
            against,
            note="; ".join(each for each in (kind, note) if each and each != "times"),
            at_most=None if faster else bound,
            at_least=bound if faster else None,
        )
        self.add(line)


def figures(run: Run) -> dict[str, JSON]:
    """Return a run as JSON, including the value of each repetition."""
    return {
        "command": run.command,
        "machine": _machine(),
        "versions": dict(run.versions),
        "settings": asdict(run.settings),
        "lines": [{**asdict(line), "met": line.met} for line in run.lines],
    }


def page(run: Run) -> str:
    """Return a run as a section of a page."""
    times, judged = run.settings, [line.met for line in run.lines if line.met is not None]
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    rows = [
        (
            line.store,
            line.what,
            "" if line.ours is None else text(line.ours, "ms"),
            "" if line.beside is None else f"{text(line.beside, 'ms')} ({line.against})",
            text(line.found, line.unit) + (f"; {line.note}" if line.note else ""),
            line.bound,
            line.verdict,
        )
        for line in run.lines
    ]
    return f"""## The stores beside bare engines

Measured by `{run.command}` on {_machine()}. Vectors are of dimension {DIM}, in clusters of about {MEMBERS} around
random centres, with metadata like that of lessons. All sides of a line take turns in one run: {times.repetitions}
repetitions of {times.calls} calls each. A time is the median over the repetitions of their median, with a 95 %
bootstrap interval. A ratio compares neighbours in time. {sum(judged)} of {len(judged)} bounds are met.

{table(["store", "what", "ours", "beside it", "found", "bound", "met"], rows)}

Versions: {versions}.
"""


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{machine()}, {memory:.0f} GB"
