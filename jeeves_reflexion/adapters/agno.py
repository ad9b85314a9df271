"""Agents and teams of Agno."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from uuid import uuid4

from agno.agent import Agent
from agno.run.base import RunStatus
from agno.team import Team

from jeeves_reflexion.adapters.base import OWN, Adapter, Trace, adapter_for, joined, refuse
from jeeves_reflexion.errors import described

_Call = tuple[str, dict[str, Any], object, bool]


class AgnoAgent(Adapter):
    """An agent or a team of Agno, whose members get the lessons too; ``options`` go to its ``arun``."""

    def __init__(self, agent: Agent | Team, **options: Any) -> None:  # noqa: ANN401 - its own
        super().__init__(agent)
        refuse(options, "agno", session_id=OWN, stream="the adapter hears of tools by a hook")
        self._options = options

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run a copy of the agent with the lessons in its additional context."""
        later = list[_Call]()
        copy = self.agent.deep_copy()
        _instruct(copy, lessons, trace, later)
        run = await copy.arun(prompt, session_id=uuid4().hex, **self._options)
        for name, arguments, result, failed in later:
            await trace.tool(name, arguments, result, failed=failed)
        _charge(run, trace)
        if run.status is RunStatus.error:
            raise RuntimeError(str(run.content))
        if run.status is not RunStatus.completed:
            trace.interrupted = str(run.status.value)
        # The content of a run is what its model said in all turns; the last one is the answer.
        answers = _answers(run)
        said = answers[-1].content if answers and isinstance(run.content, str) else None
        return said or run.content


def _instruct(copy: Any, lessons: str, trace: Trace, later: list[_Call]) -> None:  # noqa: ANN401 - theirs
    """Give a copy of an agent the lessons and a hook, and the members of a team as well."""
    hooks = list(copy.tool_hooks or ())
    # Agno calls tools through coroutines as soon as one hook is async, and a sync one can't await these.
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
    """Return a hook that tells of a tool when it is done."""

    async def told(
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

    return told


async def _passing(
    parts: AsyncIterator[Any], told: Callable[[str], Coroutine[Any, Any, None]]
) -> AsyncIterator[Any]:
    """Pass on what a tool yields, as one that asks a member of a team does, and tell of its words in the end."""
    words = list[str]()
    async for part in parts:
        if isinstance(part, str):
            words.append(part)
        yield part
    await told("".join(words))


def _noting(calls: list[_Call]) -> Callable[..., Any]:
    """Return a hook that notes what a tool did, to be told when the run is over."""

    def noted(function_name: str, function_call: Callable[..., Any], arguments: dict[str, Any]) -> object:
        async def note(value: object) -> None:
            calls.append((function_name, arguments, value, False))

        async def awaited(result: Any) -> object:  # noqa: ANN401 - of any tool
            try:
                value = await result
            except Exception as error:
                calls.append((function_name, arguments, described(error), True))
                raise
            if inspect.isasyncgen(value):
                return _passing(value, note)
            await note(value)
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

    return noted


adapter = adapter_for(AgnoAgent, Agent, Team)
