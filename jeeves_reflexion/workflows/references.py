"""Finds the files that a JSON Schema refers to, in a base folder that no reference gets out of."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.documents import read_file
from jeeves_reflexion.workflows.errors import SchemaFolderError

try:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY as SPECIFICATIONS  # type: ignore[import-untyped]
    from referencing import Registry, Resource, Specification
    from referencing.exceptions import NoSuchResource, Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with
except ImportError as error:  # pragma: no cover - the tests have it
    raise MissingDependencyError("the schema evaluator", "workflows") from error

# Their types are not told in a way that type checkers follow.
_validator_for: Any = validator_for
_registry: Any = Registry
_make_resource: Any = Resource

MAX_FILES: Final = 100
_DATA: Final = frozenset({"const", "enum", "default", "examples", "example"})
"""Keywords whose value is data, so that a ``$ref`` in it refers to nothing."""

_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps names to schemas; a name in it is no keyword."""

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_OLD: Final = ("http://json-schema.org/draft-03/", "http://json-schema.org/draft-04/")


@dataclass(frozen=True, slots=True)
class Referred:
    """A schema with all it refers to: ``registry`` holds the files, nothing is looked up later."""

    schema: JSON
    registry: Registry[Any]
    uri: str


@dataclass(slots=True)
class _Search:
    base: Path | None
    found: dict[str, JSON] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)


def gather(schema: JSON, base_folder: Path | None) -> Referred:
    """Return a schema with the files that it and they refer to.

    References go to the schema itself, to an ``$id`` within it, to the specifications of JSON Schema, or to a YAML or
    JSON file in ``base_folder``, named relative to the file that refers to it. Everything else, such as a URL, an
    absolute path, one that leads out of the folder, or a symbolic link that does, is a :class:`ConfigurationError`.
    Raises :class:`SchemaFolderError` for a file where there is no folder.
    """
    search = _Search(None if base_folder is None else base_folder.resolve())
    try:
        uri = _own_uri(schema, "")
        _collect(search, schema, uri, search.base)
    except ValueError as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"the schema has a $ref or $id that is no address: {error}") from error
    registry: Registry[Any] = _registry(retrieve=_refuse).combine(SPECIFICATIONS)
    made = [(name, _resource(part)) for name, part in search.found.items()]
    registry = registry.with_resources([(uri, _resource(schema)), *made]).crawl()
    seen: set[int] = set()
    _check_pointers(registry, schema, uri, seen)
    for name, part in search.found.items():
        _check_pointers(registry, part, _own_uri(part, name), seen)
    return Referred(schema, registry, uri)


def check_schema(schema: JSON, name: str = "the schema") -> type[Any]:
    """Return the validator class of a schema's draft. Raises :class:`ConfigurationError` for what is no schema."""
    if not isinstance(schema, Mapping | bool):
        raise ConfigurationError(f"{name} must be a mapping, or true or false, not {type(schema).__name__}")
    kind: type[Any] = Draft202012Validator
    if isinstance(schema, Mapping) and "$schema" in schema:
        named = schema["$schema"]
        found = _validator_for(schema, default=None) if isinstance(named, str) else None
        if found is None:
            raise ConfigurationError(
                f"{name}: the $schema {schema['$schema']!r} is no known draft of JSON Schema"
            )
        kind = found
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        at = ".".join(map(str, error.absolute_path))
        raise ConfigurationError(
            f"{name} is no valid JSON Schema{f' at {at}' if at else ''}: {error.message[:300]}"
        ) from error
    except RecursionError as error:
        raise ConfigurationError(f"{name} is nested too deeply") from error
    return kind


def _refuse(uri: str) -> Resource[Any]:
    missing: Any = NoSuchResource
    raise missing(ref=uri)


def _resource(schema: JSON) -> Resource[Any]:
    kind: Specification[Any] = DRAFT202012
    if isinstance(schema, Mapping) and isinstance(named := schema.get("$schema"), str):
        kind = specification_with(named, default=DRAFT202012)
    made: Resource[Any] = _make_resource(schema, kind)
    return made


def _own_uri(schema: JSON, name: str) -> str:
    if isinstance(schema, Mapping):
        key = "id" if str(schema.get("$schema")).startswith(_OLD) else "$id"
        if isinstance(own := schema.get(key), str) and not own.startswith("#"):
            return urldefrag(urljoin(name, own))[0]
    return name


def _collect(search: _Search, schema: JSON, uri: str, folder: Path | None) -> None:
    search.ids.add(uri)
    for place, _, own in _references(schema, uri):
        search.ids.add(own or place)
    for base, reference, _ in _references(schema, uri):
        target = urldefrag(urljoin(base, reference))[0]
        if not reference or reference.startswith("#") or target in search.ids or target in search.found:
            continue
        if target in SPECIFICATIONS:
            continue
        path = _file(search, urldefrag(reference)[0], folder)
        if len(search.found) >= MAX_FILES:
            raise ConfigurationError(f"the schema refers to more than {MAX_FILES} files")
        part = read_file(path).value
        check_schema(part, f"the schema file {path.name}")
        search.found[target] = part
        _collect(search, part, _own_uri(part, target), path.parent)


def _references(schema: JSON, base: str, seen: set[int] | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield each reference with the URI that it is relative to, and the URIs that parts call themselves.

    ``seen`` takes the identities of the schemas on the way.
    """
    if isinstance(schema, Mapping):
        if seen is not None:
            seen.add(id(schema))
        own = _own_uri(schema, base)
        if own != base:
            yield own, "", own
        for key, value in schema.items():
            if key in _REFERENCES and isinstance(value, str):
                yield own, value, ""
            elif key not in _DATA:
                for part in value.values() if key in _NAMED and isinstance(value, Mapping) else [value]:
                    yield from _references(part, own, seen)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item, base, seen)


def _file(search: _Search, reference: str, folder: Path | None) -> Path:
    """Return the file that a reference names. The text of a reference is not to be trusted."""
    name = unquote(reference)
    if urlsplit(reference).scheme or name.startswith("//"):
        raise ConfigurationError(
            f"$ref {reference!r}: only files of the base folder may be referred to, no URLs"
        )
    if search.base is None or folder is None:
        raise SchemaFolderError(
            f"$ref {reference!r} names a file: give base_folder, the folder to look for it in"
        )
    if name.startswith("/") or "\\" in name or "\0" in name or Path(name).is_absolute():
        raise ConfigurationError(f"$ref {reference!r}: the path must be relative, with / between folders")
    try:
        path = (folder / name).resolve()
        there = path.is_file()
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"$ref {reference!r:.200}: the file can't be found: {error.__class__.__name__}"
        ) from error
    if not path.is_relative_to(search.base):
        raise ConfigurationError(f"$ref {reference!r} leads out of the base folder")
    if path.suffix not in {".json", ".yaml", ".yml"}:
        raise ConfigurationError(f"$ref {reference!r}: a schema file ends in .json, .yaml or .yml")
    if not there:
        near = (
            difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*")], 1)
            if path.parent.is_dir()
            else []
        )
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"$ref {reference!r}: there is no such file in the base folder{hint}")
    return path


def _check_pointers(registry: Registry[Any], schema: JSON, uri: str, seen: set[int]) -> None:
    """Check that references lead to schemas, also out of what was no schema until one led there, such as an example."""
    for base, reference, _ in list(_references(schema, uri, seen)):
        if not reference:
            continue
        try:
            target = urldefrag(urljoin(base, reference))[0]
            found = registry.resolver(base).lookup(reference).contents
        except (Unresolvable, ValueError, TypeError) as error:
            raise ConfigurationError(f"$ref {reference!r:.200} leads nowhere") from error
        if id(found) not in seen and not isinstance(found, bool) and target not in SPECIFICATIONS:
            check_schema(found, f"what $ref {reference!r:.200} leads to")
            _check_pointers(registry, found, target, seen)
