"""The format of OpenAI's ``/chat/completions``: writes requests and reads answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jeeves_reflexion.errors import ModelResponseError
from jeeves_reflexion.models.http import UnusableAnswerError
from jeeves_reflexion.models.prices import reported
from jeeves_reflexion.models.thoughts import spoken
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolCall, ToolSpec
from jeeves_reflexion.types import JSON

FORM: Final = "chat"


def request(
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    schema: Mapping[str, JSON] | None,
    sampling: Sampling,
    refused: frozenset[str],
) -> dict[str, JSON]:
    """Return the body of a request, without the model's name and without settings that the endpoint refused."""
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
    kept = {name: value for name, value in settings.items() if value is not None and name not in refused}
    return {"messages": [_sent(message, refused) for message in messages], **kept}


def chat_request(
    messages: Sequence[Message],
    *,
    tools: Sequence[ToolSpec] = (),
    schema: Mapping[str, JSON] | None = None,
    sampling: Sampling | None = None,
) -> dict[str, JSON]:
    """Return the body of a ``/chat/completions`` request, without the model's name, for a client of your own."""
    return request(messages, tools, schema, sampling or Sampling(), frozenset())


def read_chat(answer: Mapping[str, JSON]) -> Completion:
    """Read an answer of ``/chat/completions`` from a client of your own.

    Raises :class:`~jeeves_reflexion.errors.ModelResponseError` if it is not a valid answer.
    """
    try:
        return completion(answer)
    except UnusableAnswerError as lack:
        raise ModelResponseError(f"the client answered without {lack}") from None


def named_tool(name: str) -> JSON:
    """Return the ``tool_choice`` that forces one tool."""
    return {"type": "function", "function": {"name": name}}


def with_schema(messages: Sequence[Message], schema: Mapping[str, JSON]) -> list[Message]:
    """Return a conversation whose last message asks for JSON of a schema."""
    form = "Answer with JSON alone, of this JSON Schema:\n" + json.dumps(schema, ensure_ascii=False)
    if messages and messages[-1].role == "user":
        return [*messages[:-1], Message("user", f"{messages[-1].content}\n\n{form}")]
    return [*messages, Message("user", form)]


def as_function(tool: ToolSpec) -> dict[str, JSON]:
    """Return the description of a tool as OpenAI's API takes it."""
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _sent(message: Message, refused: frozenset[str]) -> JSON:
    given = message.opaque.get(FORM) if message.role == "assistant" else None
    if not isinstance(given, Mapping):
        return _as_wire(message)
    return {**{name: value for name, value in given.items() if name not in refused}, "role": "assistant"}


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
    calls = [_call(item, number) for number, item in enumerate(items)]
    known = tuple(call for call in calls if call is not None)
    if len(known) < len(calls):
        raise UnusableAnswerError("a name in each tool call")
    text = text_of(message.get("content")) or text_of(message.get("refusal"))
    model, reason = body.get("model"), choice.get("finish_reason")
    return Completion(
        text,
        tool_calls=known,
        usage=reported(body.get("usage"), "prompt_tokens", "completion_tokens"),
        model=model if isinstance(model, str) else "",
        finish_reason=reason if isinstance(reason, str) else "stop",
        opaque=_opaque(message, text, known),
    )


def text_of(content: JSON) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(
            text_of(part.get("text")) if isinstance(part, Mapping) else text_of(part) for part in content
        )
    return ""


def _call(item: JSON, number: int) -> ToolCall | None:
    match item:
        case {"function": {"name": str() as name, **rest}, **call} if name:
            arguments = rest.get("arguments")
            text = (
                arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
            )
            id = call.get("id")
            return ToolCall(id if isinstance(id, str) and id else f"call_{number}", name, text)
    return None


def _opaque(message: Mapping[str, Any], text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return the whole message under the name of its format; empty if it says no more than what was read of it.

    Calls without an id get ours, since the tool's result refers to it.
    """
    whole = {name: value for name, value in message.items() if name != "tool_calls" or value}
    if calls:
        pairs = zip(message["tool_calls"], calls, strict=True)
        whole["tool_calls"] = [_completed(item, call) for item, call in pairs]
    as_read = _as_wire(Message("assistant", text, tuple(calls)))
    filled = (name for name, value in whole.items() if name != "role" and value not in (None, "", [], {}))
    if spoken(text) == text and all(whole[name] == as_read.get(name) for name in filled):
        return {}
    return {FORM: whole}


def _completed(item: Mapping[str, Any], call: ToolCall) -> JSON:
    function = {**item["function"], "arguments": call.arguments}
    return {**item, "id": call.id, "type": item.get("type", "function"), "function": function}
