"""Reads the logged runs of the paper's authors: one JSON line for each question, with its trials."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pydantic

from ..records import read_rows

Status: TypeAlias = Literal["correct", "incorrect", "halted"]
Strategy: TypeAlias = Literal["base", "last_trial", "reflexion", "last_trial_and_reflexion"]
"""What an attempt sees of earlier attempts, by the names of the authors' ``ReflexionStrategy``."""

MAX_STEPS: Final = 6
"""How many steps an attempt of the paper's runs may take (``hotpotqa_runs/agents.py``)."""


class _Form(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, frozen=True, extra="ignore")


class LoggedStep(_Form):
    """A thought, an action (``type[argument]``, as the authors' code read it) and its observation."""

    thought: str
    action: str
    action_type: str
    action_arg: str
    observation: str


class LoggedTrial(_Form):
    """One attempt at a question; ``answer`` is None if it gave none.

    ``also_halted`` marks a finished attempt that the authors' code also counted as halted.
    """

    trial: int
    status: Status
    also_halted: bool
    steps: list[LoggedStep]
    answer: str | None
    logged_correct: bool
    reflections_in_prompt: list[str]
    reflections_after: list[str]

    @property
    def learned(self) -> list[str]:
        """The reflections on this attempt."""
        return [text for text in self.reflections_after if text.strip()]


class LoggedQuestion(_Form):
    """A question with its trials; ``solved_at`` is the number of the correct trial, if any."""

    run: str
    model: str
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
        """Whether the log has any reflection."""
        return any(trial.learned for question in self.questions for trial in question.trials)

    @property
    def strategy(self) -> Strategy:
        """What the attempts saw: the run's name says whether the last attempt, the log whether reflections."""
        if "last_trial" in self.name:
            return "last_trial_and_reflexion" if self.reflects else "last_trial"
        return "reflexion" if self.reflects else "base"


def read_log(path: Path) -> LoggedRun:
    """Read a logged run. Raises :class:`ConfigurationError`, which names the file, the line and the field."""
    questions = [question for _, question in read_rows(path, LoggedQuestion, "a question of a logged run")]
    first_line = questions[0]
    return LoggedRun(first_line.run, first_line.model, first_line.n_trials_in_run, tuple(questions))
