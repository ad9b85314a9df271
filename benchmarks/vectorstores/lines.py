"""What a run finds: lines of the table, each with its bound, and the run's settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from benchmarks.timing import Figure, Stall, differences, median, ratios

Unit: TypeAlias = Literal["ms", "s", "times", "share", "bytes", "MB", "per s"]
# How much of a unit a value of 1 is (seconds, shares, bytes, rates).
_SCALES: Final[dict[str, float]] = {"ms": 1e3, "MB": 1e-6}


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure with the unit to print it in; seconds, shares, bytes and rates inside."""

    figure: Figure
    unit: Unit

    def __str__(self) -> str:
        low, middle, high = (
            _digits(value, self.unit) for value in (self.figure.low, self.figure.value, self.figure.high)
        )
        name = "" if self.unit == "share" else f" {self.unit}"
        return f"{middle}{name}" + (f" ({low} to {high})" if len(self.figure.each) > 1 else "")


def _digits(value: float, unit: Unit) -> str:
    """Return as many digits as are worth reading."""
    if unit == "share":
        return f"{value:.4f}"
    scaled = value * _SCALES.get(unit, 1.0)
    return f"{scaled:,.0f}" if abs(scaled) >= 100 or unit in ("bytes", "MB", "per s") else f"{scaled:.3g}"


def single(value: float, unit: Unit) -> Amount:
    """Return an amount that was measured once, or counted."""
    return Amount(median([value]), unit)


@dataclass(frozen=True, slots=True)
class Bound:
    """What an amount must keep to: ``limit`` in the measure of the figure (seconds, shares, bytes)."""

    kind: Literal["at most", "at least"]
    limit: float

    def holds(self, value: float) -> bool:
        """Whether a value keeps to it."""
        return value >= self.limit if self.kind == "at least" else value <= self.limit

    def text(self, unit: Unit) -> str:
        """Return it in the unit of what it bounds."""
        value = f"{self.limit * _SCALES.get(unit, 1.0):g}"
        return f"{self.kind} {value}" + ("" if unit == "share" else f" {unit}")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: ours, what it is held against, the amount that counts, and its bound if there is one."""

    section: str
    what: str
    found: Amount
    bound: Bound | None = None
    ours: Amount | None = None
    beside: Amount | None = None
    against: str = ""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bound holds; None where there is none."""
        return None if self.bound is None else self.bound.holds(self.found.figure.value)


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes and repetitions of a run."""

    small: tuple[int, ...] = (1_000, 10_000)
    large: int = 100_000
    huge: int | None = None
    postgres: tuple[int, ...] = (10_000, 100_000)
    repetitions: int = 15
    calls: int = 40
    queries: int = 200
    writers: int = 32
    searchers: int = 32
    window: float = 0.5
    quiet: float = 1.0
    seed: int = 0

    def quick(self) -> Settings:
        """Return what takes seconds: the figures say little, but every line is there."""
        return replace(
            self,
            small=(300,),
            large=6_000,
            postgres=(600,),
            repetitions=2,
            calls=4,
            queries=20,
            window=0.05,
            quiet=0.1,
        )


@dataclass(slots=True)
class Run:
    """One run: its settings, its scratch folder, and all that it found so far."""

    settings: Settings
    folder: Path
    say: Callable[[str], None]
    lines: list[Line] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, line: Line) -> None:
        """Keep a line and show it."""
        self.lines.append(line)
        verdict = {True: "met", False: "NOT met", None: "reported"}[line.met]
        self.say(f"{line.section}: {line.what}: {line.found} {verdict}")

    def compare(
        self,
        name: tuple[str, str],
        sides: tuple[Sequence[float], Sequence[float]],
        against: str,
        bound: Bound | None,
        *,
        kind: Literal["times", "times faster", "difference"] = "times",
        note: str = "",
    ) -> None:
        """Keep a line of this section and name, with the seconds of a call on our side and beside it."""
        ours, beside = sides
        if kind == "difference":
            found = Amount(differences(ours, beside), "ms")
        else:
            found = Amount(ratios(ours, beside) if kind == "times" else ratios(beside, ours), "times")
        note = "; ".join(each for each in (kind, note) if each and each != "times")
        shown = Amount(median(ours), "ms"), Amount(median(beside), "ms")
        self.add(Line(*name, found, bound, *shown, against=against, note=note))

    def stalled(self, stall: Stall) -> None:
        """Keep what the event loop was found to do."""
        self.stalls.append(stall)
        self.say(f"event loop: {stall.name}: {stall.over_idle * 1e3:.2f} ms over idle")
