"""Reads YAML and JSON from files nobody has to trust: bounded in bytes, depth and size, and with line numbers.

Only plain values come out. Aliases and merge keys work; what they stand for is counted each time, so that a small
file can't become a large value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from jeeves_reflexion.errors import MissingDependencyError
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.errors import WorkflowFileError
from jeeves_reflexion.workflows.values import NoJSONError, plain

try:
    import yaml
except ImportError as error:  # pragma: no cover - the tests have it
    raise MissingDependencyError("reading workflows", "workflows") from error

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 50_000

Path_: TypeAlias = tuple[str | int, ...]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KNOWN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str", "seq", "map")
)
# Dates stay the text they are written as: JSON has none.
_AS_TEXT: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("timestamp", "value"))
_MERGE: Final = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Document:
    """A value and where its parts stand: ``lines`` maps a path of keys and indices to a line, counted from 1."""

    value: JSON
    name: str = "workflow"
    lines: Mapping[Path_, int] = field(default_factory=dict, repr=False)

    def line(self, path: Path_) -> int | None:
        """Return the line of a part, or of the nearest part around it."""
        for length in range(len(path), -1, -1):
            if (line := self.lines.get(path[:length])) is not None:
                return line
        return None

    def where(self, path: Path_) -> str:
        """Return ``file, line 12`` for a part."""
        line = self.line(path)
        return self.name if line is None else f"{self.name}, line {line}"


def read_file(path: Path) -> Document:
    """Read a YAML file, or a JSON file (``.json``). Raises :class:`WorkflowFileError`."""
    try:
        if not path.is_file():
            raise WorkflowFileError(f"{path.name}: there is no such file: {path}")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise WorkflowFileError(f"{path.name}: the file can't be read: {error}") from error
    if len(raw) > MAX_BYTES:
        raise WorkflowFileError(f"{path.name}: the file is larger than {MAX_BYTES:,} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WorkflowFileError(f"{path.name}: the file is no UTF-8 text (byte {error.start})") from error
    return read_json(text, path.name) if path.suffix == ".json" else read_yaml(text, path.name)


def read_json(text: str, name: str) -> Document:
    """Read a JSON text. Raises :class:`WorkflowFileError`."""
    _bound(text, name)
    try:
        value = plain(json.loads(text, parse_constant=_no_constant))
    except RecursionError as error:
        raise WorkflowFileError(f"{name}: it is nested too deeply") from error
    except ValueError as error:
        raise WorkflowFileError(f"{name}: it is no JSON: {error}") from error
    return Document(value, name)


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def read_yaml(text: str, name: str = "workflow") -> Document:
    """Read a YAML text that holds one document. Raises :class:`WorkflowFileError` with the line."""
    _bound(text, name)
    return _Reader(text, name).read()


def _bound(text: str, name: str) -> None:
    if len(text) > MAX_BYTES:
        raise WorkflowFileError(f"{name}: the text is longer than {MAX_BYTES:,} characters")


@dataclass(slots=True)
class _Anchored:
    """What an anchor stands for, and of how many values it is made; None until it is complete."""

    value: JSON = None
    size: int | None = None


class _Reader:
    """Builds values from the parser's events, for only there can every bound be kept before memory is taken."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.resolver: Any = yaml.resolver.Resolver()
        self.maker = yaml.constructor.SafeConstructor()
        self.events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self.anchors: dict[str, _Anchored] = {}
        self.lines: dict[Path_, int] = {}
        self.count = 0

    def read(self) -> Document:
        try:
            self._skip(yaml.StreamStartEvent)
            first = next(self.events)
            if isinstance(first, yaml.StreamEndEvent):
                raise WorkflowFileError(f"{self.name}: the file is empty")
            value = self._value(next(self.events), ())
            self._skip(yaml.DocumentEndEvent)
            after = next(self.events)
            if not isinstance(after, yaml.StreamEndEvent):
                raise self._error(after, "a second document begins; a file holds one")
        except yaml.YAMLError as error:
            raise WorkflowFileError(f"{self.name}: {_reason(error)}") from error
        except UnicodeError as error:
            raise WorkflowFileError(f"{self.name}: it is no text: {error}") from error
        return Document(value, self.name, self.lines)

    def _skip(self, kind: type) -> None:
        event = next(self.events)
        if not isinstance(event, kind):
            raise self._error(event, "the file can't be read here")

    def _value(self, event: Any, path: Path_) -> JSON:  # noqa: ANN401 - the events of PyYAML have no types
        self.lines.setdefault(path, event.start_mark.line + 1)
        self._more(event, 1)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self.count
        anchored = _Anchored()
        if event.anchor:
            self.anchors[event.anchor] = anchored
        if len(path) >= MAX_DEPTH:
            raise self._error(event, f"it is nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif event.tag and event.tag not in _KNOWN_TAGS:
            raise self._error(event, f"the tag {event.tag} is not allowed: only plain values are")
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(path)
        else:
            value = self._mapping(event, path)
        anchored.value, anchored.size = value, self.count - before + 1
        return value

    def _alias(self, event: Any) -> JSON:  # noqa: ANN401
        anchored = self.anchors.get(event.anchor)
        if anchored is None:
            raise self._error(event, f"the alias *{event.anchor} names nothing that stands above it")
        if anchored.size is None:
            raise self._error(event, f"the alias *{event.anchor} stands within what it names: a cycle")
        self._more(event, anchored.size)
        return anchored.value

    def _more(self, event: Any, values: int) -> None:  # noqa: ANN401
        self.count += values
        if self.count > MAX_VALUES:
            raise self._error(event, f"it holds more than {MAX_VALUES:,} values, aliases spelled out")

    def _sequence(self, path: Path_) -> JSON:
        items: list[JSON] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, start: Any, path: Path_) -> JSON:  # noqa: ANN401
        values: dict[str, JSON] = {}
        merged: list[JSON] = []
        seen: dict[str, int] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            key, merges = self._key(event)
            if merges:
                merged.append(self._value(next(self.events), (*path, key)))
                continue
            if key in seen:
                raise self._error(event, f"the key {key!r} is there twice; first in line {seen[key]}")
            seen[key] = self.lines[(*path, key)] = line
            values[key] = self._value(next(self.events), (*path, key))
        for item in merged:
            values = {**self._merged(start, item), **values}
        return values

    def _merged(self, start: Any, item: JSON) -> dict[str, JSON]:  # noqa: ANN401
        parts = item if isinstance(item, list) else [item]
        found: dict[str, JSON] = {}
        for part in parts:
            if not isinstance(part, Mapping):
                raise self._error(start, "<< takes a mapping, or a list of mappings")
            found = {**part, **found}
        return found

    def _key(self, event: Any) -> tuple[str, bool]:  # noqa: ANN401
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(event, "a key must be a text")
        self._more(event, 1)
        tag = self._tag(event)
        if tag == "tag:yaml.org,2002:null":
            raise self._error(event, "a key is empty")
        # As it is written: JSON knows keys of text alone, and `on:` is no boolean to whom writes it.
        return str(event.value), tag == _MERGE

    def _tag(self, event: Any) -> str:  # noqa: ANN401
        if event.tag and event.tag != "!":
            return str(event.tag)
        return str(self.resolver.resolve(yaml.ScalarNode, event.value, event.implicit))

    def _scalar(self, event: Any) -> JSON:  # noqa: ANN401
        tag = self._tag(event)
        if tag in _AS_TEXT:
            return str(event.value)
        if tag not in _KNOWN_TAGS:
            raise self._error(event, f"the tag {tag} is not allowed: only plain values are")
        try:
            value = self.maker.construct_object(yaml.ScalarNode(tag, event.value))
        except (ValueError, KeyError, IndexError, OverflowError, yaml.YAMLError) as error:
            raise self._error(event, f"{event.value[:40]!r} is no {tag.rpartition(':')[2]}") from error
        try:
            return plain(value)
        except NoJSONError as error:
            raise self._error(event, f"{event.value[:40]!r}: {error}") from error

    def _error(self, event: Any, problem: str) -> WorkflowFileError:  # noqa: ANN401
        return WorkflowFileError(f"{self.name}, line {event.start_mark.line + 1}: {problem}")


def _reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    parts = [
        getattr(error, "context", None),
        getattr(error, "problem", None) or getattr(error, "reason", None),
    ]
    said = ", ".join(str(part) for part in parts if part) or "it can't be read"
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}" if mark else said
