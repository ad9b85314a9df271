"""The report as one HTML file: no script, nothing from elsewhere, and a policy that has the browser refuse both.

What can be opened or chosen are elements that browsers have for it, so that a keyboard and a reader of screens work.
"""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.report.analysis import Part, Report, make_report
from jeeves_reflexion.experiments.report.html import Html, element, joined
from jeeves_reflexion.experiments.report.plots import curves
from jeeves_reflexion.experiments.report.stories import stories
from jeeves_reflexion.experiments.report.tables import Table, facts, heading, markdown, tables
from jeeves_reflexion.experiments.results import Results
from jeeves_reflexion.files import replace_file

SHOWN_LESSONS: Final = 40

_JUDGES: Final = {"oracle": "judged by an oracle", "self": "judged by the agent's own side"}


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
    drawn = [plot for part in report.parts if (plot := curves(part, report))]
    texts = {f"{plot.name}.svg": plot.file() for plot in drawn}
    texts |= {"report.html": page(report), "report.md": markdown(report)}
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


def page(report: Report) -> str:
    """Return the page of a report."""
    parts = joined(_part(part, report, number) for number, part in enumerate(report.parts, 1))
    body = element(
        "body",
        element("a", "To the tasks", href="#tasks", class_="skip"),
        element(
            "header",
            element("h1", report.title),
            (element("p", told) for told in facts(report)),
            _contents(report),
        ),
        element(
            "main",
            _findings(report),
            parts,
            _lessons(report),
            element("section", element("h2", "Tasks"), stories(report.results), id="tasks"),
        ),
    )
    return "<!doctype html>\n" + element("html", _head(report), body, lang="en")


def _head(report: Report) -> Html:
    style = files("jeeves_reflexion.experiments.report").joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    # Texts of models are escaped; should one slip through all the same, the browser runs and loads nothing.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", report.title),
        element("style", Html(style)),
    )


def _contents(report: Report) -> Html:
    links = [(f"#part-{number}", _short(part)) for number, part in enumerate(report.parts, 1)]
    links += [("#lessons", "Lessons")] * bool(report.lessons) + [("#tasks", "Tasks")]
    return element("nav", (element("a", name, href=href) for href, name in links), aria_label="Contents")


def _short(part: Part) -> str:
    return f"{'Learning' if part.split == 'learning' else 'Held-out'} tasks, {_JUDGES[part.judge]}"


def _findings(report: Report) -> Html | None:
    """What the comparisons show at the last trial, for a reader of one minute."""
    found = [part for part in report.parts if part.compared]
    if not found:
        return None
    lists = []
    for part in found:
        said = [each for each in part.compared if each.trial == part.trials]
        lists.append(element("h3", f"{_short(part)}, trial {part.trials}"))
        lists.append(
            element("ul", [element("li", element("b", each.arm), f": {each.words}") for each in said])
        )
    head = element("h2", f"What it shows, held against {report.baseline}")
    return element("section", head, lists, class_="findings")


def _part(part: Part, report: Report, number: int) -> Html:
    plot = curves(part, report)
    return element(
        "section",
        element("h2", _short(part)),
        element("p", heading(part, report)),
        plot.figure() if plot else None,
        (_table(table, f"table-{number}-{i}") for i, table in enumerate(tables(part, report), 1)),
        id=f"part-{number}",
    )


def _table(table: Table, key: str) -> Html:
    head = element("tr", (element("th", name, scope="col") for name in table.heads))
    rows = (
        element(
            "tr",
            element("th", row[0], scope="row"),
            (element("td", cell, class_="words" if len(cell) > 40 else None) for cell in row[1:]),
        )
        for row in table.rows
    )
    whole = element("table", element("thead", head), element("tbody", rows))
    return joined(
        [
            element("h3", table.name, id=key),
            # A box that scrolls has to be reached by the keyboard.
            element("div", whole, class_="scroll", tabindex=0, role="region", aria_labelledby=key),
            element("p", table.note, class_="note") if table.note else None,
        ]
    )


def _lessons(report: Report) -> Html | None:
    if not report.lessons:
        return None
    shown, total = report.lessons[:SHOWN_LESSONS], len(report.lessons)
    rows = tuple((use.text[:500], use.arm, str(use.offered), str(use.passed), use.lift_text) for use in shown)
    note = (
        "Lift: mean score with the lesson less that of tries from which it was withheld by chance; unknown without"
        " such tries. How many tries passed after a lesson is no proof that it helped: it was offered where it seemed"
        " to fit."
    ) + (f" The {len(shown)} most offered of {total}." if len(shown) < total else "")
    heads = ("lesson", "arm", "offered", "then passed", "lift (95 % interval)")
    table = _table(Table("Lessons that were offered", heads, rows, note), "table-lessons")
    return element("section", element("h2", "Lessons"), table, id="lessons")
