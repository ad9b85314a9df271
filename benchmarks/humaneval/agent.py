"""An agent that writes a function, and rewrites it by the feedback of its tests and its lessons.

As in Shinn et al. 2023 (4.3 and appendix), the first attempt sees the function's head and docstring. Later attempts
also see the previous implementation, the feedback of its own tests, and the reflections. Arms without memory see only
the head and docstring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources

from jeeves_reflexion import Attempt, ChatModel, Message, Reflexion, Sampling, Session, Step, Task, Trial
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.text import LESSONS_NOTE, fence
from jeeves_reflexion.types import JSON

from .programs import solution_in

LESSONS_BLOCK = "reflexion_lessons"
ENTRY_POINT = "entry_point"
PREVIOUS_BLOCK = "previous_implementation"
RESULTS_BLOCK = "test_results"


class CodeReflexion(Reflexion):
    """The loop whose attempts also see the previous implementation and the rationale of its verdict, without gold."""

    async def trial(
        self, task: Task, history: Sequence[Trial], session: Session, *, commit: bool = True
    ) -> Trial:
        """Do one turn of the loop; the previous implementation and its results are blocks of the session."""
        if history:
            last = history[-1]
            results = last.evaluation.public(task.reference).rationale
            blocks = {**session.blocks, PREVIOUS_BLOCK: last.attempt.output, RESULTS_BLOCK: results}
            session = replace(session, blocks=blocks)
            if not self.options.learn:
                # The arm last-attempt shows the attempt in place of lessons: the code would appear twice.
                history = [*history[:-1], replace(last, block="")]
        return await super().trial(task, history, session, commit=commit)


class CodeAgent:
    """Lets a language model write; the result depends only on the task and the session."""

    name = "humaneval"
    retry_safe = True

    def __init__(self, model: ChatModel, *, temperature: float, max_tokens: int = 1024) -> None:
        self._model = model
        self._sampling = Sampling(temperature=temperature, max_tokens=max_tokens)

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Write once. ``Attempt.output`` is the solution, which is empty (and fails) if the reply has no code."""
        before = [name for name in (PREVIOUS_BLOCK, RESULTS_BLOCK) if name in session.blocks]
        parts = [*(fence(name, session.blocks[name]) for name in before), task.prompt]
        system = prompt_text("rewrite.md" if before else "write.md")
        if lessons := session.blocks.get(LESSONS_BLOCK, ""):
            system += "\n\n" + fence("lessons", lessons, note=LESSONS_NOTE)
        messages = [Message("system", system), Message("user", "\n\n".join(parts))]
        completion = await ask(self._model, messages, sampling=self._sampling)
        solution = solution_in(completion.text, task.prompt, entry_point_of(task))
        return Attempt(solution, (Step(action="wrote the function"),))


def prompt_text(name: str) -> str:
    """Return a prompt of this benchmark."""
    return resources.files(__package__).joinpath("prompts", name).read_text(encoding="utf-8").strip()


def entry_point_of(task: Task) -> str:
    """Return the name of the function that a task asks for."""
    return str(task.metadata[ENTRY_POINT])


def metadata_of(entry_point: str) -> Mapping[str, JSON]:
    """Return a task's public metadata."""
    return {ENTRY_POINT: entry_point}
