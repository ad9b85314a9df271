"""A language model as the agent: ReAct with Search and Lookup.

As in Reflexion's runs on HotpotQA (Shinn et al. 2023, section 4.2 and ``hotpotqa_runs/agents.py``), an attempt has six
steps and prompts of bounded length. The prompt has two examples of ours instead of the paper's six.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from jeeves_reflexion import (
    Attempt,
    ChatModel,
    Completion,
    Message,
    ModelError,
    ReAct,
    Sampling,
    Session,
    Task,
)
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.text import estimate_tokens, read_prompt

from .environment import CONTEXT_LIMIT, STEP_LIMIT, Browser
from .pages import Pages
from .questions import Paragraphs

MAX_CONTEXT: Final = "max_context"


class ContextFullError(ModelError):
    """A prompt is longer than the benchmark allows, so the model was not asked."""


class ShortTextModel(WrappedModel):
    """A model without native tools that refuses prompts of more than ``limit`` tokens (a quarter of the characters).

    The model should write ``Action: Search[...]``, as in the paper and in the prompt's examples. Native tools beside
    these examples would leave it two forms to follow.
    """

    def __init__(self, model: ChatModel, limit: int = CONTEXT_LIMIT) -> None:
        super().__init__(model)
        self._limit = limit

    async def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - its own
        """Ask the model. Raises :class:`ContextFullError` if the prompt is too long."""
        tokens = sum(estimate_tokens(message.content) for message in messages)
        if tokens > self._limit:
            raise ContextFullError(f"the prompt has about {tokens} tokens, and {self._limit} are allowed")
        return await super().complete(messages, **settings)

    @property
    def supports_tools(self) -> bool:
        """Always False."""
        return False


class ReActAgent:
    """The framework's ReAct over the pages of each question, in the text form of the paper.

    ``Attempt.interrupted`` is ``"max_turns"`` if the steps ran out, ``"max_context"`` if the prompt grew too long.
    """

    name = "react"
    retry_safe = True

    def __init__(
        self,
        model: ChatModel,
        paragraphs: Paragraphs,
        *,
        step_limit: int = STEP_LIMIT,
        context_limit: int = CONTEXT_LIMIT,
    ) -> None:
        self.model = ShortTextModel(model, context_limit)
        self._paragraphs = paragraphs
        self._step_limit = step_limit
        self._system = read_prompt(None, __package__, "react.md")

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Answer once."""
        browser = Browser(Pages(self._paragraphs[task.id]))
        react = ReAct(
            self.model,
            browser.tools(),
            max_turns=self._step_limit,
            max_repeats=None,  # as in the paper, whose agents continue to the limit
            system_prompt=self._system,
            sampling=Sampling(temperature=0.0),
        )
        try:
            attempt = await react(task, session)
        except ContextFullError:
            return Attempt(interrupted=MAX_CONTEXT)
        if attempt.error and attempt.error.startswith(ContextFullError.__name__):
            return replace(attempt, error=None, interrupted=MAX_CONTEXT)
        return attempt
