"""Logged runs of the paper's authors as data: one JSON line for each question, with its trials.

Strict about the form (a field of another type is an error that names file, line and field), generic about the content:
any number of questions and trials, of steps and reflections. What published logs leave out is ``None`` here, which
means unknown: it is compared with nothing. What can be derived from the rest (numbers, the parts of an action) is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pydantic

from jeeves_reflexion.errors import ConfigurationError

Status: TypeAlias = Literal["correct", "incorrect", "halted", "missing"]

MAX_STEPS: Final = 6
"""How many steps an attempt of the paper's runs may take (``hotpotqa_runs/agents.py``)."""

_OF_THE_RUN: Final = ("run", "model", "n_trials_in_run")
_ACTION: Final = re.compile(r"(\w+)\[(.+)\]")


class _Form(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, frozen=True, extra="ignore")


class LoggedStep(_Form):
    """A thought, an action (``type[argument]``, as the authors' code read it) and what came of it."""

    n: int | None = None
    thought: str | None = None
    action: str | None
    action_type: str | None = None
    action_arg: str | None = None
    observation: str | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _parts_of_the_action(cls, data: object) -> object:
        if not isinstance(data, dict) or data.keys() & {"action_type", "action_arg"}:
            return data
        action = data.get("action")
        parts = _ACTION.fullmatch(action.strip()) if isinstance(action, str) else None
        return {**data, "action_type": parts[1], "action_arg": parts[2]} if parts else data


class LoggedTrial(_Form):
    """One attempt at a question. ``answer`` is None where it did not come to one.

    ``also_halted`` marks a finished attempt that the authors' code counted among the halted ones as well.
    None, there and in the fields that follow, means that the log does not say.
    """

    trial: int
    status: Status
    also_halted: bool | None = None
    steps: list[LoggedStep]
    answer: str | None
    logged_correct: bool | None = None
    em: bool | None = None
    reflections_in_prompt: list[str] | None = None
    reflections_after: list[str] | None = None

    @property
    def correct(self) -> bool:
        """Whether the log says that the answer was right."""
        return self.status == "correct" if self.logged_correct is None else self.logged_correct

    @property
    def learned(self) -> list[str]:
        """The reflections on this attempt that the log holds."""
        return [text for text in self.reflections_after or () if text.strip()]


class LoggedQuestion(_Form):
    """A question with its trials; ``solved_at`` is the number of the trial that was correct, where the log has it."""

    run: str | None = None
    model: str | None = None
    index: int = -1
    id: str
    question: str
    gold: str
    n_trials_in_run: int | None = None
    solved_at: int | None = None
    trials: list[LoggedTrial]


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """All questions of a run, in the order of the file; an attempt may take ``max_steps`` steps.

    ``name`` is the file's where the log has none.
    """

    name: str
    model: str
    n_trials: int
    questions: tuple[LoggedQuestion, ...]
    max_steps: int = MAX_STEPS

    @property
    def reflects(self) -> bool:
        """Whether the log holds any reflection."""
        return any(trial.learned for question in self.questions for trial in question.trials)


def read_log(path: Path, *, max_steps: int = MAX_STEPS) -> LoggedRun:
    """Read a logged run whose attempts had ``max_steps`` steps.

    Raises :class:`ConfigurationError` that names the file, the line and the field; also for an attempt of more steps.
    """
    questions: list[LoggedQuestion] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    questions.append(_question(line, f"{path}, line {number}", questions, max_steps))
    except OSError as error:
        raise ConfigurationError(f"the log {path} can't be read: {error.strerror or error}") from error
    if not questions:
        raise ConfigurationError(f"{path} holds no questions")
    run, model, n_trials = (_known(questions, name) for name in _OF_THE_RUN)
    n_trials = n_trials or max((t.trial for q in questions for t in q.trials), default=1)
    return LoggedRun(run or path.stem, model or "an unnamed model", n_trials, tuple(questions), max_steps)


def _known(questions: Sequence[LoggedQuestion], name: str) -> Any:  # noqa: ANN401 - a field's own type
    """Return what the first line that says it says of the run; None where none does."""
    values = (getattr(question, name) for question in questions)
    return next((value for value in values if value is not None), None)


def _question(line: bytes, where: str, earlier: list[LoggedQuestion], max_steps: int) -> LoggedQuestion:
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
    if problem := _problem(question, earlier) or _misnumbered(question, max_steps):
        raise ConfigurationError(f"{where}: {problem}")
    known = "index" in question.model_fields_set
    return question if known else question.model_copy(update={"index": len(earlier)})


def _problem(question: LoggedQuestion, earlier: list[LoggedQuestion]) -> str:
    """What no field alone can be wrong with."""
    texts = [name for name in ("question", "id") if not getattr(question, name).strip()]
    if texts:
        return f"{texts[0]}: it is empty"
    if question.n_trials_in_run is not None and question.n_trials_in_run < 1:
        return f"n_trials_in_run: it is {question.n_trials_in_run}"
    if any(question.id == other.id for other in earlier):
        return f"id: {question.id!r} stands in the file twice"
    for name in _OF_THE_RUN:
        said, known = getattr(question, name), _known(earlier, name)
        if None not in (said, known) and said != known:
            return f"{name}: {said!r}, and {known!r} in an earlier line"
    return ""


def _misnumbered(question: LoggedQuestion, max_steps: int) -> str:
    numbers = [trial.trial for trial in question.trials]
    last = question.n_trials_in_run or max(numbers, default=1)
    if numbers != sorted(set(numbers)) or not all(1 <= n <= last for n in numbers):
        return f"trials: their numbers are {numbers}, in a run of {last}"
    for trial in question.trials:
        if any(step.n not in (n, None) for n, step in enumerate(trial.steps, 1)):
            return f"trial {trial.trial}: its steps are not numbered from 1 on"
        if len(trial.steps) > max_steps:
            return f"trial {trial.trial}: it took {len(trial.steps)} steps, with a limit of {max_steps} (--max-steps)"
    return ""
