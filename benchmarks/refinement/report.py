"""The page of results, whose words are in ``texts/``, and its figures as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from string import Template

from jeeves_reflexion import __version__
from jeeves_reflexion.statistics import Share, wilson
from jeeves_reflexion.types import JSON

from ..report import machine, percent, share_json, table
from .actors import BREAKING, THRESHOLD, Rates
from .figures import BOUNDS, WITHIN, Bound, Figures, holds
from .measure import SENSITIVE, Grid, Place, Setting
from .play import CONTINUATIONS, FURTHER, IMPROVEMENT, LOOKS, Play

WHERE_SHORT = Bound(
    "S01*", "the same, of runs whose first draft was not good enough", 0.80, "better_where_short"
)
"""An additional bound: a first draft that is already good can hardly be improved."""

SHOWN = (BOUNDS[0], WHERE_SHORT, *BOUNDS[1:])


def page(setting: Setting, grid: Grid, varied: Mapping[str, Figures], seconds: float) -> str:
    """Return the page of a measurement."""
    values = {
        "made_with": f"jeeves-reflexion {__version__}, {machine()}",
        "threshold": f"{THRESHOLD:g}",
        "improvement": f"{IMPROVEMENT:g}",
        "within": WITHIN,
        "looks": LOOKS,
        "further": FURTHER,
        "tries": f"the mean of {CONTINUATIONS} tries",
        "command": command(setting),
        "seconds": f"{seconds:.0f}",
        "workers": setting.workers,
        "runs": setting.runs,
        "tasks": setting.tasks,
        "seeds": len(setting.seeds),
        "right": f"{Rates().right:g}",
        "noise": f"{Rates().noise:g}",
        "most": Play().max_revisions,
        "breaking": f"{BREAKING:g}",
        "sensitive": f"{SENSITIVE:g}",
        "regions": _regions(grid),
        "together": _together(grid, setting.runs),
        "varied": _varied(varied),
    }
    text = resources.files(__package__).joinpath("texts", "offline.md").read_text(encoding="utf-8")
    return Template(text).substitute(values).rstrip() + "\n"


def page_json(setting: Setting, grid: Grid, varied: Mapping[str, Figures], seconds: float) -> dict[str, JSON]:
    """Return every figure of a measurement with its counts."""
    return {
        "command": command(setting),
        "versions": {"jeeves-reflexion": __version__, "machine": machine()},
        "seconds": round(seconds, 1),
        "setting": {**asdict(setting), "runs": setting.runs},
        "bounds": [asdict(bound) for bound in BOUNDS],
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
        "one_assumption_at_a_time": {name: _figures(figures) for name, figures in varied.items()},
    }


def command(setting: Setting) -> str:
    """Return the command that repeats this measurement."""
    axes = dict.fromkeys([_listed(setting.judges), _listed(setting.revisers)])
    seeds = _listed(setting.seeds)
    return (
        f"jeeves-reflexion bench refinement --tasks {setting.tasks} --seeds {seeds} --grid {'/'.join(axes)}"
    )


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(f"{one:g}" for one in numbers)


def _figures(figures: Figures) -> dict[str, JSON]:
    return {name: share_json(share) for name, share in figures.items()}


def _regions(grid: Grid) -> str:
    """Return a table of the judge's error up to which each bound holds, by reviser's error."""
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


def _varied(rows: Mapping[str, Figures]) -> str:
    """Return a table of the figures with one changed assumption, and how often a good draft was revised."""
    written = [
        [name, *(_bold(figures, bound) for bound in SHOWN), _said(figures["went_on_past_good"])]
        for name, figures in rows.items()
    ]
    return table(["", *(bound.id for bound in SHOWN), "late"], written)


def _bold(figures: Figures, bound: Bound) -> str:
    share = figures[bound.figure]
    return f"**{_said(share)}**" if holds(share, bound.least) else _said(share)


def _together(grid: Grid, runs: int) -> str:
    all_five, four = _places(grid.all_hold()), grid.all_hold(but="S04")
    return (
        f"All {len(BOUNDS)} together hold at {all_five}. All but S04 hold at {len(four)} of {len(grid.cells)} places: "
        f"{_places(four)}. (A figure of 100 % over {runs} runs is known to lie above {wilson(runs, runs).low:.1%}.)"
    )


def _places(places: Sequence[Place]) -> str:
    """List places, grouped by the reviser's error."""
    by_reviser: dict[float, list[str]] = {}
    for judge, reviser in places:
        by_reviser.setdefault(reviser, []).append(f"{judge:g}")
    said = [f"judge {', '.join(judges)} with reviser {reviser:g}" for reviser, judges in by_reviser.items()]
    return "; ".join(said) or "no place"


def _said(share: Share | None) -> str:
    return "none to count" if share is None else percent(share)
