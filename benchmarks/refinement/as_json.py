"""The results as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.refinement.figures import BOUNDS, Figure, Mean
from benchmarks.refinement.grid import Grid
from benchmarks.refinement.outcome import Outcome
from benchmarks.refinement.setting import Measured, MeasuredModel, Setting, surroundings
from jeeves_reflexion.statistics import Share
from jeeves_reflexion.types import JSON


def measured(found: Measured) -> dict[str, JSON]:
    """Return an offline measurement: every figure with its counts."""
    return {
        **_head(found.setting, found.seconds),
        "bounds": [asdict(bound) for bound in BOUNDS],
        "grids": {"each_criterion_vetoes": _grid(found.strict), "overall_score_alone": _grid(found.loose)},
        "one_assumption_at_a_time": {row.name: _figures(row.figures) for row in found.varied},
        "steadiness": [
            {"judge": row.name, "error": row.error, "within": _share(row.within), "apart": _mean(row.apart)}
            for row in found.steady
        ],
        "ends": [
            {
                "error": end.error,
                "reason": end.reason,
                "right": _share(end.right),
                "quality": _mean(end.quality),
                "revisions": _mean(end.revisions),
            }
            for end in found.ends
        ],
        "controls": [{"error": row.error, "arms": _outcomes(row.outcomes)} for row in found.controls],
        "judges": [{"miss": row.miss, "arms": _outcomes(row.outcomes)} for row in found.judges],
        "thoroughness": _outcomes(found.thorough),
    }


def measured_model(found: MeasuredModel) -> dict[str, JSON]:
    """Return a measurement with a real model."""
    return {
        **_head(found.setting, found.seconds),
        "model": found.model,
        "judge": found.judge,
        "bounds": [asdict(bound) for bound in BOUNDS],
        "figures": _figures(found.figures),
        "errors": {name: _share(share) for name, share in found.errors.items()},
        "reasons": dict(found.reasons),
        "failures": list(found.failures),
        "tokens_per_run": found.tokens,
    }


def _head(setting: Setting, seconds: float) -> dict[str, JSON]:
    return {
        "command": setting.command,
        "versions": surroundings(),
        "seconds": round(seconds, 1),
        "setting": {**asdict(setting), "runs": setting.runs},
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


def _figures(figures: Mapping[str, Figure]) -> dict[str, JSON]:
    return {name: _share(figure.share) for name, figure in figures.items()}


def _outcomes(rows: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [
        {
            "name": row.name,
            "quality": _mean(row.quality),
            "met": _share(row.met),
            "fooled": _share(row.fooled),
            "difference": _mean(row.difference) if row.difference else None,
            "revisions": round(row.revisions, 3),
            "tokens": round(row.tokens, 1),
        }
        for row in rows
    ]


def _share(share: Share | None) -> dict[str, JSON] | None:
    if share is None:
        return None
    return {
        "successes": share.successes,
        "n": share.n,
        "low": round(share.low, 4),
        "high": round(share.high, 4),
    }


def _mean(mean: Mean) -> dict[str, JSON]:
    return {name: round(value, 4) for name, value in asdict(mean).items()}
