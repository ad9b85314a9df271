"""Repeats a logged run: the project's ReAct and reflector, with a model and tools that say what the log says."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from jeeves_reflexion import (
    Attempt,
    ModelError,
    Provenance,
    ReAct,
    Reflection,
    ScriptedModel,
    Session,
    Task,
    Tool,
    Trial,
    as_tool,
)
from jeeves_reflexion.agents.reply import FINISH, parse_reply
from jeeves_reflexion.errors import ConfigurationError, LessonRefusedError
from jeeves_reflexion.protocols import LessonStore
from jeeves_reflexion.reflectors import LessonReflector

from .replay_log import MAX_STEPS, LoggedRun, LoggedStep, LoggedTrial

MISSING: Final = "the log has no such attempt"
ENDED: Final = "the logged attempt ends here without an answer"
NO_REFLECTION: Final = "the log has no (other) reflection on this attempt"

_ARGUMENTS: Final = {"Search": "entity", "Lookup": "keyword", "Finish": "answer"}


def as_reply(step: LoggedStep) -> str:
    """Return a text from which the project's ReAct reads this thought and this action.

    The paper's form, ``Finish[answer]``, is tried first. If it would be misread (an answer in quotes, an odd bracket, a
    thought with a line like an action), the form with JSON, or the thought on one line, replaces it.
    """
    thought, action = step.thought.strip(), step.action.strip()
    name, argument = step.action_type, step.action_arg
    actions = [action]
    if name in _ARGUMENTS:
        actions += [
            f"{name}[{argument}]",
            f"{name} {json.dumps({_ARGUMENTS[name]: argument}, ensure_ascii=False)}",
        ]
    texts = [
        f"Thought: {words}\nAction: {done}"
        for words in (thought, " ".join(thought.split()))
        for done in actions
    ]
    exact = (text for text in texts if _reads(text, step) and parse_reply(text).thought == thought)
    return next(exact, None) or next((text for text in texts if _reads(text, step)), texts[0])


def _reads(text: str, step: LoggedStep) -> bool:
    """Return whether the project's ReAct reads the logged action from a text."""
    reply = parse_reply(text)
    if step.action_type not in _ARGUMENTS:
        return not reply.finished
    if reply.problem or reply.tool != step.action_type:
        return False
    if reply.tool.lower() == FINISH:
        return reply.argument == step.action_arg
    (tool,) = (each for each in logged_tools(()) if each.name == reply.tool)
    arguments = json.loads(tool.from_text(reply.argument) or "{}")
    return bool(arguments == {_ARGUMENTS[reply.tool]: step.action_arg})


def logged_tools(steps: Sequence[LoggedStep]) -> list[Tool]:
    """Return Search and Lookup, which give the observations of these steps in turn."""
    left = deque(step for step in steps if step.action_type in {"Search", "Lookup"})

    def observed(name: str, argument: str) -> str:
        step = left.popleft() if left else None
        if step is None or (step.action_type, step.action_arg) != (name, argument):
            logged = f"{step.action_type}[{step.action_arg}]" if step else "no further step"
            raise ConfigurationError(f"{name}[{argument}] was called, and the log has {logged}")
        return step.observation

    async def search(entity: str) -> str:
        """Search Wikipedia for an entity; returns the first paragraph of its page, or titles like it."""
        return observed("Search", entity)

    async def lookup(keyword: str) -> str:
        """Return the next sentence of the last page that holds a keyword."""
        return observed("Lookup", keyword)

    return [
        as_tool(function, name=name, max_tokens=1_000_000)
        for name, function in (("Search", search), ("Lookup", lookup))
    ]


class _Logged:
    """The logged attempts, by the id of the question and their number."""

    def __init__(self, run: LoggedRun) -> None:
        self._name = run.model
        self._trials = {
            (question.id, trial.trial): trial for question in run.questions for trial in question.trials
        }

    def trial(self, task: Task, number: int) -> LoggedTrial | None:
        return self._trials.get((task.id, number))

    def model(self, replies: Sequence[str], end: str) -> ScriptedModel:
        return ScriptedModel([*replies, ModelError(end)], name=self._name)


class LoggedAgent(_Logged):
    """The project's ReAct over the replies and observations of the logged attempt.

    ``prompts`` has the system prompts that the model got, by the id of the question and the number of the attempt.
    """

    name = "react"

    def __init__(self, run: LoggedRun) -> None:
        super().__init__(run)
        self.prompts: dict[tuple[str, int], str] = {}

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Play the attempt with the session's number."""
        trial = self.trial(task, session.attempt)
        steps = trial.steps if trial else []
        model = self.model([as_reply(step) for step in steps], ENDED if trial else MISSING)
        react = ReAct(model, logged_tools(steps), max_turns=MAX_STEPS, max_repeats=None)
        try:
            return await react(task, session)
        finally:
            self.prompts[task.id, session.attempt] = model.calls[0].messages[0].content


class LoggedReflector(_Logged):
    """The project's reflector, whose model gives the logged reflections on the last trial.

    The loop keeps one lesson per trial. If the log has several reflections on a trial, this class stores all but the
    last in ``lessons``. ``stored`` counts these, ``refused`` describes those that the store refused.
    """

    def __init__(self, run: LoggedRun, lessons: LessonStore) -> None:
        super().__init__(run)
        self._lessons = lessons
        self.stored = 0
        self.refused: list[str] = []

    async def __call__(
        self, task: Task, trials: Sequence[Trial], *, problem: str | None = None
    ) -> Reflection:
        """Return the last logged reflection. Raises ``ModelError`` if there is none, or no other."""
        trial = trials[-1]
        logged = self.trial(task, trial.number)
        texts = logged.learned if logged and problem is None else []
        reflector = LessonReflector(self.model(texts, NO_REFLECTION))
        for _ in texts[:-1]:
            await self._store(task, await reflector(task, trials), trial)
        return await reflector(task, trials, problem=problem)

    async def _store(self, task: Task, reflection: Reflection, trial: Trial) -> None:
        source = Provenance(
            f"replay of {task.id}", trial.number, trial.evaluation.score, created_at=time.time()
        )
        try:
            await self._lessons.record(task.public(), reflection, provenance=source)
        except LessonRefusedError as error:
            self.refused.append(f"trial {trial.number} of {task.id}: a reflection was refused: {error}")
        else:
            self.stored += 1
