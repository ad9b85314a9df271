"""Logged runs of the paper's authors as data: one JSON line for each question, with its trials.

Strict about the form (a field that is missing or of another type is an error that names file, line and field), generic
about the content: any number of questions and trials, of steps and reflections.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import pydantic

from jeeves_reflexion.errors import ConfigurationError

Status: TypeAlias = Literal["correct", "incorrect", "halted", "missing"]


class _Form(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, frozen=True, extra="ignore")


class LoggedStep(_Form):
    """A thought, an action (``type[argument]``, as the authors' code read it) and what came of it."""

    n: int
    thought: str | None
    action: str | None
    action_type: str | None
    action_arg: str | None
    observation: str | None


class LoggedTrial(_Form):
    """One attempt at a question. ``answer`` is None where it did not come to one.

    ``also_halted`` marks a finished attempt that the authors' code counted among the halted ones as well.
    """

    trial: int
    status: Status
    also_halted: bool
    steps: list[LoggedStep]
    answer: str | None
    logged_correct: bool | None
    em: bool | None
    reflections_in_prompt: list[str]
    reflections_after: list[str]


class LoggedQuestion(_Form):
    """A question with its trials; ``solved_at`` is the number of the trial that was correct."""

    run: str
    model: str
    source: str
    index: int
    id: str
    question: str
    gold: str
    n_trials_in_run: int
    solved_at: int | None
    trials: list[LoggedTrial]


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """All questions of a run, in the order of the file."""

    name: str
    model: str
    n_trials: int
    questions: tuple[LoggedQuestion, ...]

    @property
    def reflects(self) -> bool:
        """Whether the log holds any reflection."""
        return any(trial.reflections_after for question in self.questions for trial in question.trials)

    @property
    def max_steps(self) -> int:
        """How many steps an attempt may take: the most that one took, if any was halted, else one more."""
        trials = [trial for question in self.questions for trial in question.trials]
        longest = max((len(trial.steps) for trial in trials), default=0)
        return max(longest, 1) if any(trial.status == "halted" for trial in trials) else longest + 1


def read_log(path: Path) -> LoggedRun:
    """Read a logged run. Raises :class:`ConfigurationError` that names the file, the line and the field."""
    questions: list[LoggedQuestion] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    questions.append(_question(line, f"{path}, line {number}", questions))
    except OSError as error:
        raise ConfigurationError(f"the log {path} can't be read: {error.strerror or error}") from error
    if not questions:
        raise ConfigurationError(f"{path} holds no questions")
    first = questions[0]
    return LoggedRun(first.run, first.model, first.n_trials_in_run, tuple(questions))


def _question(line: bytes, where: str, earlier: list[LoggedQuestion]) -> LoggedQuestion:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise ConfigurationError(f"{where}: it is no JSON: {error}") from error
    try:
        question = LoggedQuestion.model_validate(data)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the line"
        raise ConfigurationError(f"{where}: {field}: {first['msg']}") from error
    if problem := _problem(question, earlier):
        raise ConfigurationError(f"{where}: {problem}")
    return question


def _problem(question: LoggedQuestion, earlier: list[LoggedQuestion]) -> str:
    """What no field alone can be wrong with."""
    texts = [name for name in ("question", "id") if not getattr(question, name).strip()]
    if texts:
        return f"{texts[0]}: it is empty"
    if question.n_trials_in_run < 1:
        return f"n_trials_in_run: it is {question.n_trials_in_run}"
    if any(question.id == other.id for other in earlier):
        return f"id: {question.id!r} stands in the file twice"
    for name in ("run", "model", "n_trials_in_run"):
        if earlier and getattr(question, name) != getattr(earlier[0], name):
            return f"{name}: {getattr(question, name)!r}, and {getattr(earlier[0], name)!r} in the first line"
    return _misnumbered(question)


def _misnumbered(question: LoggedQuestion) -> str:
    numbers = [trial.trial for trial in question.trials]
    if numbers != sorted(set(numbers)) or not all(1 <= n <= question.n_trials_in_run for n in numbers):
        return f"trials: their numbers are {numbers}, in a run of {question.n_trials_in_run}"
    for trial in question.trials:
        if [step.n for step in trial.steps] != list(range(1, len(trial.steps) + 1)):
            return f"trial {trial.trial}: its steps are not numbered from 1 on"
    return ""
