"""Agents of LlamaIndex."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from conformance import LESSON, OWN, Conformance, Framework, Script, Turn, blocks
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool

from jeeves_reflexion import Task
from jeeves_reflexion.adapters import adapt


class FakeModel(FunctionCallingLLM):
    """A model of LlamaIndex that follows a script."""

    script: Any = None

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    async def achat_with_tools(self, tools: Any, chat_history: Any = None, **named: Any) -> ChatResponse:
        system = "\n".join(str(m.content) for m in chat_history if m.role == "system")
        rest = "\n".join(str(m.content) for m in chat_history if m.role != "system")
        turn = self.script.turn(system, rest, sum(m.role == "assistant" for m in chat_history))
        raw: dict[str, Any] = {"calls": turn.calls}
        if turn.usage:
            raw["usage"] = {"prompt_tokens": turn.usage[0], "completion_tokens": turn.usage[1]}
        return ChatResponse(message=ChatMessage(role="assistant", content=turn.text), raw=raw)

    def get_tool_calls_from_response(self, response: ChatResponse, **named: Any) -> list[ToolSelection]:
        calls = response.raw["calls"]
        return [ToolSelection(tool_id=f"c{i}", tool_name=n, tool_kwargs=a) for i, (n, a) in enumerate(calls)]

    def _prepare_chat_with_tools(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    def chat(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def achat(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    def complete(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def acomplete(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    def stream_chat(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def astream_chat(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    def stream_complete(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def astream_complete(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError


class LlamaIndex(Framework):
    """A ``FunctionAgent``; a typed answer takes a second call of the model, which the fake has not."""

    typed = False

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        tools = [
            FunctionTool.from_defaults(script.look),
            FunctionTool.from_defaults(script.broken),
            FunctionTool.from_defaults(script.record),
            FunctionTool.from_defaults(script.dump),
            FunctionTool.from_defaults(async_fn=script.wait),
        ]
        return FunctionAgent(
            name="clerk", system_prompt=OWN, tools=tools, llm=FakeModel(script=script), streaming=False
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own use of pydantic
class TestLlamaIndex(Conformance):
    """The common cases."""

    framework = LlamaIndex()

    async def test_each_agent_of_a_workflow_has_the_lessons(self) -> None:
        first = Script((Turn("I hand it on.", (("handoff", {"to_agent": "auditor", "reason": "rows"}),)),))
        second = Script((Turn(""), Turn("It is 41.")))
        agents = [LlamaIndex().agent(first), LlamaIndex().agent(second)]
        for agent, name in zip(agents, ("clerk", "auditor"), strict=True):
            agent.name, agent.description = name, name
        workflow = AgentWorkflow(agents=agents, root_agent="clerk")
        attempt = await adapt(workflow)(Task("What is in row 3?"), blocks(LESSON))
        assert attempt.output == "It is 41."
        assert [step.action.split()[0] for step in attempt.steps] == ["handoff"]
        assert [LESSON in told for told, _ in (*first.shown, *second.shown)] == [True, True]
        assert attempt.usage.tokens == 30
        assert agents[0].system_prompt == OWN
