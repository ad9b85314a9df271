"""The format of OpenAI's ``/responses``: writes requests, and reads answers and streams.

The endpoint stores nothing (``store`` is false), so the items of each answer, encrypted reasoning included, are sent
back with the next request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jeeves_reflexion.models.chat import as_function
from jeeves_reflexion.models.formats import ModelCall, TextStream, with_schema
from jeeves_reflexion.models.http import UnusableAnswerError
from jeeves_reflexion.models.prices import reported
from jeeves_reflexion.protocols import Completion, ToolCall
from jeeves_reflexion.types import JSON

FORM: Final = "responses"

_OF_PLAIN: Final = frozenset({"type", "id", "role", "status", "content"})
_CUT: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}


def request(call: ModelCall) -> dict[str, JSON]:
    """Return the body of a request, without the model's name and without settings that the endpoint refused."""
    messages, tools, schema, sampling, refused = call
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

    items: list[JSON] = []
    for message in messages:
        given = message.opaque.get(FORM)
        if message.role == "assistant" and isinstance(given, Sequence):
            items += given
        elif message.role == "tool":
            call_id = message.tool_call_id or ""
            items.append({"type": "function_call_output", "call_id": call_id, "output": message.content})
        else:
            if message.content or not message.tool_calls:
                items.append({"role": message.role, "content": message.content})
            items += [
                {"type": "function_call", "call_id": each.id, "name": each.name, "arguments": each.arguments}
                for each in message.tool_calls
            ]
    kept = {name: value for name, value in settings.items() if value is not None and name not in refused}
    return {"input": items, **kept}


def completion(body: Mapping[str, JSON]) -> Completion:
    """Read an answer. Raises :class:`UnusableAnswerError`."""
    items = body.get("output")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UnusableAnswerError("a list 'output'")
    texts: list[str] = []
    calls: list[ToolCall] = []
    for item in items:
        match item:
            case {
                "type": "function_call",
                "call_id": str(id),
                "name": str(name),
                "arguments": str(given),
            } if name:
                calls.append(ToolCall(id, name, given))
            case {"type": "function_call"}:
                raise UnusableAnswerError("call_id, name and arguments in each function_call")
            case {"type": "message"}:
                content = item.get("content") or []
                if not isinstance(content, list):
                    raise UnusableAnswerError("a list 'content' in each message")
                for part in content:
                    match part:
                        case {"type": "output_text", "text": str(said)} | {
                            "type": "refusal",
                            "refusal": str(said),
                        }:
                            texts.append(said)
    model, details = body.get("model"), body.get("incomplete_details")
    reason = _CUT.get(str(details.get("reason"))) if isinstance(details, Mapping) else None
    plain = len(items) == 1 and not calls and items[0].keys() <= _OF_PLAIN
    return Completion(
        "".join(texts),
        tool_calls=tuple(calls),
        usage=reported(body.get("usage"), "input_tokens", "output_tokens"),
        model=model if isinstance(model, str) else "",
        finish_reason=reason or ("tool_calls" if calls else "stop"),
        opaque={} if plain or not items else {FORM: items},
    )


class ResponsesStream(TextStream):
    """The events of ``/responses``; the last one brings the whole answer."""

    def _read(self, event: Mapping[str, Any]) -> str:
        match event:
            case {"type": "response.output_text.delta", "delta": str() as text}:
                return text
            case {"type": "response.output_item.done", "item": item}:
                self._blocks[len(self._blocks)] = item
            case {"type": "response.completed" | "response.incomplete", "response": dict() as response}:
                # The last event of some services leaves out the items that were sent before.
                self.body = {**response, "output": response.get("output") or [*self._blocks.values()]}
                self.ended = True
        return ""
