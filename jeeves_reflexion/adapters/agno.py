"""Agents and teams of Agno."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ClassVar
from uuid import uuid4

from agno.agent import Agent
from agno.run.base import RunStatus
from agno.team import Team

from jeeves_reflexion.adapters.base import OWN, OptionsAdapter, Trace, adapter_for, joined
from jeeves_reflexion.errors import described

_Call = tuple[str, dict[str, Any], object, bool]


class AgnoAgent(OptionsAdapter):
    """An agent or a team of Agno, whose members get the lessons too; ``options`` go to its ``arun``."""

    framework = "agno"
    refused: ClassVar = {"session_id": OWN, "stream": "the adapter hears of tools by a hook"}

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run a copy of the agent with the lessons in its additional context."""
        later = list[_Call]()
        copy = self.agent.deep_copy()
        _instruct(copy, lessons, trace, later)
        run = await copy.arun(prompt, session_id=uuid4().hex, **self.options)
        for name, arguments, result, failed in later:
            await trace.tool(name, arguments, result, failed=failed)
        _charge(run, trace)
        if run.status is RunStatus.error:
            raise RuntimeError(str(run.content))
        if run.status is not RunStatus.completed:
            trace.interrupted = str(run.status.value)
        # The content of a run holds all turns of its model; the last one is the answer.
        answers = _answers(run)
        last = answers[-1].content if answers and isinstance(run.content, str) else None
        return last or run.content


def _instruct(copy: Any, lessons: str, trace: Trace, later: list[_Call]) -> None:  # noqa: ANN401 - theirs
    """Add the lessons and a hook to a copy of an agent, and to the members of a team."""
    hooks = list(copy.tool_hooks or ())
    # One async hook makes Agno call tools through coroutines, which sync hooks can't await.
    listener = _listening(trace) if all(map(inspect.iscoroutinefunction, hooks)) else _noting(later)
    copy.tool_hooks = [listener, *hooks]
    copy.additional_context = joined(copy.additional_context, lessons) or None
    members = getattr(copy, "members", None)
    for member in members if isinstance(members, list) else ():
        _instruct(member, lessons, trace, later)


def _charge(run: Any, trace: Trace) -> None:  # noqa: ANN401 - theirs
    metrics = run.metrics
    given, made = (metrics.input_tokens, metrics.output_tokens) if metrics else (None, None)
    trace.used(max(len(_answers(run)), 1), given, made)
    for member in getattr(run, "member_responses", ()):
        _charge(member, trace)


def _answers(run: Any) -> list[Any]:  # noqa: ANN401 - theirs
    return [message for message in run.messages or () if message.role == "assistant"]


def _listening(trace: Trace) -> Callable[..., Any]:
    """Return a hook that reports each tool call to the trace as it ends."""

    async def listener(
        function_name: str, function_call: Callable[..., Any], arguments: dict[str, Any]
    ) -> object:
        try:
            result = function_call(**arguments)
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:
            await trace.tool(function_name, arguments, described(error), failed=True)
            raise
        if inspect.isasyncgen(result):
            return _passing(result, lambda text: trace.tool(function_name, arguments, text))
        await trace.tool(function_name, arguments, result)
        return result

    return listener


async def _passing(
    parts: AsyncIterator[Any], report: Callable[[str], Awaitable[None] | None]
) -> AsyncIterator[Any]:
    """Pass on what a tool yields, such as one that asks a team member, and report all its words at the end."""
    words = list[str]()
    async for part in parts:
        if isinstance(part, str):
            words.append(part)
        yield part
    told = report("".join(words))
    if told is not None:
        await told


def _noting(calls: list[_Call]) -> Callable[..., Any]:
    """Return a hook that collects tool calls, which are reported after the run."""

    def listener(function_name: str, function_call: Callable[..., Any], arguments: dict[str, Any]) -> object:
        async def awaited(result: Any) -> object:  # noqa: ANN401 - of any tool
            try:
                value = await result
            except Exception as error:
                calls.append((function_name, arguments, described(error), True))
                raise
            if inspect.isasyncgen(value):
                return _passing(value, lambda text: calls.append((function_name, arguments, text, False)))
            calls.append((function_name, arguments, value, False))
            return value

        try:
            result = function_call(**arguments)
        except Exception as error:
            calls.append((function_name, arguments, described(error), True))
            raise
        if inspect.isawaitable(result):
            return awaited(result)
        calls.append((function_name, arguments, result, False))
        return result

    return listener


adapter = adapter_for(AgnoAgent, Agent, Team)
