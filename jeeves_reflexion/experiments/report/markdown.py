"""A report's tables in Markdown, for a paper or a pull request."""

from __future__ import annotations

from jeeves_reflexion.experiments.comparisons import counted
from jeeves_reflexion.experiments.report.tables import Table, heading, tables
from jeeves_reflexion.experiments.report.values import Report


def markdown(report: Report) -> str:
    """Return the figures as Markdown; each judge and each part of the tasks has tables of its own."""
    lines = [f"# {one_line(report.title)}", "", *facts(report)]
    for part in report.parts:
        lines += ["", f"## {heading(part, report)}"]
        for table in tables(part, report):
            lines += ["", f"### {table.name}", "", *_table(table)]
    return "\n".join(lines) + "\n"


def facts(report: Report) -> list[str]:
    """Say what was run, and what is wrong with it, a sentence each."""
    amounts = [
        counted(len(report.arms), "arm"),
        counted(report.trials, "trial"),
        counted(len(report.seeds), "seed"),
        counted(report.learning_tasks, report.unit) + " to learn from",
    ]
    amounts += [f"{counted(report.held_out_tasks, report.unit)} held out"] * bool(report.held_out_tasks)
    told = [f"{report.tries} tries: {', '.join(amounts)}."]
    if report.interrupted:
        told.append(f"The run stopped before its end: {one_line(report.interrupted)}")
    if report.errors:
        told.append(f"{report.errors} of {report.tries} tries ended in an error and count as not solved.")
    if report.unscored:
        told.append(f"{report.unscored} of {report.tries} tries could not be scored and count as not solved.")
    return told


def one_line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def _table(table: Table) -> list[str]:
    rows = [table.heads, tuple("---" for _ in table.heads), *table.rows]
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return [*lines, "", table.note] if table.note else lines


def _cell(text: str) -> str:
    return one_line(text).replace("|", r"\|")
