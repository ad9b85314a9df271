"""The format of OpenAI's ``/chat/completions``: writes requests, and reads answers and streams."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from jeeves_reflexion.errors import ModelResponseError
from jeeves_reflexion.models.formats import ModelCall, TextStream, an_object, put, text_of, with_schema
from jeeves_reflexion.models.http import UnusableAnswerError
from jeeves_reflexion.models.prices import reported
from jeeves_reflexion.models.thoughts import spoken
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolCall, ToolSpec
from jeeves_reflexion.types import JSON

FORM: Final = "chat"


def request(call: ModelCall) -> dict[str, JSON]:
    """Return the body of a request, without the model's name and without settings that the endpoint refused."""
    messages, tools, schema, sampling, refused = call
    settings: dict[str, JSON] = {
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "max_completion_tokens": sampling.max_tokens if "max_tokens" in refused else None,
        "stop": list(sampling.stop) or None,
        "seed": sampling.seed,
    }
    if schema is not None and "response_format" in refused:
        messages = with_schema(messages, schema)
    elif schema is not None:
        form: JSON = {"name": "reply", "schema": schema}
        settings["response_format"] = {"type": "json_schema", "json_schema": form}
    if tools:
        settings["tools"] = [{"type": "function", "function": as_function(tool)} for tool in tools]

    sent: list[JSON] = []
    for message in messages:
        given = message.opaque.get(FORM) if message.role == "assistant" else None
        if isinstance(given, Mapping):
            taken = {name: value for name, value in given.items() if name not in refused}
            sent.append({**taken, "role": "assistant"})
        else:
            sent.append(_as_wire(message))
    kept = {name: value for name, value in settings.items() if value is not None and name not in refused}
    return {"messages": sent, **kept}


def chat_request(
    messages: Sequence[Message],
    *,
    tools: Sequence[ToolSpec] = (),
    schema: Mapping[str, JSON] | None = None,
    sampling: Sampling | None = None,
) -> dict[str, JSON]:
    """Return the body of a ``/chat/completions`` request, without the model's name, for a client of your own."""
    return request(ModelCall(messages, tools, schema, sampling or Sampling()))


def read_chat(answer: Mapping[str, JSON]) -> Completion:
    """Read an answer of ``/chat/completions`` from a client of your own.

    Raises :class:`~jeeves_reflexion.errors.ModelResponseError` if it is not a valid answer.
    """
    try:
        return completion(answer)
    except UnusableAnswerError as lack:
        raise ModelResponseError(f"the client answered without {lack}") from None


def as_function(tool: ToolSpec) -> dict[str, JSON]:
    """Return the description of a tool as OpenAI's API takes it."""
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _as_wire(message: Message) -> dict[str, JSON]:
    wire: dict[str, JSON] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def completion(body: Mapping[str, JSON]) -> Completion:
    """Read an answer. Raises :class:`UnusableAnswerError`."""
    match body:
        case {"choices": [{"message": dict() as message, **choice}, *_]}:
            pass
        case _:
            raise UnusableAnswerError("choices[0].message")
    items = message.get("tool_calls") or []
    if not isinstance(items, list):
        raise UnusableAnswerError("a list of tool calls")
    calls: list[ToolCall] = []
    for number, item in enumerate(items):
        match item:
            case {"function": {"name": str() as name, **rest}, **others} if name:
                id, given = others.get("id"), rest.get("arguments")
                arguments = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
                calls.append(
                    ToolCall(id if isinstance(id, str) and id else f"call_{number}", name, arguments)
                )
            case _:
                raise UnusableAnswerError("a name in each tool call")
    text = text_of(message.get("content")) or text_of(message.get("refusal"))
    model, reason = body.get("model"), choice.get("finish_reason")
    return Completion(
        text,
        tool_calls=tuple(calls),
        usage=reported(body.get("usage"), "prompt_tokens", "completion_tokens"),
        model=model if isinstance(model, str) else "",
        finish_reason=reason if isinstance(reason, str) else "stop",
        opaque=_opaque(message, text, calls),
    )


def _opaque(message: Mapping[str, Any], text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return the whole message under the name of its format; empty if it says no more than what was read of it."""
    whole = {name: value for name, value in message.items() if name != "tool_calls" or value}
    if calls:
        whole["tool_calls"] = [
            # A call without an id gets ours, since the tool's result refers to it.
            {
                **item,
                "id": call.id,
                "type": item.get("type", "function"),
                "function": {**item["function"], "arguments": call.arguments},
            }
            for item, call in zip(message["tool_calls"], calls, strict=True)
        ]
    as_read = _as_wire(Message("assistant", text, tuple(calls)))
    filled = (name for name, value in whole.items() if name != "role" and value not in (None, "", [], {}))
    if spoken(text) == text and all(whole[name] == as_read.get(name) for name in filled):
        return {}
    return {FORM: whole}


class ChatStream(TextStream):
    """The chunks of ``/chat/completions``; the answer is complete with its ``finish_reason``."""

    asks: ClassVar[Mapping[str, JSON]] = {"stream": True, "stream_options": {"include_usage": True}}

    def _read(self, event: Mapping[str, Any]) -> str:
        self.body |= {name: event[name] for name in ("model", "usage") if event.get(name)}
        match event.get("choices"):
            case [dict() as choice, *_]:
                delta = an_object(choice.get("delta"))
            case _:
                return ""
        (kept,) = self.body.setdefault("choices", [{"message": {"role": "assistant", "content": None}}])
        put(kept["message"], delta)
        if choice.get("finish_reason"):
            kept["finish_reason"] = choice["finish_reason"]
            calls = kept["message"].get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                # The index belongs to the stream, and some servers refuse it in the next request.
                an_object(call).pop("index", None)
            self.ended = True
        return text_of(delta.get("content"))
