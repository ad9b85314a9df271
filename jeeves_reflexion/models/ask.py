"""Asks a language model, and charges each call to the current run: the one place where calls are metered."""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import anyio.to_thread

from jeeves_reflexion import telemetry
from jeeves_reflexion.errors import described
from jeeves_reflexion.events import ModelCalled, ModelFailed
from jeeves_reflexion.models.thoughts import spoken
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.redaction import redact_json
from jeeves_reflexion.session import current_scope
from jeeves_reflexion.types import JSON, Usage

P = ParamSpec("P")
M = TypeVar("M", bound=ChatModel)
T = TypeVar("T")

# As in the densest usual texts; English has four or more.
_BYTES_PER_TOKEN: Final = 3
# A model may ask another one, as a recorded one asks the real one: only the outermost call counts.
_within: ContextVar[bool] = ContextVar("jeeves_reflexion_within_a_call", default=False)


async def ask(
    model: ChatModel,
    messages: Sequence[Message],
    *,
    tools: Sequence[ToolSpec] = (),
    schema: Mapping[str, JSON] | None = None,
    sampling: Sampling | None = None,
) -> Completion:
    """Ask a model and charge the call to the current run, if there is one, under the role that acts.

    The completion's text comes without what the model thinks aloud. A call that fails is not charged, since its usage
    is unknown. Raises :class:`~jeeves_reflexion.errors.BudgetExceededError` before the call if the budget is used up,
    and :class:`~jeeves_reflexion.errors.ModelError`.
    """
    completion = await _metered(
        model, model.complete, messages, tools=tools, schema=schema, sampling=sampling
    )
    text = spoken(completion.text)
    return completion if text == completion.text else replace(completion, text=text)


async def ask_and_read(
    ask: Callable[[Sequence[Message]], Awaitable[Completion]],
    messages: Sequence[Message],
    read: Callable[[Completion], tuple[T, str]],
    *,
    form: str = "Answer again, in the form that was asked for.",
) -> tuple[T, Usage]:
    """Ask and read the answer; if it can't be read, ask once more and show the problem.

    ``read`` returns a value and the problem with the answer, which is empty for a good one; ``form`` tells the model
    how to answer better. Returns the last value and the usage of all calls.
    """
    completion = await ask(messages)
    value, problem = read(completion)
    if not problem:
        return value, completion.usage
    cut = ", for it was cut off: be brief" if completion.finish_reason == "length" else ""
    request = f"Your answer can't be used: {problem}{cut}. {form}"
    second = await ask(asked_again(messages, completion, request))
    return read(second)[0], completion.usage + second.usage


def asked_again(messages: Sequence[Message], completion: Completion, problem: str) -> list[Message]:
    """Return the conversation continued with an answer and what is wrong with it."""
    if completion.text.strip():
        # Endpoints refuse a tool call without a result, so only the text of such an answer goes back.
        answer = Message("assistant", completion.text) if completion.tool_calls else completion.message()
        return [*messages, answer, Message("user", problem)]
    # Some endpoints refuse an assistant message without text.
    *before, last = messages
    return [*before, Message("user", f"{last.content}\n\n{problem}")]


def metered(
    complete: Callable[Concatenate[M, P], Awaitable[Completion]],
) -> Callable[Concatenate[M, P], Coroutine[Any, Any, Completion]]:
    """Decorate a model's ``complete`` so that the current run is charged even if a user's own agent calls it."""

    @functools.wraps(complete)
    async def wrapped(model: M, /, *args: P.args, **kwargs: P.kwargs) -> Completion:
        return await _metered(model, functools.partial(complete, model), *args, **kwargs)

    return wrapped


def expected_cost(model: ChatModel, *args: Any, **kwargs: Any) -> float:  # noqa: ANN401 - of ``complete``
    """Return what a call may cost in US dollars; 0 if the model can't say."""
    expected = getattr(model, "expected_cost", None)
    return 0.0 if expected is None else float(expected(*args, **kwargs))


def expected_tokens(
    messages: Sequence[Message],
    *,
    tools: Sequence[ToolSpec] = (),
    schema: Mapping[str, JSON] | None = None,
    **_: object,
) -> int:
    """Estimate the tokens of a request, rather too many than too few."""
    sent = [message.content for message in messages]
    sent += [json.dumps(message.opaque, default=str) for message in messages if message.opaque]
    sent += [f"{call.name} {call.arguments}" for message in messages for call in message.tool_calls]
    sent += [json.dumps([tool.description, tool.parameters], default=str) for tool in tools]
    sent.append(json.dumps(schema or {}, default=str))
    return sum(len(text.encode("utf-8", "replace")) for text in sent) // _BYTES_PER_TOKEN


async def _metered(
    model: ChatModel,
    complete: Callable[..., Awaitable[Completion]],
    *args: Any,  # noqa: ANN401 - of ``complete``
    **kwargs: Any,  # noqa: ANN401 - as above
) -> Completion:
    scope = current_scope()
    if scope is None or _within.get():
        return await complete(*args, **kwargs)
    session, role = scope
    session.spend.check()
    started, provider = time.monotonic(), str(getattr(model, "provider", ""))
    tell = functools.partial(session.tell, role=role, provider=provider)
    limited = session.spend.budget.max_cost_usd is not None
    with (
        session.spend.reserving(expected_cost(model, *args, **kwargs))
        if limited
        else contextlib.nullcontext(),
        telemetry.chat(model.name, provider) as span,
    ):
        token = _within.set(True)
        try:
            completion = await complete(*args, **kwargs)
        except Exception as error:
            seconds = time.monotonic() - started
            await tell(ModelFailed, model=model.name, error=described(error), seconds=seconds)
            raise
        finally:
            _within.reset(token)
        session.spend.charge(role, completion.usage)
        answered_by = completion.model or model.name
        telemetry.answered(span, answered_by, completion.usage, completion.finish_reason)
        if telemetry.captured():
            messages = args[0] if args else kwargs.get("messages", ())
            telemetry.said(span, *await anyio.to_thread.run_sync(_told, messages, completion))
    seconds, used, reason = time.monotonic() - started, completion.usage, completion.finish_reason
    await tell(ModelCalled, model=answered_by, usage=used, seconds=seconds, finish_reason=reason)
    return completion


def _told(messages: Sequence[Message], completion: Completion) -> tuple[str, str]:
    """Return the question and the answer as JSON, without secrets and without the model's thoughts."""
    told: list[dict[str, JSON]] = []
    for message in (*messages, Message("assistant", spoken(completion.text), completion.tool_calls)):
        text: JSON = {"type": "text", "content": message.content}
        if message.role == "tool":
            text = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
        calls: list[JSON] = [
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
        parts = [text, *calls] if message.content or not calls else calls
        told.append({"role": message.role, "parts": parts})
    told[-1]["finish_reason"] = completion.finish_reason
    asked, said = (json.dumps(redact_json(part), ensure_ascii=False) for part in (told[:-1], told[-1:]))
    return asked, said
