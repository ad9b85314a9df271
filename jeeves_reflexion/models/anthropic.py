"""Models of Anthropic's Messages API, its requests, answers and streams."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

from jeeves_reflexion.models.endpoint import EndpointModel, EndpointOptions
from jeeves_reflexion.models.formats import ModelCall, TextStream, an_object, put, text_of, with_schema
from jeeves_reflexion.models.http import UnusableAnswerError
from jeeves_reflexion.models.near_json import json_or_none
from jeeves_reflexion.models.prices import priced, reported
from jeeves_reflexion.protocols import Completion, Message, ToolCall
from jeeves_reflexion.types import JSON

VERSION: Final = "2023-06-01"
FORM: Final = "anthropic"
MAX_TOKENS: Final = 4096

_ENDS: Final = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}
_CACHED: Final[Mapping[str, JSON]] = {"cache_control": {"type": "ephemeral"}}
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicOptions(EndpointOptions):
    """Settings for every request, such as ``extra={"thinking": {...}}``; see :class:`EndpointOptions`.

    The API requires a bound on the tokens of an answer: ``max_tokens``, unless a call sets its own. ``cache`` marks
    the system prompt and the last message, so that the next turn reads them from Anthropic's cache.
    """

    max_tokens: int = MAX_TOKENS
    cache: bool = False


class MessagesStream(TextStream):
    """The events of Anthropic's Messages API."""

    def _read(self, event: Mapping[str, Any]) -> str:
        match event:
            case {"type": "message_start", "message": dict() as message}:
                # It counts only the beginning of the output: without a later count the total is unknown.
                usage = {**an_object(message.get("usage")), "output_tokens": None}
                self.body = {**message, "usage": usage}
            case {"type": "content_block_start", "index": int() as index, "content_block": dict() as block}:
                self._blocks[index] = dict(block)
            case {"type": "content_block_delta", "index": int() as index, "delta": dict() as delta}:
                block = self._blocks.setdefault(index, {})
                if delta.get("type") == "citations_delta":
                    block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
                else:
                    put(block, {name: value for name, value in delta.items() if name != "type"})
                return text_of(delta.get("text"))
            case {"type": "message_delta", "delta": dict() as delta, **rest}:
                counts = an_object(rest.get("usage"))
                known = {name: count for name, count in counts.items() if count is not None}
                self.body |= {**delta, "usage": {**self.body.get("usage", {}), **known}}
            case {"type": "message_stop"}:
                blocks = [dict(block) for _, block in sorted(self._blocks.items())]
                for block in blocks:
                    if written := block.pop("partial_json", None):
                        block["input"] = json_or_none(str(written))
                # The last call may have been cut off.
                cut = self.body.get("stop_reason") == "max_tokens"
                self.body["content"] = [
                    each for each in blocks if not cut or each.get("input", "") is not None
                ]
                self.ended = True
        return ""


class AnthropicModel(EndpointModel):
    """A Claude model at Anthropic's Messages API, or at a service that speaks it.

    ``base_url`` defaults to ``ANTHROPIC_BASE_URL``, then to Anthropic's own address; ``api_key`` defaults to
    ``ANTHROPIC_API_KEY``. Both variables are read at construction. An endpoint on this machine needs no key, and
    ``api_key=""`` sends none. ``timeout`` is in seconds and bounds a whole request; ``retry`` says how failed requests
    are repeated. ``stream=True`` streams answers, and listeners of a run receive the text as it arrives
    (:class:`~jeeves_reflexion.events.TextStreamed`). Without ``prices`` the cost of a call is unknown (``None``), and a
    cost budget can't be kept. A schema is requested in the prompt.

    Raises :class:`ConfigurationError` for a bad address or setting, and :class:`ModelAuthError` if a required key is
    missing.
    """

    provider, _home = "anthropic", "https://api.anthropic.com"
    _options, _stream = AnthropicOptions, MessagesStream
    _lacks = frozenset({"seed"})
    _given: AnthropicOptions

    def _address(self) -> httpx.URL:
        return self._base.copy_with(path=self._base.path.rstrip("/").removesuffix("/v1") + "/v1/messages")

    def _headers(self, key: str) -> dict[str, str]:
        headers = httpx.Headers({"anthropic-version": VERSION, **({"x-api-key": key} if key else {})})
        headers.update(self._given.headers)
        return dict(headers)

    def _body(self, call: ModelCall) -> dict[str, JSON]:
        tools, sampling = call.tools, call.sampling
        messages = call.messages if call.schema is None else with_schema(call.messages, call.schema)
        text = "\n\n".join(
            each.content for each in messages if each.role == "system" and each.content.strip()
        )
        turns = _turns(messages)
        system: list[dict[str, JSON]] = [{"type": "text", "text": text}] if text else []
        if self._given.cache:
            last = turns[-1]["content"] if turns and turns[-1]["role"] == "user" else []
            for blocks in (system, last):
                blocks[-1:] = [{**block, **_CACHED} for block in blocks[-1:]]
        settings: dict[str, JSON] = {
            "max_tokens": sampling.max_tokens,
            "system": system or None,
            "messages": turns,
            "temperature": sampling.temperature,
            "stop_sequences": list(sampling.stop) or None,
        }
        if tools:
            settings["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in tools
            ]
            wanted, parallel = self._given.tool_choice, self._given.parallel_tool_calls
            choice: dict[str, JSON] = {}
            if wanted in {tool.name for tool in tools}:
                choice = {"type": "tool", "name": wanted}
            elif wanted in _CHOICES or parallel is not None:
                choice = {"type": _CHOICES.get(wanted or "auto", "auto")}
            if parallel is not None and choice["type"] != "none":
                choice["disable_parallel_tool_use"] = not parallel
            settings["tool_choice"] = choice or None
        return self._with_extra(
            {name: each for name, each in settings.items() if each is not None and name not in call.refused}
        )

    def _read(self, body: Mapping[str, JSON]) -> Completion:
        blocks = body.get("content")
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise UnusableAnswerError("a list 'content'")
        calls: list[ToolCall] = []
        for block in blocks:
            match block:
                case {"type": "tool_use", "id": str(id), "name": str(name), "input": dict(given)} if name:
                    calls.append(ToolCall(id, name, json.dumps(given, ensure_ascii=False)))
                case {"type": "tool_use"}:
                    raise UnusableAnswerError("id, name and input in each tool_use")
        text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
        plain = all(block.keys() == {"type", "text"} for block in blocks)
        sent, model, reason = body.get("usage"), body.get("model"), body.get("stop_reason")
        counts: dict[str, Any] = dict(sent) if isinstance(sent, Mapping) else {}
        read, written = (counts.get(f"cache_{kind}_input_tokens") for kind in ("read", "creation"))
        # The API's input_tokens leave out the tokens that were read from its cache or written to it.
        if isinstance(counts.get("input_tokens"), int):
            counts["input_tokens"] += sum(each for each in (read, written) if isinstance(each, int))
        usage = reported(counts, "input_tokens", "output_tokens")
        return Completion(
            text,
            tool_calls=tuple(calls),
            usage=priced(usage, self._prices, written=written if isinstance(written, int) else 0),
            model=model if isinstance(model, str) else "",
            finish_reason=_ENDS.get(str(reason), "stop"),
            opaque={} if plain else {FORM: blocks},
        )


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages as turns that alternate: tool results and what the user says next share a turn.

    Blank texts are left out, since the API refuses them, even those that it wrote.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        given = message.opaque.get(FORM)
        if message.role == "system":
            continue
        if message.role == "assistant" and isinstance(given, Sequence):
            blocks = [each for each in given if each.get("type") != "text" or str(each.get("text")).strip()]
        elif message.role == "tool":
            id, result = message.tool_call_id or "", message.content
            blocks = [{"type": "tool_result", "tool_use_id": id, "content": result}]
        else:
            blocks = [{"type": "text", "text": message.content}] if message.content.strip() else []
            for call in message.tool_calls:
                arguments = json_or_none(call.arguments or "{}")
                # The API takes objects only: anything else that a model wrote goes back as text within one.
                taken = arguments if isinstance(arguments, dict) else {"arguments": call.arguments}
                blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": taken})
        role = "assistant" if message.role == "assistant" else "user"
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns
