"""The report that a run of a benchmark ends with, in its folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio.to_thread

from jeeves_reflexion.experiments import Results
from jeeves_reflexion.experiments.report import Written, write_report


async def write_run_report(results: Results, folder: Path, *, title: str, unit: str) -> Written:
    """Write the report of a run to ``report/`` in its folder; ``unit`` is what a task is called."""
    write = partial(write_report, results, folder / "report", title=title, unit=unit)
    return await anyio.to_thread.run_sync(write)
