"""What adapters share: one attempt's steps and usage, and the way from a framework's result to an attempt."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import anyio
from pydantic_core import PydanticSerializationError, to_json

from jeeves_reflexion.errors import ConfigurationError, SessionError, described, hopeless, programming_error
from jeeves_reflexion.events import StepTaken
from jeeves_reflexion.models.near_json import json_or_none
from jeeves_reflexion.session import Session, current_scope
from jeeves_reflexion.text import cut_middle, render_blocks
from jeeves_reflexion.types import NO_USAGE, UNKNOWN_USAGE, Attempt, Step, Task, Usage

T = TypeVar("T")
OWN: Final = "each attempt begins a conversation of its own"
_STEP_TOKENS: Final = 2000


@dataclass(slots=True)
class Trace:
    """The steps and the usage of one attempt, told to the session as they happen.

    An adapter sets ``interrupted`` where the framework's own limit ended the attempt, and ``output`` to what it has
    until then.
    """

    session: Session
    steps: list[Step] = field(default_factory=list)
    usage: Usage = NO_USAGE
    interrupted: str | None = None
    output: object = ""

    async def tool(
        self, name: str, arguments: object, result: object, *, thought: str = "", failed: bool = False
    ) -> None:
        """Note a call of a tool and what came of it."""
        action = f"{name} {text_of(arguments)}".strip()
        step = Step(thought.strip(), action, cut_middle(text_of(result), _STEP_TOKENS), failed=failed)
        self.steps.append(step)
        await self.session.tell(StepTaken, number=len(self.steps), step=step)

    def used(self, calls: int, input_tokens: int | None, output_tokens: int | None) -> None:
        """Charge model calls. Frameworks write zeros where the endpoint reports nothing: that is unknown, too.

        Raises :class:`BudgetExceededError` where the run has used up its budget.
        """
        if calls <= 0:
            return
        unknown = 0 if input_tokens else calls
        usage = Usage(calls, input_tokens or 0, output_tokens or 0, cost_usd=None, unreported=unknown)
        self.usage += usage
        scope = current_scope()
        self.session.spend.charge("agent" if scope is None else scope[1], usage)
        self.session.spend.check()

    def attempt(self, *, error: str | None = None, seconds: float = 0.0) -> Attempt[Any]:
        """Return the attempt."""
        return Attempt(
            text_of(self.output),
            steps=tuple(self.steps),
            usage=self.usage if self.usage.calls else UNKNOWN_USAGE,
            error=error,
            interrupted=self.interrupted,
            seconds=seconds,
            value=None if isinstance(self.output, str) else self.output,
        )


class Adapter(ABC):
    """An agent of a framework, as an agent of ours.

    Each attempt gets the recalled lessons in the framework's own instructions, and a conversation of its own. Nothing
    of the wrapped agent is changed, so one agent serves many runs at once.
    """

    retry_safe: bool = True
    made_per_attempt: bool = False
    """Whether lessons reach its instructions only when an agent is made: then a function makes one each time."""

    def __init__(self, agent: Any) -> None:  # noqa: ANN401 - whatever the framework has
        self.agent = agent
        self.name = str(getattr(agent, "name", None) or type(agent).__name__)

    @abstractmethod
    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent once and return its answer; ``lessons``, which may be empty, go into its instructions."""

    async def __call__(self, task: Task, session: Session) -> Attempt[Any]:
        """Try the task once.

        What the framework raises after the first step becomes ``Attempt.error`` beside the steps; what it raises
        before is raised, as are programming errors and what no retry would mend.
        """
        trace, started = Trace(session), time.monotonic()
        session.spend.check()
        prompt = task.prompt
        if task.expected_output:
            prompt = f"{prompt}\n\nForm of the answer: {task.expected_output}"
        error = None
        try:
            trace.output = await _in_task(self.attempt(prompt, render_blocks(session.blocks), trace))
        except Exception as raised:
            if not trace.steps or programming_error(raised) or hopeless(raised):
                raise
            error = described(raised)
        return trace.attempt(error=error, seconds=time.monotonic() - started)


def text_of(value: object) -> str:
    """Return arguments, a result or an answer as text: a text as it is, data as JSON, else what ``str`` says."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Iterator):  # JSON would use it up
        return str(value)
    try:
        return to_json(value).decode()
    except PydanticSerializationError:
        return str(value)


def joined(*texts: str | None) -> str:
    """Return the texts that say something, a blank line between them."""
    return "\n\n".join(text for text in texts if text and text.strip())


def arguments_of(text: str) -> object:
    """Return what a model wrote as arguments: data where it is JSON, else the text."""
    value = json_or_none(text)
    return text if value is None else value


def adapter_for(adapter: Callable[..., Adapter], *kinds: type) -> Callable[..., Adapter | None]:
    """Return what makes an adapter of an object and options; for an object of other kinds it returns None."""
    return lambda agent, **options: adapter(agent, **options) if isinstance(agent, kinds) else None


def refuse(options: Mapping[str, object], framework: str, **reasons: str) -> None:
    """Raise :class:`ConfigurationError` for an option that an adapter sets itself."""
    for name in reasons.keys() & options.keys():
        raise ConfigurationError(f"{framework}: {name}= can't be set: {reasons[name]}")


async def _in_task(work: Coroutine[Any, Any, T]) -> T:
    """Await the work of a framework that knows asyncio alone, in a task of its own.

    A cancellation reaches it once, as asyncio's own would, and its end is waited for: anyio would cancel each step of
    its cleaning up anew. Raises :class:`SessionError` on another event loop.
    """
    try:
        task = asyncio.get_running_loop().create_task(work)
    except RuntimeError:
        work.close()
        raise SessionError("agents of other frameworks need asyncio: they can't run on trio") from None
    try:
        return await asyncio.shield(task)
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # looked at, so that asyncio does not report it a second time
