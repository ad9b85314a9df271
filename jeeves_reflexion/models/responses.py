"""The format of OpenAI's ``/responses``: writes requests and reads answers.

The endpoint stores nothing (``store`` is false), so the items of each answer, encrypted reasoning included, are sent
back with the next request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jeeves_reflexion.models.chat import as_function, with_schema
from jeeves_reflexion.models.http import UnusableAnswerError
from jeeves_reflexion.models.prices import reported
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolCall, ToolSpec
from jeeves_reflexion.types import JSON

FORM: Final = "responses"

_OF_PLAIN: Final = frozenset({"type", "id", "role", "status", "content"})
_CUT: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}


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
        "max_output_tokens": sampling.max_tokens,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if schema is not None and "text" in refused:
        messages = with_schema(messages, schema)
    elif schema is not None:
        settings["text"] = {"format": {"type": "json_schema", "name": "reply", "schema": schema}}
    if tools:
        # A strict schema allows no optional arguments.
        settings["tools"] = [{"type": "function", **as_function(tool), "strict": False} for tool in tools]
    kept = {name: value for name, value in settings.items() if value is not None and name not in refused}
    return {"input": [item for message in messages for item in _items(message)], **kept}


def named_tool(name: str) -> JSON:
    """Return the ``tool_choice`` that forces one tool."""
    return {"type": "function", "name": name}


def _items(message: Message) -> Sequence[JSON]:
    given = message.opaque.get(FORM)
    if message.role == "assistant" and isinstance(given, Sequence):
        return given
    if message.role == "tool":
        call_id = message.tool_call_id or ""
        return [{"type": "function_call_output", "call_id": call_id, "output": message.content}]
    text: list[JSON] = [{"role": message.role, "content": message.content}]
    calls: list[JSON] = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    return [*(text if message.content or not calls else []), *calls]


def completion(body: Mapping[str, JSON]) -> Completion:
    """Read an answer. Raises :class:`UnusableAnswerError`."""
    items = body.get("output")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UnusableAnswerError("a list 'output'")
    calls = tuple(_call(item) for item in items if item.get("type") == "function_call")
    contents = [item.get("content") or [] for item in items if item.get("type") == "message"]
    if not all(isinstance(content, list) for content in contents):
        raise UnusableAnswerError("a list 'content' in each message")
    parts = [part for content in contents for part in content]
    model, details = body.get("model"), body.get("incomplete_details")
    reason = _CUT.get(str(details.get("reason"))) if isinstance(details, Mapping) else None
    plain = len(items) == 1 and not calls and items[0].keys() <= _OF_PLAIN
    return Completion(
        "".join(map(_text, parts)),
        tool_calls=calls,
        usage=reported(body.get("usage"), "input_tokens", "output_tokens"),
        model=model if isinstance(model, str) else "",
        finish_reason=reason or ("tool_calls" if calls else "stop"),
        opaque={} if plain or not items else {FORM: items},
    )


def _text(part: JSON) -> str:
    match part:
        case {"type": "output_text", "text": str() as text} | {"type": "refusal", "refusal": str() as text}:
            return text
    return ""


def _call(item: Mapping[str, Any]) -> ToolCall:
    match item:
        case {"call_id": str() as id, "name": str() as name, "arguments": str() as arguments} if name:
            return ToolCall(id, name, arguments)
    raise UnusableAnswerError("call_id, name and arguments in each function_call")
