"""Agents of Microsoft's Agent Framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agent_framework import (
    BaseAgent,
    ChatContext,
    ChatMiddleware,
    FunctionInvocationContext,
    FunctionMiddleware,
)

from jeeves_reflexion.adapters.base import OWN, Adapter, Trace, adapter_for, joined, refuse
from jeeves_reflexion.errors import described


class AgentFrameworkAgent(Adapter):
    """An agent of the Agent Framework; ``options`` go to its ``run``, and its ``middleware`` comes before ours."""

    def __init__(self, agent: BaseAgent, **options: Any) -> None:  # noqa: ANN401 - its own
        super().__init__(agent)
        refuse(options, "agent-framework", session=OWN, stream="the adapter listens by middleware")
        self._middleware = tuple(options.pop("middleware", None) or ())
        self._options = options

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent with the lessons in the instructions of each model call."""
        model = _ModelCalls(lessons, trace)
        middleware = [*self._middleware, model, _ToolCalls(model, trace)]
        response = await self.agent.run(
            prompt, session=self.agent.create_session(), middleware=middleware, **self._options
        )
        if response.user_input_requests:
            trace.interrupted = "user_input"
        elif str(response.finish_reason) == "content_filter":
            trace.interrupted = "content_filter"
        if response.value is not None:
            return response.value
        # The text of a response holds all turns of the model; the last one is the answer.
        return response.messages[-1].text if response.messages else ""


class _ModelCalls(ChatMiddleware):
    """Adds the lessons to the instructions, and reports usage to the trace."""

    def __init__(self, lessons: str, trace: Trace) -> None:
        self._lessons = lessons
        self._trace = trace
        self.thought = ""

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        if self._lessons:
            options = dict(context.options or {})
            context.options = {**options, "instructions": joined(options.get("instructions"), self._lessons)}
        await call_next()
        response: Any = context.result
        self.thought = response.text
        usage = response.usage_details or {}
        self._trace.used(1, usage.get("input_token_count"), usage.get("output_token_count"))


class _ToolCalls(FunctionMiddleware):
    """Reports tool calls to the trace."""

    def __init__(self, model: _ModelCalls, trace: Trace) -> None:
        self._model = model
        self._trace = trace

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        thought, self._model.thought = self._model.thought, ""
        name, arguments = context.function.name, context.arguments
        data = arguments if isinstance(arguments, dict) else dict(arguments)
        try:
            await call_next()
        except Exception as error:
            await self._trace.tool(name, data, described(error), thought=thought, failed=True)
            raise
        result = context.result
        value = joined(*(part.text or part.uri for part in result)) if isinstance(result, list) else result
        await self._trace.tool(name, data, value, thought=thought)


adapter = adapter_for(AgentFrameworkAgent, BaseAgent)
