"""Agents of LlamaIndex, and workflows of them."""

from __future__ import annotations

import copy
from typing import Any

from llama_index.core.agent.workflow import AgentOutput, AgentWorkflow, BaseWorkflowAgent, ToolCallResult
from llama_index.core.callbacks.token_counting import get_tokens_from_response
from llama_index.core.llms import ChatResponse
from llama_index.core.memory import ChatMemoryBuffer
from workflows.errors import WorkflowRuntimeError

from jeeves_reflexion.adapters.base import OWN, Adapter, Trace, adapter_for, joined, refuse


class LlamaIndexAgent(Adapter):
    """A ``FunctionAgent``, ``ReActAgent``, ``CodeActAgent`` or ``AgentWorkflow``; ``options`` go to its ``run``."""

    def __init__(self, agent: BaseWorkflowAgent | AgentWorkflow, **options: Any) -> None:  # noqa: ANN401 - its own
        super().__init__(agent)
        refuse(options, "llama-index", ctx=OWN, memory=OWN, chat_history=OWN)
        self._options = options

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run a copy of the agent with the lessons in its system prompt."""
        handler = _instructed(self.agent, lessons).run(
            user_msg=prompt, memory=ChatMemoryBuffer.from_defaults(), **self._options
        )
        thought = ""
        try:
            async for event in handler.stream_events():
                if isinstance(event, AgentOutput):
                    thought = str(event.response.content or "")
                    _charge(event, trace)
                elif isinstance(event, ToolCallResult):
                    result = event.tool_output
                    await trace.tool(
                        event.tool_name,
                        event.tool_kwargs,
                        result.content,
                        thought=thought,
                        failed=result.is_error,
                    )
                    thought = ""
            answer = await handler
        except WorkflowRuntimeError as error:
            if "max iterations" not in str(error).lower():
                raise
            trace.interrupted = "max_turns"
            return ""
        finally:
            if not handler.is_done():
                await handler.cancel_run()
        return answer.structured_response or str(answer.response.content or "")


def _instructed(agent: Any, lessons: str) -> Any:  # noqa: ANN401 - as above
    """Return a copy with the lessons in the system prompt; in a workflow, in that of each agent."""
    if isinstance(agent, AgentWorkflow):
        workflow = copy.copy(agent)
        workflow.agents = {name: _instructed(each, lessons) for name, each in agent.agents.items()}
        return workflow
    return agent.model_copy(update={"system_prompt": joined(agent.system_prompt, lessons) or None})


def _charge(event: AgentOutput, trace: Trace) -> None:
    if event.raw is None and not event.response.content and not event.tool_calls:
        return
    given, made = get_tokens_from_response(ChatResponse(message=event.response, raw=event.raw))
    trace.used(1, given, made)


adapter = adapter_for(LlamaIndexAgent, BaseWorkflowAgent, AgentWorkflow)
