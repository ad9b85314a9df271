"""The learning curve as a picture."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from jeeves_reflexion.errors import MissingDependencyError
from jeeves_reflexion.experiments.arms import arm_of
from jeeves_reflexion.experiments.results import Results

COLOURS = {
    "react": "#b0b0b0",
    "retry": "#7f7f7f",
    "last-attempt": "#56b4e9",
    "reflexion": "#009e73",
    "monotonic": "#e69f00",
    "selective": "#0072b2",
    "own": "#009e73",
    "irrelevant": "#cc79a7",
}
MARKERS = {
    "react": "x",
    "last-attempt": "P",
    "reflexion": "D",
    "retry": "s",
    "monotonic": "^",
    "selective": "o",
    "own": "D",
    "irrelevant": "v",
}


def plot_curves(results: Results, path: Path, *, title: str) -> Path:
    """Draw the share of tasks solved by trial for each arm, with 95 % Wilson bands, as a PNG file.

    Raises :class:`MissingDependencyError` without matplotlib. Blocking: call it from a worker thread.
    """
    figure_module = _matplotlib()
    figure = figure_module.Figure(figsize=(7.5, 4.6), dpi=150, layout="constrained")
    axes = figure.subplots()
    for arm in results.arms:
        points = results.curve(arm).points
        if not points:
            continue
        trials = [p.trial for p in points]
        kind = arm_of(arm).kind
        colour = COLOURS[kind]
        axes.fill_between(
            trials,
            [100 * p.share.low for p in points],
            [100 * p.share.high for p in points],
            color=colour,
            alpha=0.12,
        )
        axes.plot(
            trials, [100 * p.share.value for p in points], color=colour, marker=MARKERS[kind], label=arm
        )
    axes.set(xlabel="trial", ylabel="tasks solved so far, %", ylim=(0, 102), title=title)
    axes.set_xticks(range(1, results.trials + 1))
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path)
    return path


def _matplotlib() -> ModuleType:
    try:
        import matplotlib.figure  # noqa: PLC0415 - an optional dependency, loaded where it is used
    except ImportError as error:
        raise MissingDependencyError("drawing learning curves", "plot") from error
    return matplotlib.figure
