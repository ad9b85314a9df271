"""The plots of a report as PNG files, by matplotlib (the extra ``plot``)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from jeeves_reflexion.errors import MissingDependencyError
from jeeves_reflexion.experiments.report.values import LessonUse, Part, Report

WHAT: Final = "drawing a report's plots as PNG"
SHOWN_LIFTS: Final = 20

_COLOURS: Final = ("#0067a8", "#c05800", "#00805c", "#b0478a", "#646b77", "#8f6f00", "#5b49b8", "#a8281f")
_MARKS: Final = ("o", "s", "^", "D")
_DASHES: Final = ("-", "--", ":")


def drawable() -> bool:
    """Say whether matplotlib is installed, without loading it."""
    return find_spec("matplotlib") is not None


def draw(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write a PNG file for each plot that there are figures for, and return them.

    Raises :class:`MissingDependencyError` without matplotlib, ``OSError`` where a file can't be written. Blocking.
    """
    module = _matplotlib()
    drawn: list[Path | None] = []
    for part in report.parts:
        name = f"{part.split}-{part.judge}-judged"
        drawn.append(_curves(module, part, report, folder / f"curves-{name}.png"))
        drawn.append(_tokens(module, part, report, folder / f"tokens-{name}.png"))
    drawn.append(_lifts(module, report.lessons, folder / "lifts.png"))
    return tuple(path for path in drawn if path is not None)


def _curves(module: ModuleType, part: Part, report: Report, path: Path) -> Path | None:
    known = [each for each in part.success if each.points]
    if not known or part.trials < 2:
        return None
    figure, axes = _axes(module)
    for each in known:
        place = report.arms.index(each.arm)
        trials = [p.trial + report.beside(each.arm) for p in each.points]
        low, high = ([100 * bound for bound in bounds] for bounds in zip(*_bounds(each.points), strict=True))
        axes.fill_between(trials, low, high, color=_COLOURS[place % len(_COLOURS)], alpha=0.12, linewidth=0)
        axes.plot(trials, [100 * p.share.value for p in each.points], label=each.arm, **_style(place))
    axes.set(xlabel="trial", ylabel=_solved(part, report), ylim=(0, 102))
    axes.set_xticks(range(1, part.trials + 1))
    return _save(figure, axes, path)


def _bounds(points: Any) -> list[tuple[float, float]]:  # noqa: ANN401 - points of a curve
    return [(p.share.low, p.share.high) for p in points]


def _tokens(module: ModuleType, part: Part, report: Report, path: Path) -> Path | None:
    pairs = [
        (success, spent.tokens_by_trial)
        for success, spent in zip(part.success, part.spent, strict=True)
        if success.points and spent.tokens_by_trial is not None
    ]
    if not pairs or part.trials < 2:
        return None
    figure, axes = _axes(module)
    for success, tokens in pairs:
        shares = [100 * point.share.value for point in success.points]
        axes.plot(tokens, shares, label=success.arm, **_style(report.arms.index(success.arm)))
    axes.set(xlabel=f"tokens per {report.unit} so far", ylabel=_solved(part, report), ylim=(0, 102))
    axes.set_xlim(0, 1.06 * max(tokens[-1] for _, tokens in pairs))
    return _save(figure, axes, path)


def _lifts(module: ModuleType, uses: tuple[LessonUse, ...], path: Path) -> Path | None:
    known = [use for use in uses if use.lift and use.lift.value is not None]
    if not known:
        return None
    half = SHOWN_LIFTS // 2
    shown = known if len(known) <= SHOWN_LIFTS else [*known[:half], *known[-half:]]
    figure, axes = _axes(module)
    for i, use in enumerate(shown):
        lift = use.lift
        if lift is None or lift.value is None:
            continue
        if lift.low is not None and lift.high is not None:
            axes.plot([lift.low, lift.high], [i, i], color=_COLOURS[0], linewidth=1.5)
        axes.plot([lift.value], [i], marker="o", color=_COLOURS[0])
    axes.axvline(0, color="#646b77", linewidth=1)
    # A dollar sign would begin a formula.
    names = [" ".join(use.text.split())[:60].replace("$", r"\$") for use in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=6)
    axes.tick_params(axis="x", labelsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="lift in score")
    return _save(figure, axes, path, legend=False)


def _solved(part: Part, report: Report) -> str:
    return f"{report.unit}s solved so far, % ({part.judge}-judged)"


def _style(place: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[place % len(_COLOURS)],
        "marker": _MARKS[place % len(_MARKS)],
        "linestyle": _DASHES[place // len(_COLOURS) % len(_DASHES)],
    }


def _axes(module: ModuleType) -> tuple[Any, Any]:
    figure = module.Figure(figsize=(6.4, 4.2), dpi=200, layout="constrained")
    axes = figure.subplots()
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Any, axes: Any, path: Path, *, legend: bool = True) -> Path:  # noqa: ANN401 - of matplotlib
    if legend:
        axes.legend(loc="best", frameon=False, fontsize=8)
    figure.savefig(path)
    return path


def _matplotlib() -> ModuleType:
    try:
        import matplotlib.figure  # noqa: PLC0415 - an optional dependency, loaded where it is used
    except ImportError as error:
        raise MissingDependencyError(WHAT, "plot") from error
    return matplotlib.figure
