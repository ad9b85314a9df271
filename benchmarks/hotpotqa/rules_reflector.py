"""The offline reflector and the offline self-judge: what is wrong with an attempt, by rules, without the gold answer.

They see what the agent saw: the question, the steps and the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jeeves_reflexion import Attempt, Evaluation, Reflection, Task, Trial

from .extractive import READ, TITLES
from .lesson_words import write_lesson
from .wording import PHRASES, Kind, wanted, wording_of
from .words import words

_YEAR: Final = re.compile(r"(?:1[0-9]{3}|20[0-4][0-9])")
_MONTH: Final = re.compile(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
_ONE_PAGE_EACH: Final[frozenset[Kind | None]] = frozenset({"yes_no", "option"})
"""Questions about the pages that they name: others would not tell more."""


def write_reflection(task: Task, trials: Sequence[Trial]) -> Reflection:
    """Return the lesson of the last of the trials, one sentence; no model is asked."""
    refused = [trial.attempt.output for trial in trials if not trial.passed]
    kind = wanted(wording_of(task.prompt))
    page = "" if kind in _ONE_PAGE_EACH else _unread(task.prompt, trials)
    refused = list(dict.fromkeys(refused))
    return Reflection(write_lesson(task.prompt, kind=kind, refused=refused, page=page))


def faults(question: str, attempt: Attempt) -> list[str]:
    """Return what speaks against an answer, as far as words can tell."""
    answer, kind = attempt.output.strip(), wanted(wording_of(question))
    if not answer:
        return ["there is no answer"]
    found = []
    if kind is not None and not _looks_like(kind, answer):
        found.append(f"the question asks for {PHRASES[kind]}, and {answer!r} does not look like it")
    if kind != "option" and words(answer) and words(answer) <= words(question):
        found.append("the answer only repeats words of the question")
    return found


async def judge_by_rules(task: Task, attempt: Attempt) -> Evaluation:
    """Judge an attempt without the gold answer: it passes where no rule speaks against it."""
    if attempt.error or attempt.interrupted:
        return Evaluation(0.0, passed=False, rationale="it did not come to an answer")
    found = faults(task.prompt, attempt)
    return Evaluation(float(not found), passed=not found, issues=tuple(found), rationale="; ".join(found))


def _unread(question: str, trials: Sequence[Trial]) -> str:
    """A title that some attempt saw and none read; of these the one that shares most words with the question."""
    read = {title for trial in trials for title in _strings(trial.attempt, READ)}
    seen = dict.fromkeys(title for trial in trials for title in _strings(trial.attempt, TITLES))
    asked = words(question)
    return max(
        (title for title in seen if title not in read), key=lambda t: len(words(t) & asked), default=""
    )


def _strings(attempt: Attempt, key: str) -> list[str]:
    found = attempt.metadata.get(key)
    return [str(each) for each in found] if isinstance(found, list) else []


def _looks_like(kind: Kind, answer: str) -> bool:
    match kind:
        case "yes_no":
            return answer.lower() in {"yes", "no"}
        case "year":
            return bool(_YEAR.fullmatch(answer))
        case "date":
            return bool(_MONTH.search(answer) or _YEAR.search(answer))
        case "number":
            return any(c.isdigit() for c in answer) or answer.islower()
        case "person" | "place" | "name" | "option":
            return any(c.isupper() for c in answer) and not _YEAR.fullmatch(answer)
        case "description":
            return answer[0].islower() or " " in answer
