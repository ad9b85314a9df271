"""Figures as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.refinement.ends import End
from benchmarks.refinement.figures import BOUNDS, Bound, Figure, Mean
from benchmarks.refinement.grid import Grid, Varied
from benchmarks.refinement.judges import STEADY_ERRORS, Compared, Steadiness
from benchmarks.refinement.outcome import Outcome
from benchmarks.refinement.spending import Control
from jeeves_reflexion.statistics import Share

WHERE_SHORT = Bound(
    "S01*", "the same, of runs whose first draft was not good enough", 0.80, "better_where_short"
)
"""Beside the five: a first draft that is good already can hardly be bettered."""

SHOWN = (BOUNDS[0], WHERE_SHORT, *BOUNDS[1:])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines."""
    return [
        _line(head),
        _line(["---"] * len(head)),
        *(_line(row) for row in rows),
    ]


def share(value: Share | None) -> str:
    """Write a share with its interval, in per cent."""
    if value is None:
        return "none to count"
    return f"{value.value:.0%} ({value.low:.0%} to {value.high:.0%})"


def mean(value: Mean, *, sign: bool = False) -> str:
    """Write a mean with its interval."""
    form = "+.3f" if sign else ".3f"
    return f"{value.value:{form}} ({value.low:{form}} to {value.high:{form}})"


def regions(grid: Grid) -> list[str]:
    """Write up to which judge's error each bound holds, by reviser's error."""
    head = ["bound", "least", *(f"reviser {reviser:g}" for reviser in grid.revisers), "places"]
    rows = []
    for bound in SHOWN:
        reached = [grid.reach(bound, reviser) for reviser in grid.revisers]
        rows.append(
            [
                f"{bound.id} {bound.title}",
                f"{bound.least:.0%}",
                *("nowhere" if one is None else f"judge {one:g}" for one in reached),
                f"{grid.count(bound)} of {len(grid.cells)}",
            ]
        )
    return table(head, rows)


def cells(grid: Grid, bound: Bound) -> list[str]:
    """Write a figure at each place; bold where its bound holds."""
    head = ["judge's error", *(f"reviser {reviser:g}" for reviser in grid.revisers)]
    rows = []
    for judge in grid.judges:
        row = [f"{judge:g}"]
        for reviser in grid.revisers:
            said = share(grid.cells[judge, reviser][bound.figure].share)
            row.append(f"**{said}**" if grid.holds(bound, (judge, reviser)) else said)
        rows.append(row)
    return table(head, rows)


def five(rows: Sequence[tuple[str, Mapping[str, Figure]]]) -> list[str]:
    """Write the five figures of several settings, bold where a bound holds, and how often a good draft was revised."""
    written = []
    for name, figures in rows:
        row = [name]
        for bound in SHOWN:
            said = share(figures[bound.figure].share)
            row.append(f"**{said}**" if figures[bound.figure].holds(bound.least) else said)
        written.append([*row, share(figures["went_on_past_good"].share)])
    return table(["", *(bound.id for bound in SHOWN), "late"], written)


def varied(rows: Sequence[Varied]) -> list[str]:
    """Write what one changed assumption does to the five figures."""
    return five([(row.name, row.figures) for row in rows])


def steady(rows: Sequence[Steadiness]) -> list[str]:
    """Write which share of texts got five scores within 0.1, by how judges err."""
    names = list(dict.fromkeys(row.name for row in rows))
    by_place = {(row.name, row.error): row for row in rows}
    least = next(bound.least for bound in BOUNDS if bound.id == "S04")
    written = []
    for name in names:
        line = [name]
        for error in STEADY_ERRORS:
            within = by_place[name, error].within
            line.append(f"**{share(within)}**" if within.low > least else share(within))
        written.append(line)
    return table(["judge", *(f"error {error:g}" for error in STEADY_ERRORS)], written)


def ended(rows: Sequence[End]) -> list[str]:
    """Write why runs ended, and how often that was right."""
    written = [
        [
            f"{end.error:g}" if place == 0 or rows[place - 1].error != end.error else "",
            end.reason,
            f"{end.right.n}",
            share(end.right),
            f"{end.quality.value:.3f}",
            f"{end.revisions.value:.1f}",
        ]
        for place, end in enumerate(rows)
    ]
    return table(["error", "reason", "runs", "right", "true quality", "revisions"], written)


def outcomes(rows: Sequence[Outcome], *, tokens: bool) -> list[str]:
    """Write arms beside one another."""
    head = ["", "true quality", "truly good enough", "passed and not good", "difference", "revisions"]
    written = [
        [
            row.name,
            mean(row.quality),
            share(row.met),
            share(row.fooled),
            "" if row.difference is None else mean(row.difference, sign=True),
            f"{row.revisions:.1f}",
            *([f"{row.tokens:,.0f}"] if tokens else []),
        ]
        for row in rows
    ]
    return table([*head, "tokens a run"] if tokens else head, written)


def controlled(rows: Sequence[Control]) -> list[str]:
    """Write the loop beside its controls, by error; a row for each."""
    head = [
        "error",
        "",
        "true quality",
        "less the loop's",
        "truly good enough",
        "tokens",
        "tokens per 0.01 gained",
    ]
    written = []
    for row in rows:
        start, *_ = row.outcomes
        for one in row.outcomes:
            gain = one.quality.value - start.quality.value
            price = (one.tokens - start.tokens) / (100 * gain) if gain > 0 else None
            written.append(
                [
                    f"{row.error:g}" if one is start else "",
                    one.name,
                    mean(one.quality),
                    "" if one.difference is None else mean(one.difference, sign=True),
                    share(one.met),
                    f"{one.tokens:,.0f}",
                    "" if price is None else f"{price:,.0f}",
                ]
            )
    return table(head, written)


def compared(rows: Sequence[Compared]) -> list[str]:
    """Write the kinds of judges beside one another, by how blind the writer's own model is."""
    head = ["misses", "judge", "true quality", "difference", "truly good enough", "passed and not good"]
    written = [
        [
            f"{row.miss:g}" if place == 0 else "",
            one.name,
            mean(one.quality),
            "" if one.difference is None else mean(one.difference, sign=True),
            share(one.met),
            share(one.fooled),
        ]
        for row in rows
        for place, one in enumerate(row.outcomes)
    ]
    return table(head, written)


def _line(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"
