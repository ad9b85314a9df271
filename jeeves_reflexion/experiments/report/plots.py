"""What is plotted of a report, as SVG: in the page, coloured by its style sheet, and as files for a paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.experiments.report.html import Html, element
from jeeves_reflexion.experiments.report.tables import number, share_text
from jeeves_reflexion.experiments.report.values import LessonUse, Part, Report
from jeeves_reflexion.text import one_line

WIDTH: Final = 520
HEIGHT: Final = 330
LEFT: Final = 70
RIGHT: Final = 26
TOP: Final = 12
BOTTOM: Final = 48
LINE: Final = 22
SHOWN_LIFTS: Final = 20

COLOURS: Final = ("#0067a8", "#c05800", "#00805c", "#b0478a", "#646b77", "#8f6f00", "#5b49b8", "#a8281f")
"""Those of the page in light; further arms begin anew with another dash."""

_DASHES: Final = ("", "7 4", "2 3")
_PERCENT: Final = [(value, f"{value:.0%}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)]
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
    """A picture, what it is called as a file, its caption, and whose marks are in it or what its numbers stand for."""

    name: str
    caption: str
    picture: Html
    numbered: tuple[str, ...] = ()
    height: float = HEIGHT

    def figure(self) -> Html:
        """Return it for the page."""
        caption = element("figcaption", self.caption)
        if not self.numbered:
            return element("figure", caption, self.picture)
        items = (element("li", element("span", text, class_="text")) for text in self.numbered)
        return element("figure", caption, self.picture, element("ol", items, class_="lifts"), class_="wide")

    def file(self) -> str:
        """Return it as a file of its own: an SVG image with its own style, and what its numbers stand for."""
        head, _, rest = self.picture.removesuffix("</svg>").partition(">")
        if self.numbered:
            height = self.height + LINE * len(self.numbered)
            head = head.replace(f"0 0 {WIDTH} {self.height:g}", f"0 0 {WIDTH} {height:g}", 1)
        names = [
            element("text", f"{i}  {one_line(text)[:66]}", x=8, y=self.height + LINE * i - 7)
            for i, text in enumerate(self.numbered, 1)
        ]
        style = element("style", Html(_STYLE))
        parts = (
            head,
            f' xmlns="http://www.w3.org/2000/svg" width="{WIDTH}">',
            style,
            rest,
            *names,
            "</svg>\n",
        )
        return "".join(parts)


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

    def add(self, tag: str, *children: str | Html | None, **attributes: str | float | None) -> None:
        """Draw an element."""
        self.parts.append(element(tag, *children, **attributes))

    def segment(self, start: tuple[float, float], end: tuple[float, float], class_: str) -> None:
        """Draw a straight line between two points of the plot."""
        (x1, y1), (x2, y2) = self.at(*start), self.at(*end)
        self.add("line", x1=x1, x2=x2, y1=y1, y2=y2, class_=class_)

    def grid(self, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]) -> None:
        """Draw the lines and names of the ticks, and what the axes mean."""
        for value, name in y_ticks:
            self.segment((self.x[0], value), (self.x[1], value), "grid")
            self.add("text", name, x=LEFT - 8, y=self.at(self.x[0], value)[1] + 5, text_anchor="end")
        for value, name in x_ticks:
            x, y = self.at(value, self.y[0])
            self.add("line", x1=x, x2=x, y1=y, y2=y + 5, class_="axis")
            self.add("text", name, x=x, y=y + 20, text_anchor="middle")
        self.segment((self.x[0], self.y[0]), (self.x[1], self.y[0]), "axis")
        middle = (LEFT + WIDTH - RIGHT) / 2
        self.add("text", self.x_label, x=middle, y=self.height - 6, text_anchor="middle", class_="name")
        turned = f"translate(14 {(TOP + self.height - BOTTOM) / 2}) rotate(-90)"
        self.add("text", self.y_label, transform=turned, text_anchor="middle", class_="name")

    def band(self, points: Sequence[tuple[float, float, float]], arm: int) -> None:
        """Fill between low and high, given as (x, low, high)."""
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

    def svg(self, title: str, told: str, arms: Sequence[str] = ()) -> Html:
        """Return the picture, and whose marks are whose; ``told`` says it in words, for those who don't see it."""
        height = self.height
        for i, name in enumerate(arms):
            x, height = LEFT + i % 3 * 145, self.height + LINE * (i // 3 + 1)
            self.parts.append(_marker(x, height - 12, i))
            self.add("text", name, x=x + 12, y=height - 7)
        return element(
            "svg",
            element("title", title),
            element("desc", told),
            self.parts,
            viewBox=f"0 0 {WIDTH} {height:g}",
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


def plots(part: Part, report: Report) -> Iterator[Plot]:
    """Return the plots of a part; one that there are no figures for is not there."""
    name = f"{part.split}-{part.judge}-judged"
    if any(each.points for each in part.success):
        yield _curves(part, report, name) if part.trials > 1 else _first_tries(part, report, name)
    if part.trials > 1 and any(
        success.points and spent.tokens_by_trial
        for success, spent in zip(part.success, part.spent, strict=True)
    ):
        yield _tokens(part, report, name)


def _curves(part: Part, report: Report, name: str) -> Plot:
    """Success by trial with bands."""
    known = [each for each in part.success if each.points]
    axes = Axes((0.85, part.trials + 0.15), (0.0, 1.0), "trial", f"{report.unit}s solved so far")
    axes.grid([(float(trial), str(trial)) for trial in range(1, part.trials + 1)], _PERCENT)
    for each in known:
        aside = report.beside(each.arm)
        band = [(p.trial + aside, p.share.low, p.share.high) for p in each.points]
        axes.band(band, report.arms.index(each.arm))
    for each in known:
        arm, aside = report.arms.index(each.arm), report.beside(each.arm)
        axes.line([(p.trial + aside, p.share.value) for p in each.points], arm)
        for p in each.points:
            told = f"{each.arm}, trial {p.trial}: {share_text(p.share)}"
            axes.mark((p.trial + aside, p.share.value), arm, told)
    told = "; ".join(f"{each.arm} {each.points[-1].share.value:.0%}" for each in known)
    told = f"Solved by the last trial: {told}. The table below has all figures."
    picture = axes.svg("Learning curves", told, report.arms)
    return Plot(f"curves-{name}", "Learning curves, with 95 % Wilson bands", picture)


def _first_tries(part: Part, report: Report, name: str) -> Plot:
    """Success at the one trial of a part with its interval, an arm a line."""
    known = [each for each in part.success if each.points]
    height = TOP + BOTTOM + 34 * len(known)
    axes = Axes((0.0, 1.0), (0.0, len(known)), f"{report.unit}s solved at the first try", "", height)
    axes.grid(_PERCENT, [])
    for i, each in enumerate(known):
        arm, y, share = report.arms.index(each.arm), len(known) - i - 0.5, each.points[0].share
        axes.segment((share.low, y), (share.high, y), f"range c{arm % len(COLOURS)}")
        axes.mark((share.value, y), arm, f"{each.arm}: {share_text(share)}")
    told = "; ".join(f"{each.arm} {each.points[0].share.value:.0%}" for each in known)
    picture = axes.svg("First tries", told, report.arms)
    return Plot(f"first-{name}", "Solved at the first try, with 95 % Wilson intervals", picture)


def _tokens(part: Part, report: Report, name: str) -> Plot:
    """Success over the tokens that a task used by then, a point a trial."""
    paths = [
        (success.arm, list(zip(spent.tokens_by_trial, success.points, strict=True)))
        for success, spent in zip(part.success, part.spent, strict=True)
        if success.points and spent.tokens_by_trial is not None
    ]
    most = max(tokens for _, path in paths for tokens, _ in path) * 1.06 or 1.0
    axes = Axes((0.0, most), (0.0, 1.0), f"tokens per {report.unit} so far", f"{report.unit}s solved so far")
    axes.grid([(value, _short(value)) for value in _ticks(most)], _PERCENT)
    for name_of_arm, path in paths:
        arm = report.arms.index(name_of_arm)
        axes.line([(tokens, point.share.value) for tokens, point in path], arm)
        for tokens, point in path:
            told = f"{name_of_arm}, trial {point.trial}: {number(tokens)} tokens, {share_text(point.share)}"
            axes.mark((tokens, point.share.value), arm, told)
    told = "; ".join(
        f"{arm} {number(path[-1][0])} tokens, {path[-1][1].share.value:.0%}" for arm, path in paths
    )
    out = [spent.arm for spent in part.spent if spent.tokens_by_trial is None and spent.tries]
    caption = "Tokens against success, a point a trial" + (
        f"; tokens unknown: {', '.join(out)}" if out else ""
    )
    picture = axes.svg("Tokens against success", f"By the last trial: {told}.", report.arms)
    return Plot(f"tokens-{name}", caption, picture)


def lifts(uses: Sequence[LessonUse]) -> Plot | None:
    """Return the lift of lessons with its interval; None where none is known."""
    known = [use for use in uses if use.value is not None]
    if not known:
        return None
    # Both ends of the order say something: what helps most, and what harms.
    half = SHOWN_LIFTS // 2
    shown = known if len(known) <= SHOWN_LIFTS else [*known[:half], *known[-half:]]
    bounds = [
        abs(each) for use in shown if use.lift for each in (use.value, use.lift.low, use.lift.high) if each
    ]
    end = next((end for end in (0.2, 0.5, 1.0) if max(bounds, default=0.0) <= end), 2.0)
    axes = Axes((-end, end), (0.0, len(shown)), "lift in score", "lesson", TOP + BOTTOM + 24 * len(shown))
    axes.grid([(value, f"{value:+g}" if value else "0") for value in (-end, -end / 2, 0.0, end / 2, end)], [])
    axes.segment((0.0, 0.0), (0.0, len(shown)), "axis")
    for i, use in enumerate(shown, 1):
        lift, y = use.lift, len(shown) - i + 0.5
        if lift is not None and lift.low is not None and lift.high is not None:
            axes.segment((lift.low, y), (lift.high, y), "range c0")
        axes.mark((use.value or 0.0, y), 0, f"{use.lift_text}: {use.text[:200]}")
        axes.add("text", str(i), x=LEFT - 8, y=axes.at(0.0, y)[1] + 5, text_anchor="end")
    told = f"{len(shown)} of {len(known)} lessons, from {shown[0].lift_text} to {shown[-1].lift_text}."
    rest = f", {len(shown)} of {len(known)}: the highest and the lowest" if len(shown) < len(known) else ""
    caption = (
        f"Lift of lessons: mean score with the lesson less that of tries from which it was withheld{rest}"
    )
    picture = axes.svg("Lift of lessons", told)
    return Plot("lifts", caption, picture, tuple(use.text for use in shown), axes.height)


def _ticks(high: float, about: int = 5) -> list[float]:
    """Round numbers from 0 to ``high`` or a little less."""
    step = 10 ** math.floor(math.log10(high / about))
    step = next((step * by for by in (1, 2, 5, 10) if high / (step * by) <= about), step * 10)
    return [i * step for i in range(int(high / step + 1e-9) + 1)]


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
