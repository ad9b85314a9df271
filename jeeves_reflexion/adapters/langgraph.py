"""Graphs of LangGraph, agents and chat models of LangChain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel

from jeeves_reflexion.adapters.base import Adapter, Trace
from jeeves_reflexion.errors import ConfigurationError

MakeInput = Callable[[str, str], Any]
"""Makes a graph's input of the prompt and the lessons (empty if there are none)."""


class LangGraphAgent(Adapter):
    """A compiled graph whose state has ``messages``, such as an agent of LangChain.

    The lessons are a system message at the start of the conversation, after the agent's own system prompt. A graph with
    another state needs ``make_input``, which turns prompt and lessons into its input, and ``output``, the key of its
    answer in the state. ``config`` and ``context`` go to the graph; each attempt has its own thread.
    """

    def __init__(
        self,
        agent: Runnable[Any, Any],
        *,
        make_input: MakeInput | None = None,
        output: str | None = None,
        config: RunnableConfig | None = None,
        context: object = None,
    ) -> None:
        super().__init__(agent)
        self._make_input = make_input or _messages
        self._output = output
        self._config: RunnableConfig = config or {}
        self._options: Mapping[str, Any] = {} if context is None else {"context": context}
        channels = getattr(agent, "channels", {})
        if make_input is None and "messages" not in channels:
            raise ConfigurationError(
                f"langgraph: the state of {self.name} has no messages: pass adapt(graph, make_input=lambda prompt, "
                "lessons: {...}, output='key of the answer')"
            )
        if output is not None and output not in channels:
            raise ConfigurationError(f"langgraph: the state of {self.name} has no {output!r}")

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the graph, and report tool calls as their messages arrive."""
        config: RunnableConfig = {
            **self._config,
            "configurable": {**self._config.get("configurable", {}), "thread_id": uuid4().hex},
        }
        heard, state = Heard(trace), dict[str, Any]()
        events = self.agent.astream(
            self._make_input(prompt, lessons),
            config,
            stream_mode=["updates", "values"],
            subgraphs=True,
            **self._options,
        )
        try:
            async for path, mode, data in events:
                if mode == "values" and not path:
                    state = data
                elif mode == "updates":
                    await heard.update(data)
        except GraphRecursionError:
            trace.interrupted = "max_turns"
        return answer_of(state, trace) if self._output is None else state.get(self._output, "")


class LangChainModel(Adapter):
    """A chat model of LangChain. One call is one attempt."""

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Ask the model once."""
        answer = await self.agent.ainvoke(_messages(prompt, lessons)["messages"])
        usage = answer.usage_metadata or {}
        trace.used(1, usage.get("input_tokens"), usage.get("output_tokens"))
        return str(answer.text)


class Heard:
    """Turns messages into steps and usage. Earlier messages, and repetitions by parent graphs, don't count."""

    def __init__(self, trace: Trace, earlier: Sequence[BaseMessage] = ()) -> None:
        self._trace = trace
        self._seen = {message.id for message in earlier if message.id}
        self._calls = dict[str, tuple[Mapping[str, Any], str]]()

    async def update(self, data: Mapping[str, Any]) -> None:
        """Report the messages that a step's nodes wrote."""
        if "__interrupt__" in data:
            self._trace.interrupted = "interrupt"
        for update in data.values():
            found = update.get("messages", ()) if isinstance(update, Mapping) else ()
            for message in found if isinstance(found, list | tuple) else (found,):
                if isinstance(message, BaseMessage):
                    await self.message(message)

    async def message(self, message: BaseMessage) -> None:
        """Report a message, unless it was reported before."""
        if message.id in self._seen:
            return
        self._seen |= {message.id} if message.id else set()
        if isinstance(message, AIMessage):
            thought = str(message.text)
            for call in message.tool_calls:
                self._calls[call["id"] or ""] = (call["args"], thought)
                thought = ""
            usage = message.usage_metadata or {}
            self._trace.used(1, usage.get("input_tokens"), usage.get("output_tokens"))
        elif isinstance(message, ToolMessage):
            arguments, thought = self._calls.pop(message.tool_call_id, ({}, ""))
            await self._trace.tool(
                message.name or "",
                arguments,
                str(message.text) or message.content,
                thought=thought,
                failed=message.status == "error",
            )


def answer_of(state: Mapping[str, Any], trace: Trace) -> object:
    """Return a state's typed answer, or the text of its last message."""
    if state.get("structured_response") is not None:
        return state["structured_response"]
    messages = state.get("messages", ())
    last = messages[-1] if messages else None
    if isinstance(last, AIMessage) and last.response_metadata.get("finish_reason") == "content_filter":
        trace.interrupted = "content_filter"
    # A tool that returns directly gives the answer, unless the run was interrupted after it.
    kinds = AIMessage if trace.interrupted else AIMessage | ToolMessage
    answers = [message for message in messages if isinstance(message, kinds)]
    return str(answers[-1].text) if answers else ""


def _messages(prompt: str, lessons: str) -> dict[str, Any]:
    system = [SystemMessage(lessons, name="reflexion_lessons")] if lessons else []
    return {"messages": [*system, HumanMessage(prompt)]}


def adapter(agent: object, **options: Any) -> Adapter | None:  # noqa: ANN401 - those of the adapter
    """Return the adapter for a graph or a chat model; None for other objects. Other Runnables are an error."""
    if isinstance(agent, Pregel):
        return LangGraphAgent(agent, **options)
    if isinstance(agent, BaseChatModel):
        return LangChainModel(agent, **options)
    if isinstance(agent, Runnable):
        raise ConfigurationError(
            f"langchain: the input of a {type(agent).__name__} can't be known: wrap it in a function, "
            "`async def agent(prompt): return await chain.ainvoke({...})`"
        )
    return None
