"""Agents of Agno."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from agno.agent import Agent
from agno.run.base import RunStatus

from jeeves_reflexion.adapters.base import Adapter, Trace, joined, refuse
from jeeves_reflexion.errors import described

_Call = tuple[str, dict[str, Any], object, bool]


class AgnoAgent(Adapter):
    """An agent of Agno; ``options`` go to its ``arun``."""

    def __init__(self, agent: Agent, **options: Any) -> None:  # noqa: ANN401 - its own
        super().__init__(agent)
        own = "each attempt begins a conversation of its own"
        refuse(options, "agno", session_id=own, stream="the adapter hears of tools by a hook")
        self._options = options

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run a copy of the agent with the lessons in its additional context."""
        hooks, later = list(self.agent.tool_hooks or ()), list[_Call]()
        # Agno calls tools through coroutines as soon as one hook is async, and a sync one can't await these.
        listener = _listening(trace) if all(map(inspect.iscoroutinefunction, hooks)) else _noting(later)
        copy = self.agent.deep_copy(
            update={
                "additional_context": joined(self.agent.additional_context, lessons) or None,
                "tool_hooks": [listener, *hooks],
            }
        )
        run = await copy.arun(prompt, session_id=uuid4().hex, **self._options)
        for name, arguments, result, failed in later:
            await trace.tool(name, arguments, result, failed=failed)
        answers = [message for message in run.messages or () if message.role == "assistant"]
        metrics = run.metrics
        trace.used(
            max(len(answers), 1),
            metrics.input_tokens if metrics else None,
            metrics.output_tokens if metrics else None,
        )
        if run.status is RunStatus.error:
            raise RuntimeError(str(run.content))
        if run.status is not RunStatus.completed:
            trace.interrupted = str(run.status.value)
        # The content of a run is what its model said in all turns; the last one is the answer.
        said = answers[-1].content if answers and isinstance(run.content, str) else None
        return said or run.content


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
        await trace.tool(function_name, arguments, result)
        return result

    return told


def _noting(calls: list[_Call]) -> Callable[..., Any]:
    """Return a hook that notes what a tool did, to be told when the run is over."""

    def noted(function_name: str, function_call: Callable[..., Any], arguments: dict[str, Any]) -> object:
        async def awaited(result: Any) -> object:  # noqa: ANN401 - of any tool
            try:
                value = await result
            except Exception as error:
                calls.append((function_name, arguments, described(error), True))
                raise
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

    return noted


def adapter(agent: object, **options: object) -> Adapter | None:
    """Return the adapter for an agent of Agno; None for anything else."""
    return AgnoAgent(agent, **options) if isinstance(agent, Agent) else None
