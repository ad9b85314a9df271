"""What was said in a call of a model, as spans of OpenTelemetry hold it where somebody asked for that."""

from __future__ import annotations

import json
from collections.abc import Sequence

from jeeves_reflexion.models.thoughts import spoken
from jeeves_reflexion.protocols import Completion, Message
from jeeves_reflexion.redaction import redact_json
from jeeves_reflexion.types import JSON


def as_captured(messages: Sequence[Message], completion: Completion) -> tuple[str, str]:
    """Return what a model was asked and what it answered, as JSON, without secrets and without its thoughts."""
    answer = Message("assistant", spoken(completion.text), completion.tool_calls)
    told: JSON = {**_captured(answer), "finish_reason": completion.finish_reason}
    return _written([_captured(message) for message in messages]), _written([told])


def _captured(message: Message) -> dict[str, JSON]:
    text: JSON = {"type": "text", "content": message.content}
    if message.role == "tool":
        text = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
    calls: list[JSON] = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": [text, *calls] if message.content or not calls else calls}


def _written(messages: Sequence[JSON]) -> str:
    return json.dumps(redact_json(messages), ensure_ascii=False)
