"""The tables of a scoring and of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from jeeves_reflexion.experiments import JudgedBy, Results, cost_table
from jeeves_reflexion.statistics import wilson
from jeeves_reflexion.types import JSON

from ..report import counted_share, table
from .experiment import confusion
from .figures import confusion_table
from .scoring import Scored, by_problem, estimates

JUDGES: Final[Mapping[JudgedBy, str]] = {
    "self": "Self-judged: an attempt stops at its own tests, as in the paper.",
    "oracle": "Oracle-judged: an attempt stops at the hidden tests, which no agent has in practice.",
}

_REASON = 90


def score_table(scored: Sequence[Scored]) -> str:
    """Return the result of a scoring: agreement with the log, what failed and why, and pass@k."""
    logged = [one for one in scored if one.agrees is not None]
    differing = [one for one in logged if not one.agrees]
    solved = sum(one.verdict.passed for one in scored)
    late = sum(one.verdict.status == "timed out" for one in scored)
    empty = sum(not one.sample.solution.strip() for one in scored)
    lines = [
        f"{solved} of {len(scored)} solutions pass the hidden tests; {late} timed out, {empty} are empty."
    ]
    if logged:
        lines.append(
            f"Logged verdicts: {len(logged) - len(differing)} of {len(logged)} agree"
            f" ({sum(bool(one.sample.logged) for one in logged)} logged as solved)."
        )
    shown = [one for one in scored if not one.verdict.passed or one.agrees is False]
    rows = [_row(one) for one in shown] or [("none failed", "", "", "")]
    failed = table(("problem", "logged", "here", "reason"), rows)
    return "\n".join([*lines, "", failed, "", *_estimates(scored)])


def _row(one: Scored) -> tuple[str, str, str, str]:
    words = {True: "solved", False: "not solved", None: "not logged"}
    mark = " **disagrees**" if one.agrees is False else ""
    status = f"{one.verdict.status}{mark}"
    return one.sample.task_id, words[one.sample.logged], status, _cell(one.verdict.reason)


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= _REASON else text[: _REASON - 3] + "..."


def _estimates(scored: Sequence[Scored]) -> list[str]:
    tried = by_problem(scored)
    if len(scored) == len(tried):
        found = wilson(sum(one.verdict.passed for one in scored), len(tried))
        return [f"pass@1: {counted_share(found, 1)}, 95 % Wilson interval over {len(tried)} problems."]
    rows = [(k, f"{found:.1%}") for k, found in enumerate(estimates(tried), 1)]
    note = (
        f"Means over {len(tried)} problems; the highest k is the smallest number of samples of any problem."
    )
    return [table(["k", "pass@k"], rows), "", note]


def run_table(results: Results) -> str:
    """Return a run's tables: the current solutions by the hidden tests, what stopped the attempts, and the cost."""
    self_judged = results.judged_by == "self"
    lines = [
        f"Right by the hidden tests after each trial. {JUDGES[results.judged_by]}",
        "",
        results.table() if not self_judged else _right(results),
    ]
    if self_judged:
        lines += ["", "Passed by their own tests, or handed in without any, so far:", "", results.table()]
        lines += ["", "The last solutions, by both verdicts:", ""]
        lines += [confusion_table({arm: confusion(results, arm) for arm in results.arms})]
    lines += ["", "The cost:", "", cost_table({arm: results.cost(arm) for arm in results.arms})]
    if results.interrupted:
        lines += ["", f"The run was stopped: {results.interrupted}. Continue it with --resume"]
    return "\n".join(lines)


def _right(results: Results) -> str:
    heads = [f"trial {trial}" for trial in range(1, results.trials + 1)]
    rows = []
    for arm in results.arms:
        cells = [counted_share(point.share, 1) for point in results.curve(arm, by="oracle").points]
        cells += ["-" if cells else "not finished"] * (len(heads) - len(cells))
        rows.append([arm, *cells])
    return table(["arm", *heads], rows)


def own_figures(results: Results) -> dict[str, JSON]:
    """Return the verdicts of own tests and hidden tests on the last solutions, as JSON; empty if the oracle judged."""
    if results.judged_by != "self":
        return {}
    return {"own_tests": {arm: confusion(results, arm).as_json() for arm in results.arms}}
