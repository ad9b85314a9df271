"""What is plotted of a report, as SVG: in the page, coloured by its style sheet, and as files for a paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.experiments.report.analysis import Part, Report
from jeeves_reflexion.experiments.report.html import Html, element

WIDTH: Final = 520
HEIGHT: Final = 330
LEFT: Final = 70
RIGHT: Final = 26
TOP: Final = 12
BOTTOM: Final = 48
LINE: Final = 22

COLOURS: Final = ("#0067a8", "#c05800", "#00805c", "#b0478a", "#646b77", "#8f6f00", "#5b49b8", "#a8281f")
"""Those of the page in light; further arms begin anew with another dash."""

_DASHES: Final = ("", "7 4", "2 3")
_STYLE: Final = (
    "svg{background:#fff;font-family:sans-serif}text{fill:#5a6270;font-size:14px}.name{fill:#1b1f26}"
    ".grid{stroke:#d5d9e0}.axis{stroke:#5a6270}.line{fill:none;stroke-width:2.2}.range{stroke-width:2.2}"
    ".band{opacity:.12}.mark{stroke:#fff;stroke-width:1.2}"
    + "".join(
        f".line.c{i},.range.c{i}{{stroke:{colour}}}.band.c{i},.mark.c{i}{{fill:{colour}}}"
        for i, colour in enumerate(COLOURS)
    )
)


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture, what it is called as a file, and its caption."""

    name: str
    caption: str
    picture: Html

    def figure(self) -> Html:
        """Return it for the page."""
        return element("figure", element("figcaption", self.caption), self.picture)

    def file(self) -> str:
        """Return it as a file of its own: an SVG image with its own style."""
        head, _, rest = self.picture.partition(">")
        style = element("style", Html(_STYLE))
        return f'{head} xmlns="http://www.w3.org/2000/svg" width="{WIDTH}">{style}{rest}\n'


def curves(part: Part, report: Report) -> Plot | None:
    """Return the success of a part by trial with its intervals; None where no arm finished a seed."""
    known, arms = [each for each in part.success if each.points], report.results.arms
    if not known:
        return None
    axes = Axes((0.85, part.trials + 0.15), f"{report.unit}s solved so far")
    axes.grid(range(1, part.trials + 1))
    # Arms alike would hide each other: each is drawn a little beside its trials.
    beside = min(0.04, 0.2 / len(arms)) if part.trials > 1 else 0.3 / len(arms)
    for each in known:
        arm = arms.index(each.arm)
        aside = (arm - (len(arms) - 1) / 2) * beside
        axes.band([(p.trial + aside, p.share.low, p.share.high) for p in each.points], arm)
        axes.line([(p.trial + aside, p.share.value) for p in each.points], arm)
        for p in each.points:
            axes.mark((p.trial + aside, p.share.value), arm, f"{each.arm}, trial {p.trial}: {p.share}")
    told = "; ".join(f"{each.arm} {each.points[-1].share.value:.0%}" for each in known)
    told = f"Solved by the last trial: {told}. The table below has all figures."
    title = "Learning curves" if part.trials > 1 else "First tries"
    picture = axes.svg(title, told, arms)
    return Plot(f"curves-{part.split}-{part.judge}-judged", f"{title}, with 95 % Wilson intervals", picture)


@dataclass(slots=True)
class Axes:
    """A plot of shares over ``x`` (from, to); what is drawn is added to ``parts`` in order."""

    x: tuple[float, float]
    label: str
    parts: list[Html] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point of the plot is in the picture."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        bottom = HEIGHT - BOTTOM
        return round(LEFT + across * (WIDTH - LEFT - RIGHT), 1), round(bottom - y * (bottom - TOP), 1)

    def add(self, tag: str, *children: str | Html | None, **attributes: str | float | None) -> None:
        """Draw an element."""
        self.parts.append(element(tag, *children, **attributes))

    def segment(self, start: tuple[float, float], end: tuple[float, float], class_: str) -> None:
        """Draw a straight line between two points of the plot."""
        (x1, y1), (x2, y2) = self.at(*start), self.at(*end)
        self.add("line", x1=x1, x2=x2, y1=y1, y2=y2, class_=class_)

    def grid(self, trials: Iterable[int]) -> None:
        """Draw the lines and names of the ticks, and what the axes mean."""
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            self.segment((self.x[0], share), (self.x[1], share), "grid" if share else "axis")
            self.add("text", f"{share:.0%}", x=LEFT - 8, y=self.at(0, share)[1] + 5, text_anchor="end")
        for trial in trials:
            x, y = self.at(trial, 0.0)
            self.add("line", x1=x, x2=x, y1=y, y2=y + 5, class_="axis")
            self.add("text", str(trial), x=x, y=y + 20, text_anchor="middle")
        middle = (LEFT + WIDTH - RIGHT) / 2
        self.add("text", "trial", x=middle, y=HEIGHT - 6, text_anchor="middle", class_="name")
        turned = f"translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"
        self.add("text", self.label, transform=turned, text_anchor="middle", class_="name")

    def band(self, points: Sequence[tuple[float, float, float]], arm: int) -> None:
        """Fill between low and high, given as (x, low, high); a line where there is one point."""
        if len(points) == 1:
            (x, low, high), colour = points[0], arm % len(COLOURS)
            self.segment((x, low), (x, high), f"range c{colour}")
            return
        corners = [self.at(x, high) for x, _, high in points]
        corners += [self.at(x, low) for x, low, _ in reversed(points)]
        told = " ".join(f"{x},{y}" for x, y in corners)
        self.add("polygon", points=told, class_=f"band c{arm % len(COLOURS)}")

    def line(self, points: Sequence[tuple[float, float]], arm: int) -> None:
        """Draw a line through points."""
        told = " ".join(f"{x},{y}" for x, y in (self.at(*point) for point in points))
        dash = _DASHES[arm // len(COLOURS) % len(_DASHES)] or None
        self.add("polyline", points=told, class_=f"line c{arm % len(COLOURS)}", stroke_dasharray=dash)

    def mark(self, point: tuple[float, float], arm: int, told: str) -> None:
        """Draw an arm's mark at a point; a mouse that rests on it is told ``told``."""
        self.parts.append(_marker(*self.at(*point), arm, told))

    def svg(self, title: str, told: str, arms: Sequence[str]) -> Html:
        """Return the picture, and whose marks are whose; ``told`` says it in words, for those who don't see it."""
        height = HEIGHT + LINE * math.ceil(len(arms) / 3)
        for i, name in enumerate(arms):
            x, y = LEFT + i % 3 * 145, HEIGHT + LINE * (i // 3 + 1)
            self.parts.append(_marker(x, y - 12, i))
            self.add("text", name, x=x + 12, y=y - 7)
        return element(
            "svg",
            element("title", title),
            element("desc", told),
            self.parts,
            viewBox=f"0 0 {WIDTH} {height}",
            role="img",
            aria_label=f"{title}. {told}",
        )


def _marker(x: float, y: float, arm: int, told: str = "") -> Html:
    """An arm's mark: its form differs from its neighbours' too, for those who tell no colours."""
    kind, colour = arm % 4, f"mark c{arm % len(COLOURS)}"
    title = element("title", told) if told else None
    if kind == 0:
        return element("circle", title, cx=x, cy=y, r=5, class_=colour)
    if kind == 1:
        return element("rect", title, x=x - 4.5, y=y - 4.5, width=9, height=9, class_=colour)
    path = f"M{x} {y - 6}l6 10.5h-12z" if kind == 2 else f"M{x} {y - 6.5}l6.5 6.5l-6.5 6.5l-6.5 -6.5z"
    return element("path", title, d=path, class_=colour)
