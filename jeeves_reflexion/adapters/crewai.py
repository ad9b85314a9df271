"""Crews, flows and agents of CrewAI, which run in a worker thread."""

from __future__ import annotations

import asyncio
import functools
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from crewai import Crew, Flow
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.events import crewai_event_bus
from crewai.events.types.llm_events import LLMCallCompletedEvent
from crewai.events.types.tool_usage_events import ToolUsageErrorEvent
from crewai.hooks import HookAborted, InterceptionPoint, LLMCallHookContext, ToolCallHookContext
from crewai.hooks.dispatch import scoped_hooks

from jeeves_reflexion.adapters.base import Adapter, Trace, adapter_for
from jeeves_reflexion.callables import run
from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError


class CrewAIAgent(Adapter):
    """A crew, a flow or an agent of CrewAI, made for each attempt with the lessons in a ``backstory``.

    ``options`` are further inputs of a crew or a flow, or go to an agent's ``kickoff``. A crew needs a task with
    ``{prompt}`` in its description; a flow gets the prompt as ``prompt`` in its state. A cancelled attempt ends before
    the next call of a model or a tool.
    """

    made_per_attempt = True

    def __init__(self, agent: Crew | Flow[Any] | BaseAgent, **options: Any) -> None:  # noqa: ANN401 - its own
        super().__init__(agent)
        if isinstance(agent, Crew | Flow) and "prompt" in options:
            raise ConfigurationError("crewai: prompt= can't be set: it is the task's prompt")
        if isinstance(agent, Crew) and not any("{prompt}" in task.description for task in agent.tasks):
            raise ConfigurationError(
                "crewai: no task of the crew has {prompt} in its description: write Task(description='{prompt}', "
                "...) where the prompt is to stand"
            )
        self._options = options

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the crew on the prompt; a backstory already includes ``lessons``."""
        heard = _Heard(trace)
        call = functools.partial(self._run, prompt, heard)
        try:
            output: Any = await run(call, call)
        except HookAborted:
            if heard.stopped is not None:
                raise heard.stopped from None
            raise
        except asyncio.CancelledError:
            heard.cancelled = True
            raise
        await heard.settle()
        typed = getattr(output, "pydantic", None) or getattr(output, "json_dict", None)
        return typed if typed is not None else getattr(output, "raw", output)

    def _run(self, prompt: str, heard: _Heard) -> object:
        hooks: dict[InterceptionPoint, list[Any]] = {
            InterceptionPoint.PRE_MODEL_CALL: [heard.before],
            InterceptionPoint.PRE_TOOL_CALL: [heard.before],
            InterceptionPoint.POST_TOOL_CALL: [heard.after_tool],
        }
        token = _current.set(heard)
        try:
            with scoped_hooks(hooks):
                if isinstance(self.agent, Crew | Flow):
                    return self.agent.kickoff(inputs={**self._options, "prompt": prompt})
                return self.agent.kickoff(prompt, **self._options)
        finally:
            crewai_event_bus.flush()
            _current.reset(token)


@dataclass(slots=True, eq=False)
class _Heard:
    """Reports tool calls and usage to the trace from CrewAI's own threads."""

    trace: Trace
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    stopped: BudgetExceededError | None = None
    cancelled: bool = False
    usage: list[dict[str, Any]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    asked: int = 0

    async def settle(self) -> None:
        """Charge the calls since the last time. Raises :class:`BudgetExceededError` if the budget is used up."""
        heard, self.usage = self.usage, []
        # A model of the user's own may emit no event.
        unheard, self.asked = max(self.asked - len(heard), 0), 0
        for usage in heard:
            given = usage.get("prompt_tokens") or usage.get("input_tokens")
            made = usage.get("completion_tokens") or usage.get("output_tokens")
            self.trace.used(1, given, made)
        self.trace.used(unheard, None, None)
        self.trace.session.spend.check()  # CrewAI goes on to the next call after a tool that a hook stopped

    def before(self, context: LLMCallHookContext | ToolCallHookContext) -> None:
        self._on_loop(self.settle())
        if isinstance(context, LLMCallHookContext):
            self.asked += 1

    def after_tool(self, context: ToolCallHookContext) -> None:
        if self.stopped is not None or self.cancelled:
            return  # the tool was not run
        crewai_event_bus.flush()
        name = context.tool_name
        failed = context.tool is None  # no tool has that name
        if name in self.failed:
            self.failed.remove(name)
            failed = True
        self._on_loop(self.trace.tool(name, context.tool_input, context.tool_result, failed=failed))

    def _on_loop(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        if self.cancelled:
            work.close()
            raise HookAborted("the attempt was cancelled")
        crewai_event_bus.flush()  # events are handled by other threads
        try:
            asyncio.run_coroutine_threadsafe(work, self.loop).result()
        except BudgetExceededError as error:
            self.stopped = error
            raise HookAborted(str(error)) from error


# CrewAI has one event bus per process, which handles each event in the context that emitted it.
_current: ContextVar[_Heard | None] = ContextVar("jeeves_reflexion_crewai", default=None)


@crewai_event_bus.on(LLMCallCompletedEvent)
@crewai_event_bus.on(ToolUsageErrorEvent)
def _on_event(source: object, event: LLMCallCompletedEvent | ToolUsageErrorEvent) -> None:
    heard = _current.get()
    if heard is None:
        return
    if isinstance(event, LLMCallCompletedEvent):
        heard.usage.append(event.usage or {})
    else:
        heard.failed.append(event.tool_name)


adapter = adapter_for(CrewAIAgent, Crew, Flow, BaseAgent)
