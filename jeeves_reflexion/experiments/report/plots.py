"""What is plotted of a report, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jeeves_reflexion.experiments.report.drawing import BOTTOM, COLOURS, LEFT, TOP, Axes, legend, ticks
from jeeves_reflexion.experiments.report.markup import Html, element
from jeeves_reflexion.experiments.report.tables import number, share_text
from jeeves_reflexion.experiments.report.values import LessonUse, Part, Report

SHOWN_LIFTS: Final = 20

_PERCENT: Final = [(value, f"{value:.0%}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)]


def curves(part: Part, report: Report) -> Html | None:
    """Return success by trial with bands; None where no arm finished a seed, or there is one trial only."""
    known = [each for each in part.success if each.points]
    if not known or part.trials < 2:
        return None
    axes = Axes((0.85, part.trials + 0.15), (0.0, 1.0), "trial", f"{report.unit}s solved so far")
    axes.grid([(float(trial), str(trial)) for trial in range(1, part.trials + 1)], _PERCENT)
    for each in known:
        place, aside = report.arms.index(each.arm), report.beside(each.arm)
        axes.band([(p.trial + aside, p.share.low, p.share.high) for p in each.points], place)
    for each in known:
        place, aside = report.arms.index(each.arm), report.beside(each.arm)
        axes.line([(p.trial + aside, p.share.value) for p in each.points], place)
        for p in each.points:
            axes.mark(
                (p.trial + aside, p.share.value), place, f"{each.arm}, trial {p.trial}: {share_text(p.share)}"
            )
    told = "; ".join(f"{each.arm} {each.points[-1].share.value:.0%}" for each in known)
    return _figure(
        axes.svg("Learning curves", f"Solved by the last trial: {told}. The table below has all figures."),
        report,
        "Learning curves, with 95 % Wilson bands",
    )


def tokens_against_success(part: Part, report: Report) -> Html | None:
    """Return success over the tokens that a task used by then, a point a trial; None where tokens are unknown.

    And where there is one trial only, in which all arms use much the same.
    """
    if part.trials < 2:
        return None
    paths = []
    for success, spent in zip(part.success, part.spent, strict=True):
        if success.points and spent.tokens_by_trial is not None:
            pairs = zip(spent.tokens_by_trial, success.points, strict=True)
            paths.append((success.arm, [(tokens, point) for tokens, point in pairs]))
    if not paths:
        return None
    most = max(tokens for _, path in paths for tokens, _ in path) * 1.06 or 1.0
    axes = Axes((0.0, most), (0.0, 1.0), f"tokens per {report.unit} so far", f"{report.unit}s solved so far")
    axes.grid([(value, _short(value)) for value in ticks(most)], _PERCENT)
    for arm, path in paths:
        place = report.arms.index(arm)
        axes.line([(tokens, point.share.value) for tokens, point in path], place)
        for tokens, point in path:
            told = f"{arm}, trial {point.trial}: {number(tokens)} tokens, {share_text(point.share)}"
            axes.mark((tokens, point.share.value), place, told)
    told = "; ".join(
        f"{arm} {number(path[-1][0])} tokens, {path[-1][1].share.value:.0%}" for arm, path in paths
    )
    out = [spent.arm for spent in part.spent if spent.tokens_by_trial is None and spent.tries]
    beside = f"; tokens unknown: {', '.join(out)}" if out else ""
    return _figure(
        axes.svg("Tokens against success", f"By the last trial: {told}."),
        report,
        f"Tokens against success, a point a trial{beside}",
    )


def first_tries(part: Part, report: Report) -> Html | None:
    """Return success at the one trial of a part with its interval, an arm a line; None where there are more trials."""
    known = [each for each in part.success if each.points]
    if not known or part.trials > 1:
        return None
    axes = Axes(
        (0.0, 1.0),
        (0.0, len(known)),
        f"{report.unit}s solved at the first try",
        "",
        TOP + BOTTOM + 34 * len(known),
    )
    axes.grid(_PERCENT, [])
    for i, each in enumerate(known):
        place, y, share = report.arms.index(each.arm), len(known) - i - 0.5, each.points[0].share
        (left, at), (right, _) = axes.at(share.low, y), axes.at(share.high, y)
        axes.parts.append(
            element("line", x1=left, x2=right, y1=at, y2=at, class_=f"range c{place % COLOURS}")
        )
        axes.mark((share.value, y), place, f"{each.arm}: {share_text(share)}")
    told = "; ".join(f"{each.arm} {each.points[0].share.value:.0%}" for each in known)
    return _figure(
        axes.svg("First tries", told), report, "Solved at the first try, with 95 % Wilson intervals"
    )


def lifts(uses: Sequence[LessonUse]) -> Html | None:
    """Return the lift of lessons with its interval; None where none is known."""
    known = [use for use in uses if use.lift and use.lift.value is not None]
    if not known:
        return None
    # Both ends of the order say something: what helps most, and what harms.
    half = SHOWN_LIFTS // 2
    shown = known if len(known) <= SHOWN_LIFTS else [*known[:half], *known[-half:]]
    height = TOP + BOTTOM + 24 * len(shown)
    end = lift_range(shown)
    axes = Axes((-end, end), (0.0, len(shown)), "lift in score", "lesson", height)
    axes.grid([(value, f"{value:+g}" if value else "0") for value in (-end, -end / 2, 0.0, end / 2, end)], [])
    (zero, low), (_, high) = axes.at(0.0, 0.0), axes.at(0.0, len(shown))
    axes.parts.append(element("line", x1=zero, x2=zero, y1=low, y2=high, class_="axis"))
    for i, use in enumerate(shown):
        _lift(axes, use, len(shown) - i - 0.5, i + 1)
    told = f"{len(shown)} of {len(known)} lessons, from {_lift_text(shown[0])} to {_lift_text(shown[-1])}."
    named = element(
        "ol", (element("li", element("span", use.text, class_="text")) for use in shown), class_="lifts"
    )
    rest = f", {len(shown)} of {len(known)}: the highest and the lowest" if len(shown) < len(known) else ""
    caption = element(
        "figcaption",
        f"Lift of lessons: mean score with the lesson less that of tries from which it was withheld{rest}",
    )
    return element("figure", caption, axes.svg("Lift of lessons", told), named, class_="wide")


def lift_range(uses: Sequence[LessonUse]) -> float:
    """Return how far from 0 the axis of lifts has to reach."""
    ends = [
        abs(end) for use in uses if use.lift for end in (use.lift.value, use.lift.low, use.lift.high) if end
    ]
    return next((end for end in (0.2, 0.5, 1.0) if all(each <= end for each in ends)), 2.0)


def _lift(axes: Axes, use: LessonUse, y: float, name: int) -> None:
    lift = use.lift
    if lift is None or lift.value is None:
        return
    if lift.low is not None and lift.high is not None:
        (left, at), (right, _) = axes.at(lift.low, y), axes.at(lift.high, y)
        axes.parts.append(element("line", x1=left, x2=right, y1=at, y2=at, class_="range c0"))
    axes.mark((lift.value, y), 0, f"{_lift_text(use)}: {use.text[:200]}")
    _, at = axes.at(0.0, y)
    axes.parts.append(element("text", str(name), x=LEFT - 8, y=at + 5, text_anchor="end"))


def _lift_text(use: LessonUse) -> str:
    return "unknown" if use.lift is None or use.lift.value is None else f"{use.lift.value:+.2f}"


def _figure(picture: Html, report: Report, caption: str) -> Html:
    return element("figure", element("figcaption", caption), picture, legend(report.arms))


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
