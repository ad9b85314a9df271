"""The tables of a report, once for a page and for a paper, which has them in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jeeves_reflexion.experiments.comparisons import counted
from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.report.values import Compared, Part, Report, Spent, Success
from jeeves_reflexion.statistics import Share
from jeeves_reflexion.text import one_line

NOT_FINISHED = "not finished"
UNKNOWN = "unknown"
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
            rows = (table.heads, ("---",) * len(table.heads), *table.rows)
            lines += ["", f"### {table.name}", ""]
            lines += [
                "| " + " | ".join(one_line(cell).replace("|", r"\|") for cell in row) + " |" for row in rows
            ]
            lines += ["", table.note] if table.note else []
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
    if part.reliability:
        yield _reliability(part, report)
    yield _spent(part, report)


def _success(part: Part, report: Report) -> Table:
    heads = [f"trial {trial}" for trial in range(1, part.trials + 1)]
    if part.split == "held-out":
        heads = ["first try"]

    def cells(success: Success) -> tuple[str, ...]:
        return tuple(share_text(point.share) for point in success.points) or (NOT_FINISHED,) * part.trials

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
        tuple(_comparison(each) for each in part.compared),
        f"Pairs of the same {unit}s{', each counted once by the mean of its seeds' if seeds else ''}"
        f": the sign-flip test over {unit}s, with the 95 % interval of the differences that it does not reject"
        " (Bonett and Price 2012 where that is wider); Holm p is adjusted for the"
        f" {len(part.compared)} comparisons of this table.",
    )


def _comparison(each: Compared) -> tuple[str, ...]:
    found = each.difference
    return (
        each.arm,
        str(each.trial),
        each.words,
        str(found.tasks),
        str(found.only_second),
        str(found.only_first),
        p_text(found.p),
        p_text(each.p_holm),
    )


def _reliability(part: Part, report: Report) -> Table:
    ks = sorted({each.k for each in part.reliability})
    found = {(each.arm, each.k): each for each in part.reliability}
    rows = []
    for arm in dict.fromkeys(each.arm for each in part.reliability):
        known = [found.get((arm, k)) for k in ks]
        any_ = ("" if each is None else f"{each.any:.1%}" for each in known)
        every = ("" if each is None else f"{each.every:.1%}" for each in known)
        rows.append((arm, *any_, *every))
    return Table(
        f"Several runs of a {report.unit}",
        ("arm", *(f"pass@{k}" for k in ks), *(f"pass^{k}" for k in ks)),
        tuple(rows),
        f"At trial {part.trials}, over seeds: pass@k is the chance that one of k runs solves a {report.unit}, pass^k"
        " that all do (unbiased estimates).",
    )


def _spent(part: Part, report: Report) -> Table:
    heads = ("arm", "tries", "solved", "seconds", "tokens", "USD")
    return Table(
        "What it took",
        (*heads, "seconds per solved", "tokens per solved", "USD per solved"),
        tuple(_cost(each) for each in part.spent),
        f"All tries, of unsolved {report.unit}s too; solved by the last trial, each seed counted. Unknown: nobody"
        " reported it.",
    )


def _cost(each: Spent) -> tuple[str, ...]:
    if not each.tries:
        return (each.arm, "0", *(NOT_FINISHED,) * 7)
    nothing = "" if each.solved else "none solved"
    return (
        each.arm,
        str(each.tries),
        f"{each.solved}/{each.played}",
        number(each.seconds),
        number(each.tokens),
        number(each.cost_usd, money=True),
        nothing or number(each.per_solved(each.seconds)),
        nothing or number(each.per_solved(each.tokens)),
        nothing or number(each.per_solved(each.cost_usd), money=True),
    )


def share_text(share: Share) -> str:
    """Return a share with its interval, such as ``12/40 = 30% (18 to 45)``."""
    return (
        f"{share.successes}/{share.n} = {share.value:.0%} ({100 * share.low:.0f} to {100 * share.high:.0f})"
    )


def p_text(p: float) -> str:
    """Return a p value as a paper prints it."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def number(value: float | None, *, money: bool = False) -> str:
    """Return an amount with as many digits as say something; the word for it where it is unknown."""
    if value is None:
        return UNKNOWN
    if money:
        return f"{value:.4f}" if value < 1 else f"{value:,.2f}"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
