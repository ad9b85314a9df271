"""An agent that reads its task's notes first, for loops other than the ensemble's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jeeves_reflexion.agents.function import as_agent
from jeeves_reflexion.session import Session
from jeeves_reflexion.tasknotes.injection import NOTES_TOKENS, prompt_with, with_prompt
from jeeves_reflexion.tasknotes.reflector import TaskReflector
from jeeves_reflexion.tasknotes.values import ReflectionStore
from jeeves_reflexion.types import Attempt, Task


class NotedAgent:
    """Shows an agent the notes of its task, beside the lessons that the loop recalled and without repeating them.

    ``Reflexion(NotedAgent(agent, store), ...)`` recalls both; :meth:`TaskReflector.reflect` writes the notes once the
    loop's output was accepted. A store that fails costs a warning.
    """

    def __init__(
        self, agent: Callable[..., Any], store: ReflectionStore, *, notes_tokens: int = NOTES_TOKENS
    ) -> None:
        self.agent = as_agent(agent)
        self.name = str(getattr(self.agent, "name", type(self.agent).__name__))
        self.reflector = TaskReflector(store)
        self._tokens = notes_tokens
        for attribute in ("retry_safe", "reset", "model"):
            if hasattr(self.agent, attribute):
                setattr(self, attribute, getattr(self.agent, attribute))

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Try the task once."""
        notes = await self.reflector.recall(task, session)
        if notes.reflection is None or not notes.reflection.complete:
            return await self.agent(task, session)
        said = [line.removeprefix("- ") for block in session.blocks.values() for line in block.splitlines()]
        prompt = prompt_with(task, notes.reflection, max_tokens=self._tokens, said=said)
        return await self.agent(with_prompt(task, prompt), session)
