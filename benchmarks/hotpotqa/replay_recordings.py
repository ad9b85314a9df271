"""Makes recordings of a logged run, and binds them to the attempts of the project's own loop.

Equal prompts have different completions in the logs, so a recording is played by its place: the question, the number of
the trial, and who asks. Agent and reflector say where they are; the model below them is an ordinary
:class:`~jeeves_reflexion.models.RecordedModel`.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final

from jeeves_reflexion import Attempt, Provenance, ReAct, Reflection, Session, Task, Tool, Trial, as_tool
from jeeves_reflexion.agents.reply import FINISH, parse_reply
from jeeves_reflexion.errors import ConfigurationError, LessonRefusedError
from jeeves_reflexion.models import Exchange, RecordedError, RecordedModel, recording_at
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.protocols import Completion, LessonStore, Message
from jeeves_reflexion.reflectors import LessonReflector

from .replay_log import MAX_STEPS, LoggedQuestion, LoggedRun, LoggedStep, LoggedTrial

MISSING: Final = "the log holds no such attempt"
ENDED: Final = "the logged attempt ends here without an answer"
NO_REFLECTION: Final = "the log holds no (other) reflection on this attempt"

_ARGUMENTS: Final = {"Search": "entity", "Lookup": "keyword", "Finish": "answer"}
_asked: Final[ContextVar[tuple[str, int]]] = ContextVar("hotpotqa_replay_asked")
_observations: Final[ContextVar[deque[LoggedStep]]] = ContextVar("hotpotqa_replay_observations")


def place(number: int, trial: int, role: str) -> str:
    """Return where a recording belongs; ``number`` is the question's place in the file."""
    return f"question {number}/trial {trial}/{role}"


def recordings(run: LoggedRun) -> Iterator[Exchange]:
    """Return the exchanges of a run: for every attempt that the loop could make, what it hears, and where it ends."""
    for number, question in enumerate(run.questions):
        logged = {trial.trial: trial for trial in question.trials}
        for n in range(1, run.n_trials + 1):
            for role, answers in (
                ("agent", _attempt(logged.get(n))),
                ("reflector", _reflection(logged.get(n))),
            ):
                for answer in answers:
                    yield Exchange(run.model, answer, at=place(number, n, role))


def _attempt(trial: LoggedTrial | None) -> list[Completion | RecordedError]:
    if trial is None:
        return [RecordedError("ModelError", MISSING)]
    return [*(Completion(as_reply(step)) for step in trial.steps), RecordedError("ModelError", ENDED)]


def _reflection(trial: LoggedTrial | None) -> list[Completion | RecordedError]:
    said = trial.learned if trial else []
    return [*map(Completion, said), RecordedError("ModelError", NO_REFLECTION)]


def as_reply(step: LoggedStep) -> str:
    """Return the text from which the project's ReAct reads this thought and this action.

    The paper's form, ``Finish[answer]``, is tried first. Where it would be read otherwise (an answer in quotes, an odd
    bracket, a thought with a line like an action), the form with JSON, or the thought on one line, takes its place.
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
        f"Thought: {said}\nAction: {done}"
        for said in (thought, " ".join(thought.split()))
        for done in actions
    ]
    exact = (text for text in texts if _reads(text, step) and parse_reply(text).thought == thought)
    return next(exact, None) or next((text for text in texts if _reads(text, step)), texts[0])


def _reads(text: str, step: LoggedStep) -> bool:
    """Whether the project's ReAct reads the logged action in a text."""
    reply = parse_reply(text)
    if step.action_type not in _ARGUMENTS:
        return not reply.finished
    if reply.problem or reply.tool != step.action_type:
        return False
    if reply.tool.lower() == FINISH:
        return reply.argument == step.action_arg
    arguments = json.loads(_TOOLS[reply.tool].from_text(reply.argument) or "{}")
    return bool(arguments == {_ARGUMENTS[reply.tool]: step.action_arg})


async def _search(entity: str) -> str:
    """Search Wikipedia for an entity; returns the first paragraph of its page, or titles like it."""
    return _observed("Search", entity)


async def _lookup(keyword: str) -> str:
    """Return the next sentence of the last page that holds a keyword."""
    return _observed("Lookup", keyword)


_TOOLS: Final[dict[str, Tool]] = {
    name: as_tool(function, name=name, max_tokens=1_000_000)
    for name, function in (("Search", _search), ("Lookup", _lookup))
}


def _observed(name: str, argument: str) -> str:
    steps = _observations.get()
    step = steps.popleft() if steps else None
    if step is None or (step.action_type, step.action_arg) != (name, argument):
        logged = f"{step.action_type}[{step.action_arg}]" if step else "no further step"
        raise ConfigurationError(f"{name}[{argument}] was called, and the log has {logged}")
    return step.observation


class _Overheard(WrappedModel):
    """Notes the system prompt of each attempt."""

    def __init__(self, model: RecordedModel, prompts: dict[tuple[str, int], str]) -> None:
        super().__init__(model)
        self._prompts = prompts

    async def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - its own
        self._prompts[_asked.get()] = messages[0].content
        return await super().complete(messages, **settings)


class LoggedAgent:
    """The project's ReAct, whose model and tools say what the log holds for the question and the attempt at hand.

    ``prompts`` are the system prompts that the model got, by the id of the question and the number of the attempt.
    """

    name = "react"

    def __init__(self, model: RecordedModel, questions: Sequence[LoggedQuestion]) -> None:
        self.model = model
        self.prompts: dict[tuple[str, int], str] = {}
        self._questions = {question.id: (n, question) for n, question in enumerate(questions)}
        self._react = ReAct(
            _Overheard(model, self.prompts), list(_TOOLS.values()), max_turns=MAX_STEPS, max_repeats=None
        )

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Play the attempt of the session's number."""
        number, question = self._questions[task.id]
        trial = next((each for each in question.trials if each.trial == session.attempt), None)
        steps = trial.steps if trial else []
        token = _observations.set(deque(step for step in steps if step.action_type in _TOOLS))
        asked = _asked.set((task.id, session.attempt))
        try:
            with recording_at(place(number, session.attempt, "agent")):
                return await self._react(task, session)
        finally:
            _observations.reset(token)
            _asked.reset(asked)


class LoggedReflector:
    """The project's reflector, whose model says what the log holds after the last of the trials.

    The loop keeps one lesson a trial. Where the log has several reflections on one, those before the last go into
    ``lessons`` from here. ``stored`` counts them, ``refused`` says which ones the store did not let in.
    """

    def __init__(
        self, model: RecordedModel, questions: Sequence[LoggedQuestion], lessons: LessonStore
    ) -> None:
        self._questions = {question.id: (n, question) for n, question in enumerate(questions)}
        self._reflector = LessonReflector(model)
        self._lessons = lessons
        self.stored = 0
        self.refused: list[str] = []

    async def __call__(
        self, task: Task, trials: Sequence[Trial], *, problem: str | None = None
    ) -> Reflection:
        """Return the last logged reflection; raises ``ModelError`` where there is none."""
        number, question = self._questions[task.id]
        trial = trials[-1]
        logged = next((each for each in question.trials if each.trial == trial.number), None)
        with recording_at(place(number, trial.number, "reflector")):
            for _ in logged.learned[:-1] if logged and problem is None else ():
                await self._store(task, await self._reflector(task, trials), trial)
            return await self._reflector(task, trials, problem=problem)

    async def _store(self, task: Task, reflection: Reflection, trial: Trial) -> None:
        source = Provenance(
            f"replay of {task.id}", trial.number, trial.evaluation.score, created_at=time.time()
        )
        try:
            await self._lessons.record(task.public(), reflection, provenance=source)
        except LessonRefusedError as error:
            self.refused.append(f"trial {trial.number} of {task.id}: a reflection was not let in: {error}")
        else:
            self.stored += 1
