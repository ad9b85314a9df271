"""Exact match and F1 of an answer, as HotpotQA's official script defines them.

The script is ``hotpot_evaluate_v1.py`` of hotpotqa/hotpot (Yang et al. 2018, arXiv 1809.09600). Normalisation has the
same order: lower case, remove ASCII punctuation, remove the words "a", "an" and "the", reduce white space to single
blanks.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from dataclasses import dataclass
from typing import Final

from jeeves_reflexion import Attempt, Evaluation, Evaluator, Task

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_CLOSED: Final = frozenset({"yes", "no", "noanswer"})


@dataclass(frozen=True, slots=True)
class F1:
    """F1 with its precision and recall, over the words of the normalised answers."""

    f1: float
    precision: float
    recall: float


_ZERO: Final = F1(0.0, 0.0, 0.0)


def normalize_answer(text: str) -> str:
    """Normalise an answer for comparison."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> bool:
    """Return whether two answers are equal after normalisation."""
    return normalize_answer(answer) == normalize_answer(gold)


def f1_score(answer: str, gold: str) -> F1:
    """Return F1. If one of the two is "yes", "no" or "noanswer", it is all or nothing.

    Two answers that normalise to nothing (such as "the") match exactly but have an F1 of 0, as in the official script.
    """
    given, wanted = normalize_answer(answer), normalize_answer(gold)
    if given != wanted and (given in _CLOSED or wanted in _CLOSED):
        return _ZERO
    given_words, wanted_words = given.split(), wanted.split()
    shared = (Counter(given_words) & Counter(wanted_words)).total()
    if not shared:
        return _ZERO
    precision, recall = shared / len(given_words), shared / len(wanted_words)
    return F1(2 * precision * recall / (precision + recall), precision, recall)


def f1_of(attempt: Attempt, gold: str) -> float:
    """Return the F1 of an attempt; 0 if it was cut short or ended in an error, whatever its output is."""
    return 0.0 if attempt.error or attempt.interrupted else f1_score(attempt.output, gold).f1


class ExactMatch:
    """An oracle: an attempt passes if its answer is an exact match of the task's reference.

    An attempt that was cut short or ended in an error has failed, whatever its output is. The rationale quotes no gold;
    F1 is among ``criteria_scores``.
    """

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the verdict, without a score if the task has no reference text."""
        if not isinstance(task.reference, str):
            return Evaluation(None, rationale="the task has no answer to compare with")
        if attempt.error or attempt.interrupted:
            return Evaluation(0.0, passed=False, rationale="it did not come to an answer")
        passed = exact_match(attempt.output, task.reference)
        scores = {"f1": f1_of(attempt, task.reference)}
        rationale = "the answer is correct" if passed else "the answer is incorrect"
        return Evaluation(float(passed), passed=passed, rationale=rationale, criteria_scores=scores)


class SelfJudge:
    """A judge that gets the task without its gold answer."""

    def __init__(self, judge: Evaluator) -> None:
        self._judge = judge

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the judge's verdict."""
        return await self._judge(task.public(), attempt)
