"""What came of a run: EM and F1 of the answer that stands after each trial, with intervals over questions.

A question's answer stands until the next attempt gives another; a question that the loop takes for solved is not tried
again. So EM after a trial counts every question, and is the paper's cumulative share of correct answers where the
oracle judges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jeeves_reflexion.experiments import Split, Tried
from jeeves_reflexion.experiments.comparisons import PairedDifference, paired_difference
from vectorstores import JSON

from ..report import Scores
from .evaluators import measure

Metric: TypeAlias = Literal["em", "f1"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attempt at one question. ``passed`` is what the loop's evaluator said, ``em`` and ``f1`` what is true."""

    split: Split
    arm: str
    seed: int
    question: str
    trial: int
    answer: str
    em: float
    f1: float
    passed: bool
    halted: bool
    error: bool
    recalled: int
    tokens: int

    def as_json(self) -> dict[str, JSON]:
        """Return the row as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def outcomes_of(rows: Iterable[Tried], gold: Mapping[str, str]) -> list[Outcome]:
    """Return an experiment's rows, scored."""
    found = []
    for row in rows:
        attempt = row.trial.attempt
        score = measure(attempt, gold[row.task.id])
        found.append(
            Outcome(
                split=row.split,
                arm=row.arm,
                seed=row.seed,
                question=row.task.id,
                trial=row.trial.number,
                answer=attempt.output,
                em=score.em,
                f1=score.f1,
                passed=row.trial.passed,
                halted=attempt.interrupted is not None,
                error=attempt.error is not None,
                recalled=len(row.trial.recall.offered) if row.trial.recall else 0,
                tokens=sum(used.tokens for used in row.trial.usage.values()),
            )
        )
    return found


def standing(rows: Sequence[Outcome], split: Split, arm: str, trial: int, metric: Metric) -> Scores:
    """Return what each question's answer is worth after a trial, by seed."""
    last: dict[tuple[str, int], Outcome] = {}
    for row in rows:
        if row.split == split and row.arm == arm and row.trial <= trial:
            key = (row.question, row.seed)
            if key not in last or last[key].trial < row.trial:
                last[key] = row
    scores: Scores = defaultdict(list)
    for (question, _), row in sorted(last.items()):
        scores[question].append(row.em if metric == "em" else row.f1)
    return dict(scores)


def gain(first: Scores, second: Scores) -> PairedDifference:
    """Return by how much the second is higher, by the sign-flip test over questions, with its 95 % interval."""
    return paired_difference(first, second)


def arms_in(rows: Sequence[Outcome], split: Split) -> list[str]:
    """Return the arms of a split, in the order in which they were played."""
    return list(dict.fromkeys(row.arm for row in rows if row.split == split))
