"""Agents of LlamaIndex, and workflows of them."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from llama_index.core.agent.workflow import AgentOutput, AgentWorkflow, BaseWorkflowAgent, ToolCallResult
from llama_index.core.callbacks.token_counting import get_tokens_from_response
from llama_index.core.llms import ChatResponse
from llama_index.core.memory import ChatMemoryBuffer
from workflows.errors import WorkflowRuntimeError

from jeeves_reflexion.adapters.base import OWN, OptionsAdapter, Trace, adapter_for, joined


class LlamaIndexAgent(OptionsAdapter):
    """A ``FunctionAgent``, ``ReActAgent``, ``CodeActAgent`` or ``AgentWorkflow``; ``options`` go to its ``run``."""

    framework = "llama-index"
    refused: ClassVar = {"ctx": OWN, "memory": OWN, "chat_history": OWN}

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run a copy of the agent with the lessons in its system prompt."""
        handler = _instructed(self.agent, lessons).run(
            user_msg=prompt, memory=ChatMemoryBuffer.from_defaults(), **self.options
        )
        try:
            async for event in handler.stream_events():
                if isinstance(event, AgentOutput):
                    trace.thought = str(event.response.content or "")
                    if event.raw is not None or trace.thought or event.tool_calls:
                        answered = ChatResponse(message=event.response, raw=event.raw)
                        trace.used(1, *get_tokens_from_response(answered))
                elif isinstance(event, ToolCallResult):
                    result = event.tool_output
                    arguments = event.tool_kwargs
                    await trace.tool(event.tool_name, arguments, result.content, failed=result.is_error)
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


def _instructed(agent: Any, lessons: str) -> Any:  # noqa: ANN401 - either of theirs
    """Return a copy with the lessons in the system prompt; in a workflow, in that of each agent."""
    if isinstance(agent, AgentWorkflow):
        workflow = copy.copy(agent)
        workflow.agents = {name: _instructed(each, lessons) for name, each in agent.agents.items()}
        return workflow
    return agent.model_copy(update={"system_prompt": joined(agent.system_prompt, lessons) or None})


adapter = adapter_for(LlamaIndexAgent, BaseWorkflowAgent, AgentWorkflow)
