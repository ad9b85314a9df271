"""A report as files in a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.report.analysis import make_report
from jeeves_reflexion.experiments.report.page import page
from jeeves_reflexion.experiments.report.plots import lifts, plots
from jeeves_reflexion.experiments.report.tables import markdown
from jeeves_reflexion.experiments.results import Results
from jeeves_reflexion.files import replace_file


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a report: the page, its tables, and its plots as SVG."""

    html: Path
    markdown: Path
    pictures: tuple[Path, ...]


def write_report(
    results: Results,
    folder: str | os.PathLike[str],
    *,
    title: str = "Experiment",
    baseline: ArmName | None = None,
    unit: str = "task",
) -> Written:
    """Write ``report.html``, ``report.md`` and the plots as SVG into a folder, which is made; return their paths.

    ``unit`` is what a task is called, such as ``question``. Older files of these names are replaced. Blocking, some
    seconds for thousands of tries: call it from a worker thread where there is an event loop.

    Raises :class:`ConfigurationError` for a baseline that was not run; :class:`ExperimentError` where a file can't be
    written.
    """
    target = Path(folder)
    report = make_report(results, title=title, baseline=baseline, unit=unit)
    drawn = [plot for part in report.parts for plot in plots(part, report)]
    if (lift := lifts(report.lessons)) is not None:
        drawn.append(lift)
    texts = {f"{plot.name}.svg": plot.file() for plot in drawn}
    texts |= {"report.html": page(report, results), "report.md": markdown(report)}
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            replace_file(target / name, text)
    except OSError as error:
        raise ExperimentError(
            f"the report can't be written to {target}: {error.strerror or error}"
        ) from error
    pictures = tuple(target / f"{plot.name}.svg" for plot in drawn)
    return Written(target / "report.html", target / "report.md", pictures)
