"""Reflection while an agent works: critiques of its steps so far, which it reads before its next step."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from string import Template
from typing import Final, TypeAlias

from jeeves_reflexion.drafts import Trigger
from jeeves_reflexion.errors import HOPELESS, ConfigurationError, described
from jeeves_reflexion.events import Event, Reflected, StepTaken
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.models.fields import says_nothing
from jeeves_reflexion.protocols import ChatModel, Message, Sampling
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Inbox, Session, logger, relay
from jeeves_reflexion.text import fence, read_prompt, render_steps
from jeeves_reflexion.types import Attempt, Step, Task
from jeeves_reflexion.values import check_whole, checked_settings

StepCritic: TypeAlias = Callable[[Task, Attempt, Trigger], Awaitable[str]]
"""Returns what is wrong with the steps so far, in a few sentences, or an empty text."""

_STEADY: Final = Sampling(temperature=0.0)
_STEPS_TOKENS: Final = 3000
_WORD: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
@checked_settings
class Triggers:
    """When to reflect, besides the end of each draft. All triggers are off unless set.

    ``step_interval``: after every n-th step of the agent. ``on_error``: after a step that failed. ``on_tools``: after a
    step that called one of these tools. ``quality_drop``: after a draft whose score dropped by at least this much; the
    loss is analysed, and the next revision is told about it.
    """

    step_interval: int | None = None
    on_error: bool = False
    on_tools: tuple[str, ...] = ()
    quality_drop: float | None = None

    def __post_init__(self) -> None:
        if self.step_interval is not None:
            check_whole("step_interval", self.step_interval)
        if self.quality_drop is not None and not 0 < self.quality_drop <= 1:
            raise ConfigurationError(f"quality_drop must lie above 0 and up to 1, not {self.quality_drop!r}")

    @property
    def any_step(self) -> bool:
        """Whether any trigger concerns steps."""
        return self.step_interval is not None or self.on_error or bool(self.on_tools)

    def of(self, number: int, step: Step) -> Trigger | None:
        """Return the trigger that a step sets off: an error comes before a tool, a tool before the interval."""
        if self.on_error and step.failed:
            return "error"
        called = _WORD.match(step.action.strip())
        if called is not None and called.group() in self.on_tools:
            return "tool_result"
        if self.step_interval is not None and number % self.step_interval == 0:
            return "step_interval"
        return None


class ModelStepCritic:
    """Asks a model what is wrong with an agent's steps so far. An answer of "none" is no critique.

    Raises ``ModelError``.
    """

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    async def __call__(self, task: Task, attempt: Attempt, trigger: Trigger) -> str:
        """Return the critique; empty if there is none."""
        prompt = Template(read_prompt(None, "jeeves_reflexion.refinement", "steps.md"))
        system = prompt.substitute(trigger=trigger.replace("_", " "))
        material = [fence("task", task.prompt), fence("steps", render_steps(attempt.steps, _STEPS_TOKENS))]
        messages = [Message("system", system), Message("user", "\n\n".join(material))]
        text = (await ask(self.model, messages, sampling=_STEADY)).text.strip()
        return "" if says_nothing(text) else text


class Coach:
    """Listens to an agent's steps during one attempt, and leaves critiques in the inbox of its session.

    An agent emits its steps as :class:`StepTaken` events and waits for the listener, so a critique arrives before the
    next step. A critic that fails is reported in the log, and the agent goes on without its critique.
    """

    def __init__(self, task: Task, triggers: Triggers, critic: StepCritic, session: Session) -> None:
        self._task = task
        self._triggers = triggers
        self._critic = critic
        self._outer = session
        self._steps: list[Step] = []
        self.session = replace(session, listener=self._hear, inbox=Inbox())
        """The session for the agent."""
        self.error: Exception | None = None

    async def _hear(self, event: Event) -> None:
        await relay(self._outer, event)
        if not isinstance(event, StepTaken):
            return
        self._steps.append(event.step)
        trigger = self._triggers.of(len(self._steps), event.step)
        if trigger is None:
            return
        try:
            critique = await self._critic(self._task, Attempt(steps=tuple(self._steps)), trigger)
        except HOPELESS as error:
            # A listener can't end the attempt that it listens to; the loop raises this error afterwards.
            self.error = error
        except Exception as error:  # noqa: BLE001 - it is logged
            problem = redact(described(error))
            logger.warning("the critic of steps failed in run %s: %s", self._outer.id, problem)
        else:
            if critique.strip():
                self.session.inbox.put(critique)
            await self._outer.tell(Reflected, trigger=trigger, critique=critique)
