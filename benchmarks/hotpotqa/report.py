"""The summary of a run: EM and F1 of the current answer after each trial, and the cost.

An answer is current until the next attempt gives another; a question that the loop considers solved is not tried again.
So EM after a trial counts every question, and equals the paper's cumulative share of correct answers if the oracle
judges. The report of the run compares the arms.
"""

from __future__ import annotations

from typing import Final

from jeeves_reflexion.experiments import ArmName, JudgedBy, Results, cost_table
from jeeves_reflexion.experiments.plan import Split
from jeeves_reflexion.experiments.results import NOT_FINISHED
from jeeves_reflexion.statistics import Difference
from vectorstores import JSON

from ..report import level, percent, table, three_of
from .scorer import f1_of

_JUDGED: Final[dict[JudgedBy, str]] = {
    "oracle": "Judged by the gold answer (exact match).",
    "self": "Judged by a model without the gold answer; EM and F1 are measured too.",
}


def summary(results: Results) -> str:
    """Return the tables of a run and three of its lessons, in Markdown."""
    lines = [
        "EM and F1 by the official definitions, of the current answer after each trial.",
        _JUDGED[results.judged_by],
        "",
        _table(results, "learning"),
    ]
    if results.held_out:
        lines += ["", f"{len(results.held_out)} questions held out, with the lessons of the others:", ""]
        lines += [_table(results, "held-out")]
    if results.judged_by == "self":
        lines += ["", "Passed by their own judge so far:", "", results.table()]
    lines += ["", cost_table({arm: results.cost(arm) for arm in results.arms})]
    if results.interrupted:
        lines += ["", f"The run was stopped: {results.interrupted}. Continue it with --resume"]
    lessons = list(dict.fromkeys(text for arm in results.arms for text in results.lessons(arm)))
    if lessons:
        lines += ["", "Three lessons that it wrote:", "", *(f"- {text}" for text in three_of(lessons))]
    return "\n".join(lines)


def f1_figures(results: Results) -> dict[str, JSON]:
    """Return the mean F1 of each arm by trial, as JSON. EM is among the figures of every run."""
    found: dict[str, JSON] = {
        split: {
            arm: [
                {"value": round(each.value, 4), "low": round(each.low, 4), "high": round(each.high, 4)}
                for each in f1_levels(results, arm, split)
            ]
            for arm in results.arms
        }
        for split in results.splits
    }
    return {"f1": found}


def f1_levels(results: Results, arm: ArmName, split: Split = "learning") -> list[Difference]:
    """Return the mean F1 of the current answers after each trial, over the seeds that an arm finished."""
    scores: dict[str, list[list[float]]] = {}
    for by_task in results.finished(arm, split).values():
        for id, tries in by_task.items():
            f1 = [f1_of(row.trial.attempt, str(row.task.reference)) for row in tries]
            scores.setdefault(id, []).append(f1 + f1[-1:] * results.trials)
    trials = range(results.trials_of(split)) if scores else ()
    return [level({id: [each[trial] for each in seeds] for id, seeds in scores.items()}) for trial in trials]


def _table(results: Results, split: Split) -> str:
    trials = results.trials_of(split)
    rows = []
    for arm in results.arms:
        em = [str(point.share) for point in results.curve(arm, by="oracle", split=split).points]
        f1 = [percent(each, 1) for each in f1_levels(results, arm, split)]
        rows += [[arm, name, *(cells or [NOT_FINISHED] * trials)] for name, cells in (("EM", em), ("F1", f1))]
    return table(["arm", "", *(f"trial {number}" for number in range(1, trials + 1))], rows)
