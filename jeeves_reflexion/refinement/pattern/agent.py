"""An agent with the pattern around it, as the seed's examples call one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jeeves_reflexion.callables import run_alone
from jeeves_reflexion.protocols import Agent
from jeeves_reflexion.refinement.loop import attempt_of
from jeeves_reflexion.refinement.pattern.values import ReflectionResult
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import Attempt, Task

if TYPE_CHECKING:
    from jeeves_reflexion.refinement.pattern.core import ReflectionPattern


class PatternAgent:
    """Answers by :meth:`run`; as an agent it nests in :class:`~jeeves_reflexion.Reflexion` as well."""

    def __init__(self, pattern: ReflectionPattern, agent: Agent) -> None:
        self.pattern = pattern
        self.inner = agent
        self.name = f"reflection({getattr(agent, 'name', type(agent).__name__)})"

    async def run(self, query: str | Task) -> ReflectionResult:
        """Answer a query; see :meth:`ReflectionPattern.execute`."""
        return await self.pattern.execute(self.inner, query)

    def run_sync(self, query: str | Task) -> ReflectionResult:
        """Answer a query from code that is not async; raises :class:`SessionError` in code that is."""
        return run_alone(lambda: self.run(query), "agent.run(query)")

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Return the best version as an attempt."""
        refined = await self.pattern.refinement(self.inner, task).refine(task, session)
        self.pattern.result_of(refined)
        return attempt_of(refined)
