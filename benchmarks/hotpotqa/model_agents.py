"""Language models as agents: ReAct with Search and Lookup, and chain of thought with and without paragraphs.

Both as in Reflexion's runs on HotpotQA (Shinn et al. 2023, section 4.2 and ``hotpotqa_runs/agents.py``): six steps,
prompts of a bounded length, and for chain of thought one answer, from what the model knows or from paragraphs in the
prompt. The examples in the prompts are ours, two instead of the paper's six.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jeeves_reflexion import (
    Attempt,
    ChatModel,
    Completion,
    Message,
    ReAct,
    Sampling,
    Session,
    Step,
    Task,
)
from jeeves_reflexion.agents.reply import parse_reply
from jeeves_reflexion.events import StepTaken
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.text import estimate_tokens, fence, read_prompt, render_blocks

from .environment import CONTEXT_LIMIT, STEP_LIMIT, Browser
from .failures import ContextFullError
from .pages import PagesFor
from .questions import Page, Paragraphs

PACKAGE = __package__
MAX_CONTEXT = "max_context"
_STEADY = Sampling(temperature=0.0)
_PARAGRAPHS_NOTE = "Paragraphs of Wikipedia; not all of them matter."


class ShortContext(WrappedModel):
    """A model that refuses prompts of more than ``limit`` tokens, estimated as a quarter of their characters."""

    def __init__(self, model: ChatModel, limit: int = CONTEXT_LIMIT) -> None:
        super().__init__(model)
        self._limit = limit

    async def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - its own
        """Ask the model; raises :class:`ContextFullError` where the prompt is too long."""
        tokens = sum(estimate_tokens(message.content) for message in messages)
        if tokens > self._limit:
            raise ContextFullError(f"the prompt has about {tokens} tokens, and {self._limit} are allowed")
        return await super().complete(messages, **settings)


class TextForm(ShortContext):
    """The same without tools of its own: it writes ``Action: Search[...]`` or ``Action: Finish[...]``, as in the paper.

    The examples in the prompt are in that form; a model that is offered tools beside them may follow either.
    """

    @property
    def supports_tools(self) -> bool:
        """No, whatever the model says."""
        return False


class ReActAgent:
    """The framework's ReAct over the pages of each question, in the text form of the paper.

    An attempt that used up its steps has ``interrupted="max_turns"``, one whose prompt grew too long ``"max_context"``.
    """

    name = "react"
    retry_safe = True

    def __init__(
        self,
        model: ChatModel,
        pages: PagesFor,
        *,
        step_limit: int = STEP_LIMIT,
        context_limit: int = CONTEXT_LIMIT,
    ) -> None:
        self.model = TextForm(model, context_limit)
        self._pages = pages
        self._step_limit = step_limit
        self._system = read_prompt(None, PACKAGE, "react.md")

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Answer once."""
        browser = Browser(self._pages(task.id))
        react = ReAct(
            self.model,
            browser.tools(),
            max_turns=self._step_limit,
            max_repeats=None,  # as in the paper, whose agents go on to the limit
            system_prompt=self._system,
            sampling=_STEADY,
        )
        try:
            attempt = await react(task, session)
        except ContextFullError:
            return Attempt(interrupted=MAX_CONTEXT)
        if attempt.error and attempt.error.startswith(ContextFullError.__name__):
            return replace(attempt, error=None, interrupted=MAX_CONTEXT)
        return attempt


class CotAgent:
    """Chain of thought: one call, a thought and an answer; ``paragraphs`` are put into the prompt, if there are any."""

    name = "cot"
    retry_safe = True

    def __init__(
        self, model: ChatModel, paragraphs: Paragraphs | None = None, *, context_limit: int = CONTEXT_LIMIT
    ) -> None:
        self.model = ShortContext(model, context_limit)
        self._paragraphs = paragraphs
        self._system = read_prompt(None, PACKAGE, "cot.md")

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Answer once; a reply that holds no answer in the form asked for is an attempt without one."""
        parts = [self._system, render_blocks(session.blocks)]
        asked = f"Question: {task.prompt}"
        if self._paragraphs is not None:
            shown = _written(self._paragraphs[task.id])
            asked = f"{fence('paragraphs', shown, note=_PARAGRAPHS_NOTE)}\n\n{asked}"
        messages = [Message("system", "\n\n".join(filter(None, parts))), Message("user", asked)]
        try:
            completion = await ask(self.model, messages, sampling=_STEADY)
        except ContextFullError:
            return Attempt(interrupted=MAX_CONTEXT)
        reply = parse_reply(completion.text)
        answer = reply.argument if reply.finished else ""
        step = Step(reply.thought, reply.action, reply.problem, failed=not reply.finished)
        await session.emit(StepTaken(run_id=session.id, attempt=session.attempt, number=1, step=step))
        return Attempt(answer, (step,), completion.usage)


def _written(pages: Sequence[Page]) -> str:
    return "\n\n".join(f"{page.title}\n{page.text}" for page in pages)
