"""Reads untrusted YAML and JSON files as plain values, with limits on bytes, depth and size, and with line numbers.

Each use of an alias counts in full, so that a small file can't become a large value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.errors import WorkflowFileError
from jeeves_reflexion.workflows.values import NoJSONError, near, plain

try:
    import yaml
except ImportError as error:  # pragma: no cover - the tests have it
    raise MissingDependencyError("reading workflows", "workflows") from error

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 50_000

Path_: TypeAlias = tuple[str | int, ...]

_TAG: Final = "tag:yaml.org,2002:"
_KNOWN: Final = frozenset({"null", "bool", "int", "float", "str", "seq", "map"})
# Dates stay text, because JSON has no dates.
_AS_TEXT: Final = frozenset({"timestamp", "value"})


@dataclass(frozen=True, slots=True)
class Document:
    """A value with line numbers: ``lines`` maps a path of keys and indices to a line, counted from 1."""

    value: JSON
    name: str = "workflow"
    lines: Mapping[Path_, int] = field(default_factory=dict, repr=False)
    folder: Path | None = None

    def where(self, path: Path_) -> str:
        """Return ``file, line 12`` for a part, or for the nearest enclosing part with a line."""
        for length in range(len(path), -1, -1):
            if (line := self.lines.get(path[:length])) is not None:
                return f"{self.name}, line {line}"
        return self.name


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a document."""

    document: Document
    path: Path_ = ()

    def of(self, *keys: str | int) -> Place:
        """Return the place of a part."""
        return Place(self.document, (*self.path, *keys))

    def __str__(self) -> str:
        owner, keys = "", self.path
        match self.path, self.document.value:
            case ("nodes", int(number), *rest), {"nodes": list(nodes)} if number < len(nodes):
                if isinstance(nodes[number], dict) and isinstance(name := nodes[number].get("name"), str):
                    owner, keys = f"node {name!r}", tuple(rest)
        dotted = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
        what = ", ".join(part for part in (owner, dotted) if part)
        where = self.document.where(self.path)
        return f"{where}: {what}" if what else where

    def error(self, problem: str) -> WorkflowFileError:
        """Return the error for a problem at this place."""
        return WorkflowFileError(f"{self}: {problem}")


def read_file(path: Path) -> Document:
    """Read a YAML file, or a JSON file (``.json``). Raises :class:`WorkflowFileError`."""
    if not path.is_file():
        raise WorkflowFileError(f"{path.name}: there is no such file: {path}")
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WorkflowFileError(f"{path.name}: the file is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise WorkflowFileError(f"{path.name}: the file can't be read: {error}") from error
    if len(raw) > MAX_BYTES:
        raise WorkflowFileError(f"{path.name}: the file is larger than {MAX_BYTES:,} bytes")
    return read_json(text, path.name) if path.suffix == ".json" else read_yaml(text, path.name)


def path_in(folder: Path | None, uri: str) -> Path:
    """Return the file in a base folder that a URI names. Neither ``..`` nor a symbolic link leads out of the folder.

    Raises :class:`ConfigurationError`, also if there is no base folder.
    """
    name = unquote(uri)
    if urlsplit(uri).scheme or name.startswith("/") or "\\" in name or Path(name).is_absolute():
        raise ConfigurationError(
            "a reference must be the relative path of a file, with / between folders, not a URL"
        )
    if folder is None:
        raise ConfigurationError("it names a file: give base_folder, the folder that has the file")
    try:
        path = (folder / name).resolve()
        is_file = path.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"the file can't be found: {type(error).__name__}") from error
    if not path.is_relative_to(folder.resolve()):
        raise ConfigurationError("it leads out of the base folder")
    if path.suffix not in {".json", ".yaml", ".yml"}:
        raise ConfigurationError("a schema file ends in .json, .yaml or .yml")
    if not is_file:
        names = [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else []
        raise ConfigurationError(f"the base folder has no such file{near(path.name, names)}")
    return path


def read_json(text: str, name: str) -> Document:
    """Read a JSON text. Raises :class:`WorkflowFileError`."""
    try:
        return Document(plain(json.loads(text)), name)
    except RecursionError as error:
        raise WorkflowFileError(f"{name}: it is nested too deeply") from error
    except ValueError as error:
        raise WorkflowFileError(f"{name}: it is not JSON: {error}") from error


def read_yaml(text: str, name: str = "workflow") -> Document:
    """Read a YAML text that holds one document. Raises :class:`WorkflowFileError` with the line."""
    if len(text) > MAX_BYTES:
        raise WorkflowFileError(f"{name}: the text is longer than {MAX_BYTES:,} characters")
    try:
        # Not the parser in C: it recurses without a limit.
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None)
        parts = [str(part) for part in (getattr(error, "context", None), problem) if part]
        reason = ", ".join(parts) or "it can't be read"
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise WorkflowFileError(f"{name}: {at}{reason}") from error
    except RecursionError as error:
        raise WorkflowFileError(f"{name}: it is nested deeper than {MAX_DEPTH} levels") from error
    if node is None:
        raise WorkflowFileError(f"{name}: the file is empty")
    reader = _Reader(name)
    return Document(reader.value(node, ()), name, reader.lines)


@dataclass(slots=True)
class _Reader:
    """Builds values from the parser's nodes, and counts the values of an alias each time it is used."""

    name: str
    lines: dict[Path_, int] = field(default_factory=dict)
    count: int = 0

    def value(self, node: Any, path: Path_) -> JSON:  # noqa: ANN401 - the nodes of PyYAML have no types
        """Return the plain value of a node."""
        self.lines.setdefault(path, node.start_mark.line + 1)
        self.count += 1
        if self.count > MAX_VALUES:
            raise self._error(node, f"it holds more than {MAX_VALUES:,} values, with aliases expanded")
        if len(path) > MAX_DEPTH:
            raise self._error(node, f"it is nested deeper than {MAX_DEPTH} levels, with aliases expanded")
        tag = node.tag.removeprefix(_TAG)
        if tag not in _KNOWN | _AS_TEXT:
            raise self._error(node, f"the tag {node.tag} is not allowed: use plain values")
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, place)) for place, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if tag in _AS_TEXT:
            return str(node.value)
        try:
            return plain(yaml.constructor.SafeConstructor().construct_object(node))
        except NoJSONError as error:
            raise self._error(node, f"{node.value[:40]!r}: {error}") from error
        except (ValueError, KeyError, IndexError, OverflowError, yaml.YAMLError) as error:
            raise self._error(node, f"{node.value[:40]!r} is not a valid {tag}") from error

    def _mapping(self, node: Any, path: Path_) -> JSON:  # noqa: ANN401
        values: dict[str, JSON] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == f"{_TAG}null":
                raise self._error(key, "a key must be a text")
            # The key as written: JSON has only text keys, and the author of `on:` did not mean a boolean.
            name = str(key.value)
            if key.tag == f"{_TAG}merge":
                raise self._error(key, "<< is not supported: write the keys out")
            if name in values:
                first = self.lines[(*path, name)]
                raise self._error(key, f"the key {name!r} is repeated; it is first in line {first}")
            self.lines[(*path, name)] = key.start_mark.line + 1
            values[name] = self.value(item, (*path, name))
        return values

    def _error(self, found: Any, problem: str) -> WorkflowFileError:  # noqa: ANN401
        return WorkflowFileError(f"{self.name}, line {found.start_mark.line + 1}: {problem}")
