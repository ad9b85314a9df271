"""How benchmarks write their results: Markdown tables, figures with intervals, the machine, the files."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol, TypeAlias, TypeVar

import anyio.to_thread
import click

from jeeves_reflexion.experiments import Results
from jeeves_reflexion.experiments.report import Written, write_report
from jeeves_reflexion.statistics import Z95, Difference, Share, wilson
from jeeves_reflexion.types import JSON

F = TypeVar("F", bound=Callable[..., Any] | click.Command)
Scores: TypeAlias = dict[str, list[float]]
"""The scores of each task by its id, for example one for each seed."""


class Interval(Protocol):
    """A figure with the bounds of its interval."""

    @property
    def value(self) -> float:
        """The figure."""
        ...

    @property
    def low(self) -> float:
        """The lower bound."""
        ...

    @property
    def high(self) -> float:
        """The upper bound."""
        ...


def out_option(files: str) -> Callable[[F], F]:
    """Return the decorator for ``--out``, the folder that ``files`` are written to."""
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("docs/results"),
        show_default=True,
        help=f"Folder for {files}.",
    )


def write_result(folder: Path, name: str, figures: object, page: str) -> None:
    """Write a page as ``name.md`` and its figures as ``name.json``; makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(page, encoding="utf-8")


async def write_run_report(results: Results, folder: Path, *, title: str) -> Written:
    """Write the report of a run to ``report/`` in its folder."""
    write = partial(write_report, results, folder / "report", title=title)
    return await anyio.to_thread.run_sync(write)


def tell_quarters(say: Callable[[str], None], what: str, done: int, total: int) -> None:
    """Report progress at each quarter."""
    if done == total or done * 4 // total > (done - 1) * 4 // total:
        say(f"{what}: {done} of {total}")


def machine() -> str:
    """Describe the machine: Python, system, processor, cores."""
    return (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}{_processor()}, "
        f"{os.cpu_count()} cores"
    )


def _processor() -> str:
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    names = [line.partition(":")[2].strip() for line in about.splitlines() if line.startswith("model name")]
    return f" ({names[0]})" if names else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (heads, ["---"] * len(heads), *rows))


def percent(figure: Interval, digits: int = 0) -> str:
    """Write a share from 0 to 1 as a percentage, with its interval."""
    return f"{figure.value:.{digits}%} ({figure.low:.{digits}%} to {figure.high:.{digits}%})"


def counted_share(found: Share | None, digits: int = 0) -> str:
    """Write a share with its counts and its interval."""
    return "none" if found is None else f"{found.successes}/{found.n} = {percent(found, digits)}"


def level(scores: Scores) -> Difference:
    """Return the mean over tasks with its 95 % Wilson interval, which is too wide for graded scores.

    Several scores of one task (seeds, programs) do not narrow the interval. Raises ``ValueError`` if there is no task.
    """
    if not scores:
        raise ValueError("no task was tried")
    n, mean = len(scores), fmean(fmean(each) for each in scores.values())
    centre, scale = mean + Z95 * Z95 / (2 * n), 1 + Z95 * Z95 / n
    spread = Z95 * math.sqrt(mean * (1 - mean) / n + Z95 * Z95 / (4 * n * n))
    return Difference(mean, max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0))


def share_of(flags: Iterable[bool]) -> Share | None:
    """Return the share of true flags with its Wilson interval, or None if there are no flags."""
    found = list(flags)
    return wilson(sum(found), len(found)) if found else None


def points(figure: Interval, digits: int = 1) -> str:
    """Write a difference of shares in percentage points, with its interval."""
    value, low, high = (f"{100 * each:+.{digits}f}" for each in (figure.value, figure.low, figure.high))
    return f"{value} points ({low} to {high})"


def figure_text(figure: Interval, digits: int = 2, *, scale: float = 1.0, sign: bool = False) -> str:
    """Write a figure with its interval, multiplied by ``scale``."""
    form = f"{'+' if sign else ''}.{digits}f"
    value, low, high = (f"{scale * each:{form}}" for each in (figure.value, figure.low, figure.high))
    return f"{value} ({low} to {high})"


def share_json(share: Share | None) -> dict[str, JSON] | None:
    """Return a share as JSON."""
    if share is None:
        return None
    low, high = round(share.low, 4), round(share.high, 4)
    return {"successes": share.successes, "n": share.n, "low": low, "high": high}


def three_of(texts: Sequence[str]) -> list[str]:
    """Return the first text, the middle one and the last."""
    return [texts[i] for i in sorted({0, len(texts) // 2, len(texts) - 1})]
