"""The page of results, its words in ``texts/``, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from string import Template

from jeeves_reflexion import __version__
from jeeves_reflexion.statistics import Share, wilson
from jeeves_reflexion.types import JSON

from ..report import machine, percent, share_json, table
from .figures import BOUNDS, WITHIN, Bound, Figures, holds
from .grid import SENSITIVE, Grid, Place, Varied
from .play import CONTINUATIONS, FURTHER, LOOKS
from .rates import BREAKING, THRESHOLD
from .record import IMPROVEMENT
from .setting import Measured

WHERE_SHORT = Bound(
    "S01*", "the same, of runs whose first draft was not good enough", 0.80, "better_where_short"
)
"""Beside the five: a first draft that is good already can hardly be bettered."""

SHOWN = (BOUNDS[0], WHERE_SHORT, *BOUNDS[1:])


def page(found: Measured) -> str:
    """Return the page of an offline measurement."""
    setting = found.setting
    return _filled(
        {
            "made_with": f"jeeves-reflexion {__version__}, {machine()}",
            "threshold": f"{THRESHOLD:g}",
            "improvement": f"{IMPROVEMENT:g}",
            "within": WITHIN,
            "looks": LOOKS,
            "further": FURTHER,
            "tries": f"the mean of {CONTINUATIONS} tries",
            "command": setting.command,
            "seconds": f"{found.seconds:.0f}",
            "workers": setting.workers,
            "runs": setting.runs,
            "tasks": setting.tasks,
            "seeds": len(setting.seeds),
            "right": f"{setting.right:g}",
            "noise": f"{setting.noise:g}",
            "most": setting.max_revisions,
            "breaking": f"{BREAKING:g}",
            "sensitive": f"{SENSITIVE:g}",
            "strict_regions": _regions(found.strict),
            "strict_together": _together(found.strict),
            "loose_together": _together(found.loose),
            "varied": _varied(found.varied),
        },
    )


def page_json(found: Measured) -> dict[str, JSON]:
    """Return an offline measurement: every figure with its counts."""
    return {
        "command": found.setting.command,
        "versions": {"jeeves-reflexion": __version__, "machine": machine()},
        "seconds": round(found.seconds, 1),
        "setting": {**asdict(found.setting), "runs": found.setting.runs},
        "bounds": [asdict(bound) for bound in BOUNDS],
        "grids": {"each_criterion_vetoes": _grid(found.strict), "overall_score_alone": _grid(found.loose)},
        "one_assumption_at_a_time": {row.name: _figures(row.figures) for row in found.varied},
    }


def _grid(grid: Grid) -> dict[str, JSON]:
    return {
        "n": grid.n,
        "cells": [
            {"judge": judge, "reviser": reviser, "figures": _figures(figures)}
            for (judge, reviser), figures in grid.cells.items()
        ],
        "holds_up_to_judge_error": {
            bound.id: {f"{reviser:g}": grid.reach(bound, reviser) for reviser in grid.revisers}
            for bound in BOUNDS
        },
        "all_hold": [list(place) for place in grid.all_hold()],
        "all_but_S04_hold": [list(place) for place in grid.all_hold(but="S04")],
    }


def _figures(figures: Figures) -> dict[str, JSON]:
    return {name: share_json(share) for name, share in figures.items()}


def _regions(grid: Grid) -> str:
    """Up to which judge's error each bound holds, by reviser's error."""
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
    return table(["bound", "least", *(f"reviser {reviser:g}" for reviser in grid.revisers), "places"], rows)


def _varied(rows: Sequence[Varied]) -> str:
    """What one changed assumption does to the five figures, and how often a good draft was revised."""
    written = [
        [
            row.name,
            *(_bold(row.figures, bound) for bound in SHOWN),
            _said(row.figures["went_on_past_good"]),
        ]
        for row in rows
    ]
    return table(["", *(bound.id for bound in SHOWN), "late"], written)


def _bold(figures: Figures, bound: Bound) -> str:
    share = figures[bound.figure]
    return f"**{_said(share)}**" if holds(share, bound.least) else _said(share)


def _together(grid: Grid) -> str:
    all_five, four = _places(grid.all_hold()), grid.all_hold(but="S04")
    sure = wilson(grid.n, grid.n).low
    return (
        f"All {len(BOUNDS)} together hold at {all_five}. All but S04 hold at {len(four)} of {len(grid.cells)} places: "
        f"{_places(four)}. (A figure of 100 % over {grid.n} runs is known to lie above {sure:.1%}.)"
    )


def _places(places: Sequence[Place]) -> str:
    """Name places, those of one reviser's error together."""
    by_reviser: dict[float, list[str]] = {}
    for judge, reviser in places:
        by_reviser.setdefault(reviser, []).append(f"{judge:g}")
    said = [f"judge {', '.join(judges)} with reviser {reviser:g}" for reviser, judges in by_reviser.items()]
    return "; ".join(said) or "no place"


def _said(share: Share | None) -> str:
    return "none to count" if share is None else percent(share)


def _filled(values: Mapping[str, object]) -> str:
    text = resources.files(__package__).joinpath("texts", "offline.md").read_text(encoding="utf-8")
    return Template(text).substitute(values).rstrip() + "\n"
