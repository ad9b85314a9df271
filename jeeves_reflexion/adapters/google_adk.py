"""Agents of Google's Agent Development Kit."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import uuid4

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import LlmCallsLimitExceededError
from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from jeeves_reflexion.adapters.base import OWN, OptionsAdapter, Trace, adapter_for, joined
from jeeves_reflexion.errors import described

_APP = "jeeves_reflexion"


class ADKAgent(OptionsAdapter):
    """An agent of the ADK, which runs in a session of its own; ``options`` go to ``Runner.run_async``."""

    framework = "google-adk"
    refused: ClassVar = {"session_id": OWN, "user_id": OWN, "new_message": "it is the task's prompt"}

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent with the lessons in the instructions of each model call, sub-agents included."""
        sessions = InMemorySessionService()
        session = await sessions.create_session(app_name=_APP, user_id=_APP, session_id=uuid4().hex)
        plugin = _Plugin(lessons, trace)
        app = App(name=_APP, root_agent=self.agent, plugins=[plugin])
        runner = Runner(app=app, session_service=sessions)
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        answer = ""
        try:
            async for event in runner.run_async(
                user_id=_APP, session_id=session.id, new_message=message, **self.options
            ):
                plugin.charge()
                if event.error_code == LlmCallsLimitExceededError.__name__:
                    continue  # the error is raised as well
                if event.error_message:
                    raise RuntimeError(f"the model answered with an error: {event.error_message}")
                if event.error_code and event.error_code not in {"STOP", types.FinishReason.STOP}:
                    trace.interrupted = str(event.error_code).lower()
                if event.is_final_response() and not event.partial:
                    answer = _text(event.content) or answer
        except LlmCallsLimitExceededError:
            trace.interrupted = "max_turns"
        return answer


class _Plugin(BasePlugin):
    """Adds the lessons to the instructions, and reports tool calls to the trace."""

    def __init__(self, lessons: str, trace: Trace) -> None:
        super().__init__(_APP)
        self._lessons = lessons
        self._trace = trace
        self._thoughts = dict[str, str]()
        self._answered = list[types.GenerateContentResponseUsageMetadata | None]()

    def charge(self) -> None:
        """Charge the model calls since the last time, sub-agents included.

        Not called from a callback, because the runner wraps what a callback raises.
        """
        answered, self._answered = self._answered, []
        for usage in answered:
            given = usage.prompt_token_count if usage else None
            made = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0) if usage else None
            self._trace.used(1, given, made)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:  # noqa: ANN401
        if self._lessons:
            llm_request.append_instructions([self._lessons])

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:  # noqa: ANN401
        if not llm_response.partial:
            self._thoughts[callback_context.agent_name] = _text(llm_response.content)
            self._answered.append(llm_response.usage_metadata)

    async def after_tool_callback(
        self,
        *,
        tool: Any,  # noqa: ANN401
        tool_args: dict[str, Any],
        tool_context: Any,  # noqa: ANN401
        result: Any,  # noqa: ANN401
        failed: bool = False,
    ) -> None:
        thought = self._thoughts.pop(tool_context.agent_name, "")
        if isinstance(result, dict) and result.keys() == {"result"}:
            result = result["result"]
        await self._trace.tool(tool.name, tool_args, result, thought=thought, failed=failed)

    async def on_tool_error_callback(self, *, error: Exception, **called: Any) -> None:  # noqa: ANN401
        await self.after_tool_callback(**called, result=described(error), failed=True)


def _text(content: types.Content | None) -> str:
    parts = (content.parts or ()) if content is not None else ()
    return joined(*(part.text for part in parts if not part.thought))


adapter = adapter_for(ADKAgent, BaseAgent)
