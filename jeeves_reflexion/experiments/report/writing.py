"""A report as files in a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from jeeves_reflexion.errors import ExperimentError, MissingDependencyError
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.report.making import make_report
from jeeves_reflexion.experiments.report.markdown import markdown
from jeeves_reflexion.experiments.report.page import page
from jeeves_reflexion.experiments.report.pictures import WHAT, draw, drawable
from jeeves_reflexion.experiments.results import Results
from jeeves_reflexion.files import replace_file


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a report; ``not_drawn`` says why there are no pictures, and is empty where they were drawn."""

    html: Path
    markdown: Path
    pictures: tuple[Path, ...]
    not_drawn: str = ""


def write_report(
    results: Results,
    folder: str | os.PathLike[str],
    *,
    title: str = "Experiment",
    baseline: ArmName | None = None,
    pictures: bool | None = None,
    unit: str = "task",
) -> Written:
    """Write ``report.html``, ``report.md`` and the plots as PNG into a folder, which is made; return their paths.

    ``unit`` is what a task is called, such as ``question``. ``pictures`` of None draws them if matplotlib is installed,
    and True insists on it. Older files of these names are replaced. Blocking, some seconds for thousands of tries: call
    it from a worker thread where there is an event loop.

    Raises :class:`MissingDependencyError` before anything is written, if pictures are insisted on and matplotlib is
    missing; :class:`ConfigurationError` for a baseline that was not run; :class:`ExperimentError` where a file can't be
    written.
    """
    target = Path(folder)
    missing = MissingDependencyError(WHAT, "plot") if pictures is not False and not drawable() else None
    if pictures and missing:
        raise missing
    report = make_report(results, title=title, baseline=baseline, unit=unit)
    html, table = target / "report.html", target / "report.md"
    try:
        target.mkdir(parents=True, exist_ok=True)
        replace_file(html, page(report, results))
        replace_file(table, markdown(report))
        drawn = draw(report, target) if pictures is not False and missing is None else ()
    except OSError as error:
        raise ExperimentError(
            f"the report can't be written to {target}: {error.strerror or error}"
        ) from error
    return Written(html, table, drawn, str(missing or ""))
