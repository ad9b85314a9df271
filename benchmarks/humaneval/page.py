"""The results page of what needs no model."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.humaneval.figures import in_percent, share
from benchmarks.humaneval.internal import Internal
from benchmarks.humaneval.report import internal_table, run_json, run_table
from jeeves_reflexion.experiments import Results

_REPAIRS = """## Reflexion without a model: repairs of programs with a seeded bug

The first attempt is a logged solution in which one change is seeded. Each later one searches small changes of one kind,
at most 60, by the docstring's examples; a lesson says which kind did not help. `retry` starts anew each time, without
lessons. The change that takes the bug back is among those searched: this measures the loop, and what the examples are
worth as judges, not skill in programming. Problems whose logged solution is empty are left out."""


def page(data: str, logged: str, found: Internal, runs: Sequence[Results]) -> str:
    """Return the page as Markdown."""
    agree = sum(one.agrees is True for one in found.logged)
    with_verdict = sum(one.agrees is not None for one in found.logged)
    solved = share(sum(one.verdict.passed for one in found.logged), len(found.logged))
    parts = [
        "# HumanEval without a model",
        (
            f"Written by `python -m benchmarks.humaneval report --data {data} --logged {logged}`. Intervals are"
            " 95 % Wilson intervals; where seeds are pooled, problems repeat, and the intervals are too narrow."
        ),
        "## Logged solutions, scored again",
        (
            f"{agree} of {with_verdict} logged verdicts are confirmed by the hidden tests in the sandbox. Solved:"
            f" {in_percent(solved)}."
        ),
        "## The docstring's examples as tests",
        internal_table(found),
        _REPAIRS,
        *(run_table(one) for one in runs),
    ]
    return "\n\n".join(parts) + "\n"


def figures(internal: dict[str, object], runs: Sequence[Results]) -> dict[str, object]:
    """Return what the page was made of."""
    return {"internal": internal, "repairs": {one.judged_by: run_json(one) for one in runs}}
