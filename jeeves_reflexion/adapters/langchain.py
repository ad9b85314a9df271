"""Middleware for agents of LangChain (``create_agent``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.channels.untracked_value import UntrackedValue

from jeeves_reflexion.adapters.base import joined
from jeeves_reflexion.adapters.langgraph import Heard, answer_of
from jeeves_reflexion.adapters.middleware import Done, LearnerRun

if TYPE_CHECKING:
    from jeeves_reflexion.loop.learner import Learner


class _State(AgentState[Any]):
    learner_run: NotRequired[Annotated[tuple[LearnerRun, Heard], UntrackedValue, PrivateStateAttr]]


class LearnerMiddleware(AgentMiddleware[Any, Any]):
    """Adds a learner's lessons to the system message of each model call, and learns from the finished run.

    The task is the user's last message. ``done`` is called with the task, the attempt and the advice, instead of
    judging at once. One object serves many runs at once, called with ``ainvoke`` or ``astream``. It does not learn from
    a run that raises, and a run that resumes after an interrupt gets no lessons.
    """

    state_schema = _State

    def __init__(self, learner: Learner, *, done: Done | None = None) -> None:
        super().__init__()
        self._learner = learner
        self._done = done

    async def abefore_agent(self, state: Any, runtime: object) -> dict[str, Any]:  # noqa: ANN401
        """Recall the lessons."""
        earlier = state["messages"]
        asked = [message for message in earlier if isinstance(message, HumanMessage)]
        run = LearnerRun(self._learner, self._done)
        await run.begin(str(asked[-1].text) if asked else "")
        return {"learner_run": (run, Heard(run.trace, earlier))}

    async def awrap_model_call(
        self,
        request: Any,  # noqa: ANN401 - a ModelRequest, which is generic only in some versions
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:  # noqa: ANN401
        """Call the model with the lessons in its instructions."""
        found = request.state.get("learner_run")
        lessons = found[0].lessons if found is not None else ""
        if not lessons:
            return await handler(request)
        own: SystemMessage | None = request.system_message
        if own is None:
            told = SystemMessage(lessons)
        elif isinstance(own.content, str):
            told = own.model_copy(update={"content": joined(own.content, lessons)})
        else:  # parts, which may be cached, remain unchanged
            told = own.model_copy(update={"content": [*own.content, {"type": "text", "text": lessons}]})
        return await handler(request.override(system_message=told))

    async def aafter_agent(self, state: Any, runtime: object) -> None:  # noqa: ANN401
        """Learn from the run."""
        found: tuple[LearnerRun, Heard] | None = state.get("learner_run")
        if found is None:
            return
        run, heard = found
        for message in state["messages"]:
            await heard.message(message)
        await run.end(answer_of(state, run.trace))
