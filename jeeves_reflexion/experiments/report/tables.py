"""The tables of a report, once for a page and for a paper, which has them in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.report.analysis import Part, Report
from jeeves_reflexion.experiments.results import NOT_FINISHED, Curve
from jeeves_reflexion.experiments.summary import COST_HEADS, cost_note, cost_rows, markdown_table
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.summary import counted
from jeeves_reflexion.text import one_line

SHOWN_LESSONS: Final = 40
SCALES: dict[JudgedBy, str] = {
    "oracle": "judged by an oracle, which knows the answer",
    "self": "judged by the agent's own side, which does not know the answer",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts: the first column names the rows."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def markdown(report: Report) -> str:
    """Return the figures as Markdown; each judge and each part of the tasks has tables of its own."""
    lines = [f"# {one_line(report.title)}", "", *facts(report)]
    for part in report.parts:
        lines += ["", f"## {heading(part, report)}"]
        for table in tables(part, report):
            lines += ["", f"### {table.name}", "", markdown_table(table.heads, table.rows)]
            lines += ["", table.note] if table.note else []
    return "\n".join(lines) + "\n"


def facts(report: Report) -> list[str]:
    """Say what was run, and what is wrong with it, a sentence each."""
    results, unit, tries = report.results, report.unit, len(report.results.rows)
    amounts = [
        counted(len(results.arms), "arm"),
        counted(results.trials, "trial"),
        counted(len(results.seeds), "seed"),
        counted(len(results.tasks), unit) + " to learn from",
    ]
    amounts += [f"{counted(len(results.held_out), unit)} held out"] * bool(results.held_out)
    told = [f"{tries} tries: {', '.join(amounts)}."]
    if results.interrupted:
        told.append(f"The run stopped before its end: {one_line(redact(results.interrupted))}")
    if results.errors:
        told.append(f"{results.errors} of {tries} tries ended in an error and count as not solved.")
    if unscored := sum(not row.trial.evaluation.scored for row in results.rows):
        told.append(f"{unscored} of {tries} tries could not be scored and count as not solved.")
    return told


def heading(part: Part, report: Report) -> str:
    """Say what a part's figures are of."""
    what = (
        "that were learned from"
        if part.split == "learning"
        else f"held out: lessons come from other {report.unit}s"
    )
    return f"{counted(part.tasks, report.unit)} {what}; {SCALES[part.judge]}"


def tables(part: Part, report: Report) -> Iterator[Table]:
    """Return the tables of a part; one that has nothing to say is not there."""
    yield _success(part, report)
    if part.compared:
        yield _compared(part, report)
    yield _spent(part, report)


def _success(part: Part, report: Report) -> Table:
    heads = [f"trial {trial}" for trial in range(1, part.trials + 1)]
    if part.split == "held-out":
        heads = ["first try"]

    def cells(curve: Curve) -> tuple[str, ...]:
        return tuple(str(point.share) for point in curve.points) or (NOT_FINISHED,) * part.trials

    pooled = any(each.seeds > 1 for each in part.success)
    return Table(
        f"{report.unit.capitalize()}s solved so far",
        ("arm", "seeds", *heads),
        tuple((each.arm, str(each.seeds), *cells(each)) for each in part.success),
        "95 % Wilson intervals"
        + ("; seeds are pooled as if their tries were independent." if pooled else "."),
    )


def _compared(part: Part, report: Report) -> Table:
    unit, seeds = report.unit, any(each.seeds > 1 for each in part.compared)
    return Table(
        f"Held against {report.baseline}",
        (
            "arm",
            "trial",
            "what it shows",
            f"{unit}s",
            "arm better",
            "baseline better",
            "sign-flip p",
            "Holm p",
        ),
        tuple(
            (
                each.arm,
                str(each.trial),
                each.words,
                str(each.difference.tasks),
                str(each.difference.only_second),
                str(each.difference.only_first),
                _p_text(each.difference.p),
                _p_text(each.p_holm),
            )
            for each in part.compared
        ),
        f"Pairs of the same {unit}s{', each counted once by the mean of its seeds' if seeds else ''}"
        f": the sign-flip test over {unit}s, with the 95 % interval of the differences that it does not reject"
        " (Bonett and Price 2012 where that is wider); Holm p is adjusted for the"
        f" {len(part.compared)} comparisons of this table.",
    )


def _spent(part: Part, report: Report) -> Table:
    told = f"All tries, of unsolved {report.unit}s too; solved by the last trial, each seed counted."
    note = f"{told} {cost_note(part.costs)}".strip()
    return Table("What it took", COST_HEADS, cost_rows(part.costs), note)


def lesson_table(report: Report) -> Table | None:
    """Return the lessons that were offered, with their lift; None where none was."""
    if not report.lessons:
        return None
    shown, total = report.lessons[:SHOWN_LESSONS], len(report.lessons)
    note = (
        "Lift: mean score with the lesson less that of tries from which it was withheld by chance; unknown without"
        " such tries. How many tries passed after a lesson is no proof that it helped: it was offered where it seemed"
        " to fit."
    ) + (f" The {len(shown)} most offered of {total}." if len(shown) < total else "")
    return Table(
        "Lessons that were offered",
        ("lesson", "arm", "offered", "then passed", "lift (95 % interval)"),
        tuple((use.text[:500], use.arm, str(use.offered), str(use.passed), use.lift_text) for use in shown),
        note,
    )


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
