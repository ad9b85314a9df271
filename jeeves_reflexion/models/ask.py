"""The one place where the framework calls a language model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jeeves_reflexion.events import ModelCalled
from jeeves_reflexion.models.thoughts import spoken
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.session import current_scope
from jeeves_reflexion.types import JSON


async def ask(
    model: ChatModel,
    messages: Sequence[Message],
    *,
    tools: Sequence[ToolSpec] = (),
    schema: Mapping[str, JSON] | None = None,
    sampling: Sampling | None = None,
) -> Completion:
    """Ask a model on behalf of whoever acts in the current run, and charge the call to that run's budget.

    What the model thinks aloud is left out of the completion's text. Outside of a run it only asks. A call that fails
    is not charged: what it used is not known. Raises :class:`~jeeves_reflexion.errors.BudgetExceededError` before the
    call if the budget is used up, and :class:`~jeeves_reflexion.errors.ModelError`.
    """
    scope = current_scope()
    if scope is None:
        completion = await model.complete(messages, tools=tools, schema=schema, sampling=sampling)
        return replace(completion, text=spoken(completion.text))
    session, role = scope
    session.spend.check()
    started = time.monotonic()
    completion = await model.complete(messages, tools=tools, schema=schema, sampling=sampling)
    seconds = time.monotonic() - started
    session.spend.charge(role, completion.usage)
    if session.listener is not None:
        await session.emit(
            ModelCalled(
                run_id=session.id,
                attempt=session.attempt,
                role=role,
                model=completion.model or model.name,
                usage=completion.usage,
                seconds=seconds,
            )
        )
    return replace(completion, text=spoken(completion.text))
