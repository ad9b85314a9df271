"""A model that gives scripted replies, for tests."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import anyio.lowlevel

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models.ask import metered
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.text import estimate_tokens
from jeeves_reflexion.types import JSON, Usage

Reply: TypeAlias = str | Completion
Script: TypeAlias = Callable[[Sequence[Message]], Reply | Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One call of a :class:`ScriptedModel`."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, JSON] | None = None
    sampling: Sampling | None = None


class ScriptedModel:
    """Gives the replies of a script, one per call, and keeps every call in ``calls``.

    ``replies`` is a sequence (exceptions in it are raised in their turn), or a sync or async function of the messages.
    The usage of a text reply is *estimated* from the texts, a quarter of their characters, at a cost of 0 USD, so that
    budgets can be tested; a :class:`~jeeves_reflexion.protocols.Completion` is returned unchanged. A call beyond the
    script raises :class:`~jeeves_reflexion.errors.ConfigurationError`.
    """

    def __init__(
        self,
        replies: Sequence[Reply | Exception] | Script,
        *,
        name: str = "scripted",
        supports_tools: bool = False,
    ) -> None:
        if isinstance(replies, str):
            raise ConfigurationError("ScriptedModel takes a list of replies or a function, not one text")
        self._replies = replies if callable(replies) else tuple(replies)
        self._name = name
        self._supports_tools = supports_tools
        self.calls: list[ScriptedCall] = []

    @property
    def name(self) -> str:
        """The given name; ``scripted`` by default."""
        return self._name

    @property
    def supports_tools(self) -> bool:
        """Whether it acts as a model with native tools."""
        return self._supports_tools

    @metered
    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Give the next reply of the script, or raise it."""
        number = len(self.calls)
        self.calls.append(ScriptedCall(tuple(messages), tuple(tools), schema, sampling))
        # Like a real call, this one lets cancellation and other tasks have their turn.
        await anyio.lowlevel.checkpoint()
        reply: Reply | Exception
        if callable(self._replies):
            given = self._replies(messages)
            reply = await given if inspect.isawaitable(given) else given
        elif number < len(self._replies):
            reply = self._replies[number]
        else:
            raise ConfigurationError(
                f"the script of {self._name!r} has {len(self._replies)} replies and was asked again; "
                f"the last message was: {messages[-1].content[:200] if messages else 'none'!r}"
            )
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Completion):
            return reply
        asked = sum(estimate_tokens(message.content) for message in messages)
        usage = Usage(calls=1, input_tokens=asked, output_tokens=estimate_tokens(reply))
        return Completion(reply, usage=usage, model=self._name)
