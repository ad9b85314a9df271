"""Agents of Microsoft's Agent Framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from agent_framework import (
    BaseAgent,
    ChatContext,
    FunctionInvocationContext,
    chat_middleware,
    function_middleware,
)

from jeeves_reflexion.adapters.base import OWN, OptionsAdapter, Trace, adapter_for, joined
from jeeves_reflexion.errors import described


class AgentFrameworkAgent(OptionsAdapter):
    """An agent of the Agent Framework; ``options`` go to its ``run``, and its ``middleware`` comes before ours."""

    framework = "agent-framework"
    refused: ClassVar = {"session": OWN, "stream": "the adapter listens by middleware"}

    def __init__(self, agent: Any, **options: Any) -> None:  # noqa: ANN401 - whatever the framework has
        # An iterator of middleware would be used up by the first attempt.
        super().__init__(agent, **options | {"middleware": tuple(options.get("middleware") or ())})

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent with the lessons in the instructions of each model call."""

        @chat_middleware
        async def model_call(context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
            if lessons:
                own = dict(context.options or {})
                context.options = {**own, "instructions": joined(own.get("instructions"), lessons)}
            await call_next()
            response: Any = context.result
            trace.thought = response.text
            usage = response.usage_details or {}
            trace.used(1, usage.get("input_token_count"), usage.get("output_token_count"))

        @function_middleware
        async def tool_call(
            context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
        ) -> None:
            thought, trace.thought = trace.thought, ""  # now: parallel calls may end in another order
            name, arguments = context.function.name, dict(context.arguments)
            try:
                await call_next()
            except Exception as error:
                await trace.tool(name, arguments, described(error), thought=thought, failed=True)
                raise
            result = context.result
            if isinstance(result, list):
                result = joined(*(part.text or part.uri for part in result))
            await trace.tool(name, arguments, result, thought=thought)

        middleware = [*self.options["middleware"], model_call, tool_call]
        options = {**self.options, "middleware": middleware, "session": self.agent.create_session()}
        response = await self.agent.run(prompt, **options)
        if response.user_input_requests:
            trace.interrupted = "user_input"
        elif str(response.finish_reason) == "content_filter":
            trace.interrupted = "content_filter"
        if response.value is not None:
            return response.value
        # The text of a response holds all turns of the model; the last one is the answer.
        return response.messages[-1].text if response.messages else ""


adapter = adapter_for(AgentFrameworkAgent, BaseAgent)
