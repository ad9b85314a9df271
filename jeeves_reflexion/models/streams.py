"""Readers of streamed answers, one per format: they assemble the events into the answer sent without streaming."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from jeeves_reflexion.models.chat import text_of
from jeeves_reflexion.types import JSON
from vectorstores.json_http import AnswerStream
from vectorstores.service_answers import parsed

Tell: TypeAlias = Callable[[str], Awaitable[None]]

# Texts that arrive in pieces. Any other text is complete each time that it arrives.
_IN_PIECES: Final = frozenset(
    {
        "content",
        "reasoning_content",
        "reasoning",
        "refusal",
        "arguments",
        "text",
        "summary",
        "thinking",
        "data",
    }
)


class TextStream(AnswerStream):
    """Reads the events of one answer, and passes its text to ``tell`` as it arrives."""

    asks: ClassVar[Mapping[str, JSON]] = {"stream": True}
    """The settings of a request that ask for a streamed answer."""

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell = tell

    async def take(self, event: Mapping[str, Any]) -> None:
        """Read an event."""
        text = self._read(event)
        if text and self._tell is not None:
            self.handed_on = True
            await self._tell(text)

    @abstractmethod
    def _read(self, event: Mapping[str, Any]) -> str:
        """Add an event to the answer, and return the text that it brings."""


class ChatStream(TextStream):
    """The chunks of ``/chat/completions``; the answer is complete with its ``finish_reason``."""

    asks: ClassVar[Mapping[str, JSON]] = {"stream": True, "stream_options": {"include_usage": True}}

    def _read(self, event: Mapping[str, Any]) -> str:
        self.body |= {name: event[name] for name in ("model", "usage") if event.get(name)}
        match event.get("choices"):
            case [dict() as choice, *_]:
                delta = _object(choice.get("delta"))
            case _:
                return ""
        (kept,) = self.body.setdefault("choices", [{"message": {"role": "assistant", "content": None}}])
        _put(kept["message"], delta)
        if choice.get("finish_reason"):
            kept["finish_reason"] = choice["finish_reason"]
            calls = kept["message"].get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                # The index belongs to the stream, and some servers refuse it in the next request.
                _object(call).pop("index", None)
            self.ended = True
        return text_of(delta.get("content"))


class ResponsesStream(TextStream):
    """The events of ``/responses``; the last one brings the whole answer."""

    def begin(self) -> None:
        """Forget what arrived."""
        super().begin()
        self._items: list[JSON] = []

    def _read(self, event: Mapping[str, Any]) -> str:
        match event:
            case {"type": "response.output_text.delta", "delta": str() as text}:
                return text
            case {"type": "response.output_item.done", "item": item}:
                self._items.append(item)
            case {"type": "response.completed" | "response.incomplete", "response": dict() as response}:
                # The last event of some services leaves out the items that were sent before.
                self.body = {**response, "output": response.get("output") or self._items}
                self.ended = True
        return ""


class MessagesStream(TextStream):
    """The events of Anthropic's Messages API."""

    def begin(self) -> None:
        """Forget what arrived."""
        super().begin()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}

    def _read(self, event: Mapping[str, Any]) -> str:
        match event:
            case {"type": "message_start", "message": dict() as message}:
                # It counts only the beginning of the output: without a later count the total is unknown.
                usage = {**_object(message.get("usage")), "output_tokens": None}
                self.body = {**message, "usage": usage}
            case {"type": "content_block_start", "index": int() as index, "content_block": dict() as block}:
                self._blocks[index] = dict(block)
            case {"type": "content_block_delta", "index": int() as index, "delta": dict() as delta}:
                return self._changed(index, delta)
            case {"type": "message_delta", "delta": dict() as delta, **rest}:
                counts = _object(rest.get("usage"))
                known = {name: count for name, count in counts.items() if count is not None}
                self.body |= {**delta, "usage": {**self.body.get("usage", {}), **known}}
            case {"type": "message_stop"}:
                self.body["content"] = [*self._content()]
                self.ended = True
        return ""

    def _changed(self, index: int, delta: Mapping[str, Any]) -> str:
        block = self._blocks.setdefault(index, {})
        match delta:
            case {"type": "input_json_delta", "partial_json": str() as piece}:
                self._inputs[index] = self._inputs.get(index, "") + piece
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or ()), citation]
            case _:
                _put(block, {name: value for name, value in delta.items() if name != "type"})
        return text_of(delta.get("text"))

    def _content(self) -> Iterator[dict[str, Any]]:
        for index, block in sorted(self._blocks.items()):
            if self._inputs.get(index):
                block["input"] = parsed(self._inputs[index].encode())
                if block["input"] is None and self.body.get("stop_reason") == "max_tokens":
                    continue  # the call was cut off
            yield block


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _put(whole: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Merge a part of a message into what has arrived of it."""
    for name, value in part.items():
        match whole.get(name), value:
            case _, None | "":
                whole.setdefault(name, value)
            case str() as before, str() if name in _IN_PIECES:
                whole[name] = before + value
            case dict() as before, dict():
                _put(before, value)
            case None, list():
                whole[name] = []
                _put(whole, {name: value})
            case list() as before, list():
                for item in value:
                    _put_item(before, item)
            case (list() as before, str()) | (str() as before, list()) if name in _IN_PIECES:
                # Some models send their thoughts as a list and their answer as a text.
                whole[name] = [*_parts(before), *_parts(value)]
            case _:
                whole[name] = value


def _parts(content: str | list[Any]) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _put_item(items: list[Any], item: Any) -> None:  # noqa: ANN401 - JSON
    """Merge an item into the one with its index, or append it to the list.

    Some services give several tool calls the same index, and some give none.
    """
    if not isinstance(item, dict):
        items.append(item)
        return
    index, function = item.get("index"), _object(item.get("function"))
    same = [each for each in items if isinstance(each, dict) and each.get("index") == index]
    if function.get("name"):
        is_new = index is None or not same or item.get("id") not in (None, "", same[-1].get("id"))
    else:
        is_new = not same or (index is None and not function)
    if is_new:
        items.append(dict(item))
    else:
        _put(same[-1], item)
