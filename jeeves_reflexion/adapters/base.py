"""The base of adapters: it records the steps and usage of an attempt, and makes an attempt of a framework's result."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeVar

import anyio
from pydantic_core import PydanticSerializationError, to_json

from jeeves_reflexion.errors import ConfigurationError, SessionError, described, hopeless, programming_error
from jeeves_reflexion.events import StepTaken
from jeeves_reflexion.session import Session, current_scope
from jeeves_reflexion.text import cut_middle, prompt_of, render_blocks
from jeeves_reflexion.types import NO_USAGE, UNKNOWN_USAGE, Attempt, Step, Task, Usage

T = TypeVar("T")
OWN: Final = "each attempt begins a conversation of its own"
_STEP_TOKENS: Final = 2000


@dataclass(slots=True)
class Trace:
    """The steps and the usage of one attempt, reported to the session as they happen.

    An adapter sets ``interrupted`` if a limit of the framework ended the attempt, ``output`` to the output so far, and
    ``thought`` to what the model says beside its tool calls: it goes with the first of them.
    """

    session: Session
    steps: list[Step] = field(default_factory=list)
    usage: Usage = NO_USAGE
    interrupted: str | None = None
    output: object = ""
    thought: str = ""

    async def tool(
        self,
        name: str,
        arguments: object,
        result: object,
        *,
        thought: str | None = None,
        failed: bool = False,
    ) -> None:
        """Record a tool call and its result, with the thought that waits for one unless another is given."""
        if thought is None:
            thought, self.thought = self.thought, ""
        action = f"{name} {text_of(arguments)}".strip()
        step = Step(thought.strip(), action, cut_middle(text_of(result), _STEP_TOKENS), failed=failed)
        self.steps.append(step)
        await self.session.tell(StepTaken, number=len(self.steps), step=step)

    def used(self, calls: int, input_tokens: int | None, output_tokens: int | None) -> None:
        """Charge model calls. No input tokens means unknown usage: frameworks write 0 if the endpoint reports nothing.

        Raises :class:`BudgetExceededError` if the run has used up its budget.
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
    """An agent of a framework as an agent of ours.

    Each attempt gets the recalled lessons in the framework's own instructions, and a new conversation. The wrapped
    agent is never changed, so one agent serves many runs at once.
    """

    retry_safe: bool = True
    made_per_attempt: bool = False
    """Whether the framework's agents take instructions only at construction: then a function makes one each time."""

    def __init__(self, agent: Any) -> None:  # noqa: ANN401 - whatever the framework has
        self.agent = agent
        self.name = str(getattr(agent, "name", None) or type(agent).__name__)

    @abstractmethod
    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent once with ``lessons``, which may be empty, in its instructions, and return its answer."""

    async def __call__(self, task: Task, session: Session) -> Attempt[Any]:
        """Try the task once.

        An error of the framework after the first step becomes ``Attempt.error`` beside the steps. An earlier one is
        raised, as are programming errors and errors that no retry would fix.
        """
        trace, started = Trace(session), time.monotonic()
        session.spend.check()
        error = None
        try:
            work = self.attempt(prompt_of(task), render_blocks(session.blocks), trace)
            trace.output = await _in_task(work)
        except Exception as raised:
            if not trace.steps or programming_error(raised) or hopeless(raised):
                raise
            error = described(raised)
        return trace.attempt(error=error, seconds=time.monotonic() - started)


class OptionsAdapter(Adapter):
    """An adapter whose ``options`` go to the framework's own call.

    ``refused`` has the options that the adapter sets itself, each with the reason. Raises
    :class:`ConfigurationError` for one of them.
    """

    framework: ClassVar[str]
    refused: ClassVar[Mapping[str, str]]

    def __init__(self, agent: Any, **options: Any) -> None:  # noqa: ANN401 - whatever the framework has
        super().__init__(agent)
        for name in self.refused.keys() & options.keys():
            raise ConfigurationError(f"{self.framework}: {name}= can't be set: {self.refused[name]}")
        self.options = options


def text_of(value: object) -> str:
    """Return a value as text: a text unchanged, data as JSON, anything else by ``str``."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Iterator):  # to_json would consume it
        return str(value)
    try:
        return to_json(value).decode()
    except PydanticSerializationError:
        return str(value)


def joined(*texts: str | None) -> str:
    """Join the texts that are not blank with blank lines between them."""
    return "\n\n".join(text for text in texts if text and text.strip())


def adapter_for(adapter: Callable[..., Adapter], *kinds: type) -> Callable[..., Adapter | None]:
    """Return a function that makes an adapter of an agent and options, or returns None for objects of other classes."""
    return lambda agent, **options: adapter(agent, **options) if isinstance(agent, kinds) else None


async def _in_task(work: Coroutine[Any, Any, T]) -> T:
    """Run the work of a framework that needs asyncio in a task of its own.

    The task is cancelled once, as asyncio does, and its end is awaited. Without it, anyio would cancel each ``await``
    of the framework's cleanup again. Raises :class:`SessionError` on another event loop.
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
                task.exception()  # retrieved, so that asyncio does not report it a second time
