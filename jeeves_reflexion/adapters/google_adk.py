"""Agents of Google's Agent Development Kit."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from google.adk.agents import BaseAgent
from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from jeeves_reflexion.adapters.base import Adapter, Trace, joined

_APP = "jeeves_reflexion"


class ADKAgent(Adapter):
    """An agent of the ADK, run in a session of its own; ``options`` go to ``Runner.run_async``."""

    def __init__(self, agent: BaseAgent, **options: Any) -> None:  # noqa: ANN401 - the runner's own
        super().__init__(agent)
        self._options = options

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent; the lessons stand in the instructions of each model call, of its sub-agents too."""
        sessions = InMemorySessionService()
        session = await sessions.create_session(app_name=_APP, user_id=_APP, session_id=uuid4().hex)
        app = App(name=_APP, root_agent=self.agent, plugins=[_Plugin(lessons, trace)])
        runner = Runner(app=app, session_service=sessions)
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        answer = ""
        async for event in runner.run_async(
            user_id=_APP, session_id=session.id, new_message=message, **self._options
        ):
            if event.error_message:
                raise RuntimeError(f"the model answered with an error: {event.error_message}")
            if event.content and not event.partial and not event.get_function_responses():
                _charge(event.usage_metadata, trace)
            if event.is_final_response() and not event.partial:
                answer = _text(event.content) or answer
        return answer


class _Plugin(BasePlugin):
    """Adds the lessons to the instructions, and tells the trace of tools."""

    def __init__(self, lessons: str, trace: Trace) -> None:
        super().__init__(_APP)
        self._lessons = lessons
        self._trace = trace
        self._thought = ""

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:  # noqa: ANN401
        if self._lessons:
            llm_request.append_instructions([self._lessons])

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:  # noqa: ANN401
        if not llm_response.partial:
            self._thought = _text(llm_response.content)

    async def after_tool_callback(
        self,
        *,
        tool: Any,  # noqa: ANN401
        tool_args: dict[str, Any],
        tool_context: Any,  # noqa: ANN401
        result: Any,  # noqa: ANN401
    ) -> None:
        await self._tell(tool.name, tool_args, result, failed=False)

    async def on_tool_error_callback(
        self,
        *,
        tool: Any,  # noqa: ANN401
        tool_args: dict[str, Any],
        tool_context: Any,  # noqa: ANN401
        error: Exception,
    ) -> None:
        await self._tell(tool.name, tool_args, f"{type(error).__name__}: {error}", failed=True)

    async def _tell(self, name: str, arguments: object, result: object, *, failed: bool) -> None:
        thought, self._thought = self._thought, ""
        if isinstance(result, dict) and result.keys() == {"result"}:
            result = result["result"]
        await self._trace.tool(name, arguments, result, thought=thought, failed=failed)


def _charge(usage: types.GenerateContentResponseUsageMetadata | None, trace: Trace) -> None:
    # Not in the plugin: what is raised there does not come out of the runner as itself.
    given = usage.prompt_token_count if usage else None
    made = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0) if usage else None
    trace.used(1, given, made)


def _text(content: types.Content | None) -> str:
    parts = (content.parts or ()) if content is not None else ()
    return joined(*(part.text for part in parts if not part.thought))


def adapter(agent: object, **options: object) -> Adapter | None:
    """Return the adapter for an agent of the ADK; None for anything else."""
    return ADKAgent(agent, **options) if isinstance(agent, BaseAgent) else None
