"""How benchmarks write down what they found: Markdown tables, figures with intervals, the machine, the files."""

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
"""The scores of each task by its id, such as one for each seed that tried it."""


class Interval(Protocol):
    """A figure with the bounds of an interval for the true one."""

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
    """Return what adds ``--out`` to a command, the folder that ``files`` are written to."""
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("docs/results"),
        show_default=True,
        help=f"Folder for {files}.",
    )


def write_result(folder: Path, name: str, figures: object, page: str) -> None:
    """Write a page, and what it was made of as JSON beside it; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(page, encoding="utf-8")


async def write_run_report(results: Results, folder: Path, *, title: str) -> Written:
    """Write the report of a run to ``report/`` in its folder."""
    write = partial(write_report, results, folder / "report", title=title)
    return await anyio.to_thread.run_sync(write)


def tell_quarters(say: Callable[[str], None], what: str, done: int, total: int) -> None:
    """Say how far something is, at each quarter."""
    if done == total or done * 4 // total > (done - 1) * 4 // total:
        say(f"{what}: {done} of {total}")


def machine() -> str:
    """Describe the machine in a few words: Python, system, processor, cores."""
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


def row(*cells: object) -> str:
    """Return one line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    return "\n".join([row(*heads), "| --- " * len(heads) + "|", *(row(*cells) for cells in rows)])


def percent(figure: Interval, digits: int = 0) -> str:
    """Write a share from 0 to 1 in per cent, with its interval."""
    return f"{figure.value:.{digits}%} ({figure.low:.{digits}%} to {figure.high:.{digits}%})"


def counted_share(found: Share | None, digits: int = 0) -> str:
    """Write a share with what it was counted from, and its interval."""
    return "none" if found is None else f"{found.successes}/{found.n} = {percent(found, digits)}"


def level(scores: Scores) -> Difference:
    """Return the mean over tasks, with the 95 % Wilson interval of that number; it is wide for graded scores.

    Several scores of a task (seeds, programs) add no tasks, so they narrow nothing. Raises ``ValueError`` for none.
    """
    if not scores:
        raise ValueError("no task was tried")
    n, mean = len(scores), fmean(fmean(each) for each in scores.values())
    centre, scale = mean + Z95 * Z95 / (2 * n), 1 + Z95 * Z95 / n
    spread = Z95 * math.sqrt(mean * (1 - mean) / n + Z95 * Z95 / (4 * n * n))
    return Difference(mean, max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0))


def share_of(flags: Iterable[bool]) -> Share | None:
    """Return the share of what is true, with its Wilson interval; None of nothing."""
    found = list(flags)
    return wilson(sum(found), len(found)) if found else None


def points(figure: Interval, digits: int = 1) -> str:
    """Write a difference of shares in points of per cent, with its interval."""
    value, low, high = (f"{100 * each:+.{digits}f}" for each in (figure.value, figure.low, figure.high))
    return f"{value} points ({low} to {high})"


def figure_text(figure: Interval, digits: int = 2, *, scale: float = 1.0, sign: bool = False) -> str:
    """Write any figure with its interval, times ``scale``."""
    form = f"{'+' if sign else ''}.{digits}f"
    value, low, high = (f"{scale * each:{form}}" for each in (figure.value, figure.low, figure.high))
    return f"{value} ({low} to {high})"


def share_json(found: Share | None, name: str = "successes") -> dict[str, JSON] | None:
    """Return a share as JSON; ``name`` is what its successes are called."""
    if found is None:
        return None
    return {name: found.successes, "n": found.n, "low": round(found.low, 4), "high": round(found.high, 4)}


def three_of(texts: Sequence[str]) -> list[str]:
    """Return the first, the middle and the last."""
    return [texts[i] for i in sorted({0, len(texts) // 2, len(texts) - 1})]
