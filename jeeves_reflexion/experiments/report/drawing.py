"""Plots as inline SVG: axes, bands, lines and points, coloured by the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.experiments.report.markup import Html, element

WIDTH: Final = 520
HEIGHT: Final = 330
LEFT: Final = 70
RIGHT: Final = 26
TOP: Final = 12
BOTTOM: Final = 48
COLOURS: Final = 8
"""How many colours the style sheet has; further arms begin anew with another dash."""

_DASHES: Final = ("", "7 4", "2 3")


@dataclass(slots=True)
class Axes:
    """A plot over ``x`` (from, to) and ``y``; what is drawn is added to ``parts`` in order."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str
    y_label: str
    height: float = HEIGHT
    parts: list[Html] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point of the plot is in the picture."""
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1.0)
        bottom = self.height - BOTTOM
        return round(LEFT + across * (WIDTH - LEFT - RIGHT), 1), round(bottom - up * (bottom - TOP), 1)

    def grid(self, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]) -> None:
        """Draw the lines and names of the ticks, and what the axes mean."""
        for value, name in y_ticks:
            (left, y), (right, _) = self.at(self.x[0], value), self.at(self.x[1], value)
            self.parts.append(element("line", x1=left, x2=right, y1=y, y2=y, class_="grid"))
            self.parts.append(element("text", name, x=LEFT - 8, y=y + 5, text_anchor="end"))
        for value, name in x_ticks:
            x, y = self.at(value, self.y[0])
            self.parts.append(element("line", x1=x, x2=x, y1=y, y2=y + 5, class_="axis"))
            self.parts.append(element("text", name, x=x, y=y + 20, text_anchor="middle"))
        (left, y), (right, _) = self.at(self.x[0], self.y[0]), self.at(self.x[1], self.y[0])
        self.parts.append(element("line", x1=left, x2=right, y1=y, y2=y, class_="axis"))
        middle = (left + right) / 2
        self.parts.append(
            element("text", self.x_label, x=middle, y=self.height - 6, text_anchor="middle", class_="name")
        )
        turned = f"translate(14 {(TOP + self.height - BOTTOM) / 2}) rotate(-90)"
        self.parts.append(
            element("text", self.y_label, transform=turned, text_anchor="middle", class_="name")
        )

    def band(self, points: Sequence[tuple[float, float, float]], number: int) -> None:
        """Fill between low and high, given as (x, low, high)."""
        upper = [self.at(x, high) for x, _, high in points]
        lower = [self.at(x, low) for x, low, _ in reversed(points)]
        told = " ".join(f"{x},{y}" for x, y in [*upper, *lower])
        self.parts.append(element("polygon", points=told, class_=f"band c{number % COLOURS}"))

    def line(self, points: Sequence[tuple[float, float]], number: int) -> None:
        """Draw a line through points."""
        told = " ".join(f"{x},{y}" for x, y in (self.at(*point) for point in points))
        dash = _DASHES[number // COLOURS % len(_DASHES)] or None
        self.parts.append(
            element("polyline", points=told, class_=f"line c{number % COLOURS}", stroke_dasharray=dash)
        )

    def mark(self, point: tuple[float, float], number: int, told: str) -> None:
        """Draw an arm's mark at a point; a mouse that rests on it is told ``told``."""
        x, y = self.at(*point)
        self.parts.append(marker(x, y, number, told))

    def svg(self, title: str, told: str) -> Html:
        """Return the picture; ``told`` says the same in words, for those who don't see it."""
        return element(
            "svg",
            element("title", title),
            element("desc", told),
            self.parts,
            viewBox=f"0 0 {WIDTH} {self.height:g}",
            role="img",
            aria_label=f"{title}. {told}",
        )


def marker(x: float, y: float, number: int, told: str = "") -> Html:
    """Return an arm's mark: its form differs from its neighbours' too, for those who tell no colours."""
    kind, colour = number % 4, f"mark c{number % COLOURS}"
    title = element("title", told) if told else None
    if kind == 0:
        return element("circle", title, cx=x, cy=y, r=5, class_=colour)
    if kind == 1:
        return element("rect", title, x=x - 4.5, y=y - 4.5, width=9, height=9, class_=colour)
    if kind == 2:
        return element("path", title, d=f"M{x} {y - 6}l6 10.5h-12z", class_=colour)
    return element("path", title, d=f"M{x} {y - 6.5}l6.5 6.5l-6.5 6.5l-6.5 -6.5z", class_=colour)


def legend(names: Sequence[str]) -> Html:
    """Return which mark is whose."""
    items = (
        element(
            "li",
            element("svg", marker(8, 8, i), viewBox="0 0 16 16", aria_hidden="true"),
            name,
        )
        for i, name in enumerate(names)
    )
    return element("ul", items, class_="legend")


def ticks(high: float, about: int = 5) -> list[float]:
    """Return round numbers from 0 to ``high`` or a little less."""
    if high <= 0:
        return [0.0]
    step = 10 ** math.floor(math.log10(high / about))
    step = next((step * by for by in (1, 2, 5, 10) if high / (step * by) <= about), step * 10)
    return [i * step for i in range(int(high / step + 1e-9) + 1)]
