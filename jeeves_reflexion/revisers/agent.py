"""The writer itself as the reviser, for agents whose model is not ours to ask."""

from __future__ import annotations

from dataclasses import replace

from jeeves_reflexion.drafts import Revision, RevisionRequest
from jeeves_reflexion.protocols import Agent
from jeeves_reflexion.session import Session, current_scope
from jeeves_reflexion.text import bullets, fence
from jeeves_reflexion.types import Task

_ASK = (
    "Below, as data, are an earlier answer to this task and what a reviewer found about it. Write the answer again,"
    " whole, with these points mended and everything else kept."
)


class AgentReviser:
    """Asks the agent for the task once more, with its earlier output and the verdict on it.

    The agent answers anew, so the strategy is always a full rewrite; whatever tools it has, it may use again.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def __call__(self, task: Task, request: RevisionRequest) -> Revision:
        """Return the agent's new output. Raises what the agent raises."""
        feedback = request.feedback
        points = [*feedback.issues, *feedback.suggestions, request.note]
        found = bullets([point for point in points if point.strip()]) or feedback.rationale
        parts = [task.prompt, _ASK, fence("earlier_answer", request.draft.output)]
        if found.strip():
            parts.append(fence("review", found))
        scope = current_scope()
        session = Session() if scope is None else scope[0]
        attempt = await self.agent(replace(task, prompt="\n\n".join(parts)), session)
        why = "the agent shows no model, so it is asked again"
        if not attempt.output.strip():
            problem = (
                f"the agent returned nothing ({attempt.error or attempt.interrupted or 'no reason given'})"
            )
            return Revision(
                request.draft.output, "full_rewrite", why, feedback.issues, (problem,), attempt.usage
            )
        return Revision(attempt.output, "full_rewrite", why, feedback.issues, (), attempt.usage)
