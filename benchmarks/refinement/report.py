"""The page of results; its words stand in ``texts/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template

from benchmarks.refinement import tables
from benchmarks.refinement.ends import LONG
from benchmarks.refinement.figures import BOUNDS, WITHIN
from benchmarks.refinement.grid import SENSITIVE, Grid, Place
from benchmarks.refinement.judges import SELF_RATES, Compared
from benchmarks.refinement.outcome import Outcome
from benchmarks.refinement.play import CONTINUATIONS, FURTHER, LOOKS
from benchmarks.refinement.rates import BREAKING, THRESHOLD
from benchmarks.refinement.record import IMPROVEMENT
from benchmarks.refinement.setting import Measured, MeasuredModel, surroundings
from benchmarks.refinement.spending import SPENDING_ERROR
from jeeves_reflexion.statistics import Share, wilson

_TEXTS = resources.files("benchmarks.refinement").joinpath("texts")


def page(found: Measured) -> str:
    """Return the page of an offline measurement."""
    setting = found.setting
    return _filled(
        "offline",
        {
            **_shared(f"the mean of {CONTINUATIONS} tries"),
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
            "alarm": f"{SELF_RATES.alarm:g}",
            "fail": f"{SELF_RATES.fail:g}",
            "spending": f"{SPENDING_ERROR:g}",
            "strict_regions": _block(tables.regions(found.strict)),
            "strict_together": _together(found.strict),
            "loose_regions": _block(tables.regions(found.loose)),
            "loose_together": _together(found.loose),
            "cells": "\n\n".join(_cells(found.strict)),
            "varied": _block(tables.varied(found.varied)),
            "steady": _block(tables.steady(found.steady)),
            "long": LONG,
            "ends": _block(tables.ended(found.ends)),
            "controls": _block(tables.controlled(found.controls)),
            "judges": _block(tables.compared(found.judges)),
            "answer_judges": "\n".join(map(_judges_said, found.judges)),
            "thorough": _block(tables.outcomes(found.thorough, tokens=True)),
            "answer_thorough": _thorough_said(found.thorough),
        },
    )


def model_page(found: MeasuredModel) -> str:
    """Return the page of a measurement with a real model."""
    rows = []
    for bound in tables.SHOWN:
        share = found.figures[bound.figure].share
        rows.append(
            [
                f"{bound.id} {bound.title}",
                f"{bound.least:.0%}",
                tables.share(share),
                _word(share, bound.least),
            ]
        )
    errors = [[name, tables.share(share)] for name, share in found.errors.items()]
    return _filled(
        "model",
        {
            **_shared("one try"),
            "model": found.model,
            "judge": found.judge,
            "command": found.setting.command,
            "seconds": f"{found.seconds:.0f}",
            "runs": sum(found.reasons.values()),
            "reasons": ", ".join(f"{name} {count}" for name, count in sorted(found.reasons.items())),
            "failed": len(found.failures),
            "tokens": f"{found.tokens:,.0f}",
            "bounds": _block(tables.table(["bound", "least", "figure", "holds"], rows)),
            "late": tables.share(found.figures["went_on_past_good"].share),
            "errors": _block(tables.table(["error", "share"], errors)),
            "failures": "\n".join(f"- {one}" for one in found.failures),
        },
    )


def _shared(tries: str) -> dict[str, object]:
    """Return what both pages say, and what their texts refer to."""
    about = surroundings()
    shared: dict[str, object] = {
        "made_with": f"jeeves-reflexion {about['jeeves-reflexion']}, Python {about['python']}, {about['machine']}",
        "threshold": f"{THRESHOLD:g}",
        "improvement": f"{IMPROVEMENT:g}",
        "within": WITHIN,
        "looks": LOOKS,
        "further": FURTHER,
        "tries": tries,
    }
    about_tasks = _filled("tasks", shared).strip()
    return {**shared, "about_tasks": about_tasks, "counting": _filled("counting", shared).strip()}


def _cells(grid: Grid) -> list[str]:
    return [
        part
        for bound in tables.SHOWN
        for part in (
            f"### {bound.id}: {bound.title}, at least {bound.least:.0%}",
            _block(tables.cells(grid, bound)),
        )
    ]


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


def _judges_said(row: Compared) -> str:
    """Say in words what another judge is worth."""
    own, elsewhere, afresh = row.outcomes
    worth = [one.difference for one in (elsewhere, afresh) if one.difference is not None]
    said = [f"{tables.mean(gain, sign=True)}, {_sign(gain.low, gain.high)}" for gain in worth]
    return (
        f"- Misses {row.miss:g}: blind spots elsewhere are worth {said[0]}; misses thrown anew {said[1]}. Passed and "
        f"not good were {own.fooled.value:.0%} of the runs with the writer's own model, {elsewhere.fooled.value:.0%} "
        f"and {afresh.fooled.value:.0%} with the others."
    )


def _thorough_said(rows: Sequence[Outcome]) -> str:
    """Say in words what asking once, and a panel asked once, cost beside the default."""
    default, once, panel = rows[0], rows[3], rows[4]
    gain = "" if panel.difference is None else tables.mean(panel.difference, sign=True)
    return (
        f"Asking once takes {once.tokens / default.tokens:.0%} of the tokens of asking criterion by criterion, and a "
        f"panel of 3 that is asked once {panel.tokens / default.tokens:.0%}, at {gain} in true quality."
    )


def _sign(low: float, high: float) -> str:
    return "better" if low > 0 else "worse" if high < 0 else "no difference that these runs show"


def _word(share: Share | None, least: float) -> str:
    if share is None:
        return "unknown"
    return "yes" if share.low > least else "no" if share.high < least else "open: too few runs to say"


def _filled(name: str, values: Mapping[str, object]) -> str:
    text = _TEXTS.joinpath(f"{name}.md").read_text(encoding="utf-8")
    return Template(text).substitute(values).rstrip() + "\n"


def _block(lines: list[str]) -> str:
    return "\n".join(lines)
