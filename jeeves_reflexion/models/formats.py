"""What the formats of models' APIs share: the call to write as a request, and the reader of a streamed answer."""

from __future__ import annotations

import itertools
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from jeeves_reflexion.events import TextStreamed
from jeeves_reflexion.protocols import Message, Sampling, ToolSpec
from jeeves_reflexion.session import current_scope
from jeeves_reflexion.types import JSON
from vectorstores.json_http import AnswerStream

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
        "partial_json",
    }
)


class ModelCall(NamedTuple):
    """What a model is asked; ``refused`` names the settings that its endpoint refused."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    schema: Mapping[str, JSON] | None
    sampling: Sampling
    refused: frozenset[str] = frozenset()


def with_schema(messages: Sequence[Message], schema: Mapping[str, JSON]) -> list[Message]:
    """Return a conversation whose last message asks for JSON of a schema."""
    form = "Answer with JSON alone, of this JSON Schema:\n" + json.dumps(schema, ensure_ascii=False)
    if messages and messages[-1].role == "user":
        return [*messages[:-1], Message("user", f"{messages[-1].content}\n\n{form}")]
    return [*messages, Message("user", form)]


def text_of(content: JSON) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(
            text_of(part.get("text")) if isinstance(part, Mapping) else text_of(part) for part in content
        )
    return ""


class TextStream(AnswerStream):
    """Assembles the events of one answer into the answer sent without streaming.

    The listener of the current run, if there is one, receives the text of ``model`` as it arrives.
    """

    asks: ClassVar[Mapping[str, JSON]] = {"stream": True}
    """The settings of a request that ask for a streamed answer."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._scope = current_scope()

    def begin(self) -> None:
        """Forget what arrived."""
        super().begin()
        self._blocks: dict[int, dict[str, Any]] = {}

    async def take(self, event: Mapping[str, Any]) -> None:
        """Read an event."""
        text = self._read(event)
        if text and self._scope is not None and self._scope[0].listener is not None:
            self.handed_on = True
            session, role = self._scope
            await session.tell(TextStreamed, role=role, model=self._model, text=text)

    @abstractmethod
    def _read(self, event: Mapping[str, Any]) -> str:
        """Add an event to the answer, and return the text that it brings."""


def an_object(value: object) -> dict[str, Any]:
    """Return a value that is a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def put(whole: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Merge a part of a message into what has arrived of it."""
    for name, value in part.items():
        match whole.get(name), value:
            case _, None | "":
                whole.setdefault(name, value)
            case str() as before, str() if name in _IN_PIECES:
                whole[name] = before + value
            case dict() as before, dict():
                put(before, value)
            case None | list() as before, list():
                whole[name] = before or []
                for item in value:
                    _put_item(whole[name], item)
            case (list() as before, str()) | (str() as before, list()) if name in _IN_PIECES:
                # Some models send their thoughts as a list and their answer as a text.
                both = ([{"type": "text", "text": x}] if isinstance(x, str) else x for x in (before, value))
                whole[name] = [*itertools.chain.from_iterable(both)]
            case _:
                whole[name] = value


def _put_item(items: list[Any], item: Any) -> None:  # noqa: ANN401 - JSON
    """Merge an item into the one with its index, or append it to the list.

    Some services give several tool calls the same index, and some give none.
    """
    if not isinstance(item, dict):
        items.append(item)
        return
    index, function = item.get("index"), an_object(item.get("function"))
    same = [each for each in items if isinstance(each, dict) and each.get("index") == index]
    if function.get("name"):
        is_new = index is None or not same or item.get("id") not in (None, "", same[-1].get("id"))
    else:
        is_new = not same or (index is None and not function)
    if is_new:
        items.append(dict(item))
    else:
        put(same[-1], item)
