"""Graphs of LangGraph, agents and chat models of LangChain."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain.agents")

from conformance import (
    LESSON,
    LOOKS,
    OWN,
    Conformance,
    Framework,
    Script,
    Total,
    Turn,
    beside_a_learner,
    blocks,
    silent_learner,
)
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from jeeves_reflexion import Attempt, ConfigurationError, Learner, Session, Task
from jeeves_reflexion.adapters import adapt
from jeeves_reflexion.adapters.langchain import LearnerMiddleware


class FakeModel(BaseChatModel):
    """A chat model that follows a script."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **named: Any) -> FakeModel:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **named: Any) -> ChatResult:
        system = "\n".join(str(m.text) for m in messages if m.type == "system")
        rest = "\n".join(str(m.text) for m in messages if m.type != "system")
        turn = self.script.turn(system, rest, sum(m.type == "ai" for m in messages))
        calls = [{"name": n, "args": a, "id": f"{n}{i}{id(turn)}"} for i, (n, a) in enumerate(turn.calls)]
        usage = None
        if turn.usage is not None:
            given, made = turn.usage
            usage = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
        message = AIMessage(turn.text, tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


class LangChain(Framework):
    """An agent of ``create_agent``, which is a graph of LangGraph."""

    raises = True

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        given = (script.look, script.broken, script.record, script.dump, script.wait)
        tools = [tool(each) for each in given]
        form = ProviderStrategy(Total) if typed else None
        return create_agent(FakeModel(script=script), tools, system_prompt=OWN, response_format=form)


class TestLangChain(Conformance):
    """The common cases."""

    framework = LangChain()

    async def test_middleware_recalls_before_a_run_and_learns_after_it(self) -> None:
        shared = dict[bool, LearnerMiddleware]()
        # As a text, and in parts, of which some may be cached.
        prompts = {True: OWN, False: SystemMessage([{"type": "text", "text": OWN}])}

        async def run(script: Script, learner: Learner, done: Any, prompt: str) -> object:
            middleware = shared.setdefault(done is None, LearnerMiddleware(learner, done=done))
            model, tools, saver = FakeModel(script=script), [tool(script.look)], InMemorySaver()
            agent = create_agent(
                model, tools, system_prompt=prompts[done is None], middleware=[middleware], checkpointer=saver
            )
            config: Any = {"configurable": {"thread_id": "one"}}
            state = await agent.ainvoke({"messages": [("user", prompt)]}, config)
            assert "learner_run" not in state
            return state["messages"][-1].text

        await beside_a_learner(run)

    async def test_middleware_hears_of_a_whole_run_where_another_one_says_more_for_the_user(self) -> None:
        class Check(AgentMiddleware[Any, Any]):
            @hook_config(can_jump_to=["model"])
            async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
                if state["messages"][-1].text != "40":
                    return None
                return {"messages": [HumanMessage("Add the unit.")], "jump_to": "model"}

        kept = list[tuple[Task, Attempt[Any], Any]]()
        script = Script((LOOKS[0], Turn("40"), Turn("40 EUR")))
        given = LearnerMiddleware(silent_learner(), done=lambda *run: kept.append(run))
        agent = create_agent(FakeModel(script=script), [tool(script.look)], middleware=[given, Check()])
        await agent.ainvoke({"messages": [("user", "What is in row 3?")]})
        [(task, attempt, _)] = kept
        assert (task.prompt, attempt.output) == ("What is in row 3?", "40 EUR")
        assert [step.observation for step in attempt.steps] == ["row 3 holds 40"]
        assert attempt.usage.calls == 3

    async def test_a_checkpointer_keeps_attempts_apart(self) -> None:
        script = Script(LOOKS)
        graph = create_agent(FakeModel(script=script), [tool(script.look)], checkpointer=InMemorySaver())
        agent = adapt(graph, config={"configurable": {"thread_id": "mine"}})
        await agent(Task("What is in row 3?"), blocks(LESSON))
        script.shown.clear()
        await agent(Task("And in row 4?"), Session())
        assert len(script.shown) == 2
        assert LESSON not in str(script.shown)

    async def test_a_limit_of_steps_keeps_what_was_done(self) -> None:
        agent = adapt(LangChain().agent(Script(LOOKS)), config={"recursion_limit": 2})
        attempt = await agent(Task("What is in row 3?"), Session())
        assert attempt.interrupted == "max_turns"
        assert len(attempt.steps) == 1

    async def test_a_graph_with_a_state_of_its_own(self) -> None:
        class State(TypedDict, total=False):
            question: str
            advice: str
            answer: str

        def work(state: State) -> State:
            return {"answer": f"{state['question']} -> {state.get('advice', '')}"}

        builder = StateGraph(State)
        builder.add_node("work", work)
        builder.add_edge(START, "work")
        graph = builder.compile()
        with pytest.raises(ConfigurationError, match="make_input"):
            adapt(graph)
        with pytest.raises(ConfigurationError, match="'reply'"):
            adapt(graph, make_input=lambda prompt, lessons: {"question": prompt}, output="reply")
        agent = adapt(
            graph, make_input=lambda prompt, lessons: {"question": prompt, "advice": lessons}, output="answer"
        )
        attempt = await agent(Task("Why?"), blocks(LESSON))
        assert attempt.output.startswith("Why? -> ")
        assert LESSON in attempt.output
        assert attempt.usage.unreported == 1

    async def test_a_graph_that_waits_for_a_person_is_interrupted(self) -> None:
        def ask(state: MessagesState) -> MessagesState:
            interrupt("may I?")
            return state

        builder = StateGraph(MessagesState)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        graph = builder.compile(checkpointer=InMemorySaver())
        attempt = await adapt(graph)(Task("Do it."), Session())
        assert attempt.interrupted == "interrupt"

    async def test_a_chat_model_alone_is_an_agent(self) -> None:
        script = Script((Turn("It is 40."),))
        attempt = await adapt(FakeModel(script=script))(Task("What is in row 3?"), blocks(LESSON))
        assert (attempt.output, attempt.usage.tokens) == ("It is 40.", 15)
        [(system, rest)] = script.shown
        assert LESSON in system
        assert rest == "What is in row 3?"

    def test_a_chain_is_an_error_that_says_what_to_write(self) -> None:
        with pytest.raises(ConfigurationError, match="ainvoke"):
            adapt(RunnableLambda(str))

    async def test_a_tool_that_returns_directly_has_the_last_word(self) -> None:
        @tool(return_direct=True)
        def last() -> str:
            """End."""
            return "the last word"

        script = Script((Turn("I look.", (("last", {}),)),))
        attempt = await adapt(create_agent(FakeModel(script=script), [last]))(Task("Row 3?"), blocks())
        assert attempt.output == "the last word"

    async def test_a_result_that_is_no_text_is_kept_as_data(self) -> None:
        @tool
        def picture() -> list[dict[str, str]]:
            """Show."""
            return [{"type": "image", "base64": "AAAA", "mime_type": "image/png"}]

        script = Script((Turn("", (("picture", {}),)), Turn("ok")))
        attempt = await adapt(create_agent(FakeModel(script=script), [picture]))(Task("Row 3?"), blocks())
        assert "image/png" in attempt.steps[0].observation

    async def test_an_answer_that_a_filter_stopped_is_interrupted(self) -> None:
        class Filtered(FakeModel):
            def _generate(self, *args: Any, **named: Any) -> ChatResult:
                said = AIMessage("", response_metadata={"finish_reason": "content_filter"})
                return ChatResult(generations=[ChatGeneration(message=said)])

        agent = create_agent(Filtered(script=Script(LOOKS)), [])
        attempt = await adapt(agent)(Task("Row 3?"), blocks())
        assert attempt.interrupted == "content_filter"
