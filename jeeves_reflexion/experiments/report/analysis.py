"""The figures of a report: arms compared with a baseline on the same tasks, in words and in tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.comparisons import (
    FEWEST,
    LEVEL,
    PairedDifference,
    detectable,
    in_words,
    paired_difference,
)
from jeeves_reflexion.experiments.plan import JudgedBy, Split
from jeeves_reflexion.experiments.results import NOT_FINISHED, Cost, Curve, Results
from jeeves_reflexion.experiments.summary import COST_HEADS, cost_note, cost_rows, markdown_table
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.summary import counted, lift_words
from jeeves_reflexion.text import one_line
from jeeves_reflexion.types import Lift

SHOWN_LESSONS: Final = 40
SCALES: dict[JudgedBy, str] = {
    "oracle": "judged by an oracle, which knows the answer",
    "self": "judged by the agent's own side, which does not know the answer",
}
_HARDLY: Final = 0.75
_BASELINES: Final[tuple[ArmName, ...]] = ("retry", "react", "last-attempt")


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of an arm with the baseline at one trial, over the tasks of the ``seeds`` that both finished.

    ``p_holm`` is the p of the sign-flip test, adjusted for all comparisons of its table (Holm 1979). ``words`` say what
    the comparison shows.
    """

    arm: ArmName
    trial: int
    seeds: int
    difference: PairedDifference
    p_holm: float
    words: str


@dataclass(frozen=True, slots=True)
class Part:
    """The figures of one split of the tasks (learned from, or held out) by one judge."""

    judge: JudgedBy
    split: Split
    tasks: int
    trials: int
    success: tuple[Curve, ...]
    compared: tuple[Compared, ...]
    costs: dict[ArmName, Cost]


@dataclass(frozen=True, slots=True)
class LessonUse:
    """How often a lesson was offered, and its latest lift; None if it was never withheld by chance."""

    arm: ArmName
    text: str
    offered: int
    lift: Lift | None


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of ``results``, with a part for each judge and each split of the tasks."""

    title: str
    results: Results
    baseline: ArmName
    parts: tuple[Part, ...]
    lessons: tuple[LessonUse, ...]


def make_report(results: Results, *, title: str = "Experiment") -> Report:
    """Return the figures of an experiment, finished or not.

    The baseline is the first of retry, react and last-attempt that was run, else the first arm.
    """
    baseline = next((arm for arm in _BASELINES if arm in results.arms), results.arms[0])
    parts = tuple(
        Part(
            judge,
            split,
            len(results.tasks_of(split)),
            results.trials_of(split),
            tuple(results.curve(arm, by=judge, split=split) for arm in results.arms),
            _comparisons(results, judge, split, baseline),
            {arm: results.cost(arm, by=judge, split=split) for arm in results.arms},
        )
        for judge in results.judges
        for split in results.splits
    )
    return Report(title, results, baseline, parts, _lesson_uses(results))


def _comparisons(results: Results, judge: JudgedBy, split: Split, baseline: ArmName) -> tuple[Compared, ...]:
    """Compare each arm with the baseline at the second and the last trial, if they finished a seed in common."""
    last, tasks = results.trials_of(split), results.tasks_of(split)
    clusters = {task.id: results.cluster_of(task) for task in tasks}
    verdicts = {
        arm: {
            seed: {task: results.solved(tries, judge) for task, tries in by_task.items()}
            for seed, by_task in results.finished(arm, split).items()
        }
        for arm in results.arms
    }
    found = []
    for trial in sorted({min(2, last), last}):
        for arm in results.arms:
            seeds = [seed for seed in results.seeds if seed in verdicts[arm] and seed in verdicts[baseline]]
            if arm == baseline or not seeds:
                continue
            first, second = (
                {
                    task.id: [float(verdicts[each][seed][task.id][trial - 1]) for seed in seeds]
                    for task in tasks
                }
                for each in (baseline, arm)
            )
            found.append((arm, trial, len(seeds), paired_difference(first, second, clusters=clusters)))
    compared = []
    adjusted = holm([difference.p for *_, difference in found])
    for (arm, trial, n_seeds, difference), p in zip(found, adjusted, strict=True):
        words = comparison_words(difference)
        if difference.p < LEVEL <= p:
            words += f"; as one of {len(found)} comparisons it is not settled (Holm p = {p:.2f})"
        compared.append(Compared(arm, trial, n_seeds, difference, p, words))
    return tuple(compared)


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust p values for their number, by Holm's step-down rule (1979)."""
    adjusted = [1.0] * len(ps)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = highest
    return adjusted


def comparison_words(found: PairedDifference) -> str:
    """Say what a comparison shows; if it shows nothing, say which difference it would have found."""
    words = f"{in_words(found, found.tasks)}, p = {found.p:.2g}"
    if found.better or found.worse:
        return words
    hardly = f"{words}; so few tasks would hardly show any"
    if found.clusters < FEWEST:
        return hardly
    if found.standard_error == 0.0:
        return f"{words}; all tasks differ alike, which does not show what could be found"
    needed = detectable(found.standard_error)
    if needed >= _HARDLY:
        return hardly
    return f"{words}; about {100 * needed:.0f} points would be needed for 80 % power"


def _lesson_uses(results: Results) -> tuple[LessonUse, ...]:
    """Return the lessons that were offered or withheld, the most offered first."""
    uses: dict[tuple[ArmName, str], LessonUse] = {}
    for row in results.rows:
        recall = row.trial.recall
        for item in (*recall.offered, *recall.withheld) if recall else ():
            text = item.lesson.text
            use = uses.get((row.arm, text)) or LessonUse(row.arm, redact(text), 0, None)
            shown = recall is not None and item in recall.offered
            lifts = [lift for lift in (item.lift, use.lift) if lift is not None]
            # The lift from more tries is the later one, because a ledger only grows.
            later = max(lifts, key=lambda lift: lift.n_with + lift.n_without, default=None)
            uses[row.arm, text] = replace(use, offered=use.offered + shown, lift=later)
    return tuple(sorted(uses.values(), key=lambda use: -use.offered))


# -- tables


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts, whose first column names the rows."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def markdown(report: Report) -> str:
    """Return the figures as Markdown, with tables for each judge and each split of the tasks."""
    lines = [f"# {one_line(report.title)}", "", *facts(report)]
    for part in report.parts:
        lines += ["", f"## {heading(part)}"]
        for table in tables(part, report):
            lines += ["", f"### {table.name}", "", markdown_table(table.heads, table.rows)]
            lines += ["", table.note] if table.note else []
    return "\n".join(lines) + "\n"


def facts(report: Report) -> list[str]:
    """Return sentences that say what was run, and what went wrong."""
    results, tries = report.results, len(report.results.rows)
    amounts = [
        counted(len(results.arms), "arm"),
        counted(results.trials, "trial"),
        counted(len(results.seeds), "seed"),
        counted(len(results.tasks), "task") + " to learn from",
    ]
    amounts += [f"{counted(len(results.held_out), 'task')} held out"] * bool(results.held_out)
    sentences = [f"{tries} tries: {', '.join(amounts)}."]
    if results.interrupted:
        sentences.append(f"The run stopped before its end: {one_line(redact(results.interrupted))}")
    if results.errors:
        sentences.append(f"{results.errors} of {tries} tries ended in an error and count as not solved.")
    if unscored := sum(row.unscored for row in results.rows):
        sentences.append(f"{unscored} of {tries} tries could not be scored and count as not solved.")
    return sentences


def heading(part: Part) -> str:
    """Return the heading of a part."""
    held_out = "held out: lessons come from other tasks"
    what = "that were learned from" if part.split == "learning" else held_out
    return f"{counted(part.tasks, 'task')} {what}; {SCALES[part.judge]}"


def tables(part: Part, report: Report) -> Iterator[Table]:
    """Return the tables of a part, without empty ones."""
    heads = [f"trial {trial}" for trial in range(1, part.trials + 1)]
    if part.split == "held-out":
        heads = ["first try"]
    rows = []
    for curve in part.success:
        cells = [str(point.share) for point in curve.points] or [NOT_FINISHED] * part.trials
        rows.append((curve.arm, str(curve.seeds), *cells))
    note = f"95 % Wilson intervals, {clusters_note(report.results, part.split)}."
    yield Table("Tasks solved so far", ("arm", "seeds", *heads), tuple(rows), note)
    if part.compared:
        yield _comparison_table(part, report)
    scope = "All tries, of unsolved tasks too; solved by the last trial, each seed counted."
    note = f"{scope} {cost_note(part.costs)}".strip()
    yield Table("What it took", COST_HEADS, cost_rows(part.costs), note)


def clusters_note(results: Results, split: Split = "learning") -> str:
    """Say what the unit of the intervals is."""
    if results.cluster == "task":
        return "clustered by task"
    tasks = results.tasks_of(split)
    return f"clustered by opening: the {len(tasks)} tasks have {len(set(map(results.cluster_of, tasks)))}"


def _comparison_table(part: Part, report: Report) -> Table:
    return Table(
        f"Compared with {report.baseline}",
        ("arm", "trial", "what it shows", "tasks", "arm better", "baseline better", "sign-flip p", "Holm p"),
        tuple(
            (
                each.arm,
                str(each.trial),
                each.words,
                str(each.difference.tasks),
                str(each.difference.only_second),
                str(each.difference.only_first),
                *("< 0.001" if p < 0.001 else f"{p:.3f}" for p in (each.difference.p, each.p_holm)),
            )
            for each in part.compared
        ),
        "Pairs of the same tasks, each counted once by the mean of its seeds,"
        f" {clusters_note(report.results, part.split)}. The sign-flip test over tasks, with the 95 % interval of the"
        " differences that it does not reject (Bonett and Price 2012 where that is wider); Holm p is adjusted for the"
        f" {len(part.compared)} comparisons of this table.",
    )


def lesson_table(report: Report) -> Table | None:
    """Return the table of lessons that were offered, with their lift; None if there were none."""
    if not report.lessons:
        return None
    shown, total = report.lessons[:SHOWN_LESSONS], len(report.lessons)
    note = (
        "Lift: mean score with the lesson less that of tries from which it was withheld by chance; unknown without"
        " such tries."
    ) + (f" The {len(shown)} most offered of {total}." if len(shown) < total else "")
    return Table(
        "Lessons that were offered",
        ("lesson", "arm", "offered", "lift (95 % interval)"),
        tuple((use.text[:500], use.arm, str(use.offered), lift_words(use.lift)) for use in shown),
        note,
    )
