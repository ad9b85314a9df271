"""What is plotted of a report, as SVG: in the page, coloured by its style sheet, and as files for a paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from jeeves_reflexion.experiments.report.analysis import Part, Report
from jeeves_reflexion.experiments.report.html import Html, element
from jeeves_reflexion.experiments.results import Curve

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
    parts = _axes(part.trials, f"{report.unit}s solved so far")
    # Arms alike would hide each other: each is drawn a little beside its trials.
    beside = min(0.04, 0.2 / len(arms)) if part.trials > 1 else 0.3 / len(arms)
    for each in known:
        arm = arms.index(each.arm)
        aside = (arm - (len(arms) - 1) / 2) * beside
        parts += _curve(each, arm, [_at(p.trial + aside, 0.0, part.trials)[0] for p in each.points])
    told = "; ".join(f"{each.arm} {each.points[-1].share.value:.0%}" for each in known)
    told = f"Solved by the last trial: {told}. The table below has all figures."
    title = "Learning curves" if part.trials > 1 else "First tries"
    for i, name in enumerate(arms):
        x, y = LEFT + i % 3 * 145, HEIGHT + LINE * (i // 3 + 1)
        parts += [_marker(x, y - 12, i), element("text", name, x=x + 12, y=y - 7)]
    picture = element(
        "svg",
        element("title", title),
        element("desc", told),  # for those who don't see it
        parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT + LINE * math.ceil(len(arms) / 3)}",
        role="img",
        aria_label=f"{title}. {told}",
    )
    return Plot(f"curves-{part.split}-{part.judge}-judged", f"{title}, with 95 % Wilson intervals", picture)


def _at(trial: float, share: float, trials: int) -> tuple[float, float]:
    """Where a point of the plot is in the picture; there is a little room beside the first and the last trial."""
    across, bottom = (trial - 0.85) / (trials - 0.7), HEIGHT - BOTTOM
    return round(LEFT + across * (WIDTH - LEFT - RIGHT), 1), round(bottom - share * (bottom - TOP), 1)


def _axes(trials: int, label: str) -> list[Html]:
    """The lines and names of the ticks, and what the axes mean."""
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _at(1, share, trials)[1]
        parts.append(
            element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid" if share else "axis")
        )
        parts.append(element("text", f"{share:.0%}", x=LEFT - 8, y=y + 5, text_anchor="end"))
    for trial in range(1, trials + 1):
        x, y = _at(trial, 0.0, trials)
        parts.append(element("line", x1=x, x2=x, y1=y, y2=y + 5, class_="axis"))
        parts.append(element("text", str(trial), x=x, y=y + 20, text_anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    turned = f"translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"
    parts.append(element("text", "trial", x=middle, y=HEIGHT - 6, text_anchor="middle", class_="name"))
    parts.append(element("text", label, transform=turned, text_anchor="middle", class_="name"))
    return parts


def _curve(curve: Curve, arm: int, xs: Sequence[float]) -> Iterator[Html]:
    """An arm's intervals, its line and its marks at the places ``xs``."""
    low, middle, high = (
        [(x, _at(1, bound, 1)[1]) for x, bound in zip(xs, bounds, strict=True)]
        for bounds in zip(*((p.share.low, p.share.value, p.share.high) for p in curve.points), strict=True)
    )
    colour = arm % len(COLOURS)
    if len(xs) == 1:
        yield element("line", x1=xs[0], x2=xs[0], y1=low[0][1], y2=high[0][1], class_=f"range c{colour}")
    else:
        dash = _DASHES[arm // len(COLOURS) % len(_DASHES)] or None
        yield element("polygon", points=_listed([*high, *reversed(low)]), class_=f"band c{colour}")
        yield element("polyline", points=_listed(middle), class_=f"line c{colour}", stroke_dasharray=dash)
    for point, (x, y) in zip(curve.points, middle, strict=True):
        yield _marker(x, y, arm, f"{curve.arm}, trial {point.trial}: {point.share}")


def _listed(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


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
