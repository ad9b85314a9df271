"""Finds the files that a JSON Schema refers to, in a base folder that no reference gets out of."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
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
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with
except ImportError as error:  # pragma: no cover - the tests have it
    raise MissingDependencyError("the schema evaluator", "workflows") from error

# Their types are not told in a way that type checkers follow.
_validator_for: Any = validator_for
_registry: Any = Registry

MAX_FILES: Final = 100
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


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


def registry_of(schema: JSON, base_folder: Path | None) -> Any:  # noqa: ANN401 - see above
    """Return the registry that resolves a schema's references; each has been tried.

    References go to the schema itself, to an ``$id`` within it, to the specifications of JSON Schema, or to a YAML or
    JSON file in ``base_folder``, named relative to the file that refers to it. Everything else, such as a URL, a path
    that leads out of the folder, or a symbolic link that does, is a :class:`ConfigurationError`. Raises
    :class:`SchemaFolderError` for a file where there is no folder.
    """
    try:
        resource = resource_of(schema)
        registry = _registry(retrieve=_Files(base_folder, resource.id() or "").resource)
        registry = registry.combine(SPECIFICATIONS)
        _check_references(resource, registry.resolver_with_root(resource), set())
    except ValueError as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"the schema has a $ref or $id that is no address: {error}") from error
    except RecursionError as error:
        raise ConfigurationError("the schema is nested too deeply") from error
    return registry


def resource_of(schema: JSON) -> Any:  # noqa: ANN401 - see above
    """Return a schema as ``referencing`` holds it, of the draft that it names."""
    named = schema.get("$schema") if isinstance(schema, Mapping) else None
    kind: Any = DRAFT202012
    if isinstance(named, str):
        kind = specification_with(named, default=DRAFT202012)
    return kind.create_resource(schema)


def _check_references(resource: Any, resolver: Any, seen: set[int]) -> None:  # noqa: ANN401
    """Check that every reference leads to a schema, and those of that schema as well."""
    contents = resource.contents
    if id(contents) in seen:
        return
    seen.add(id(contents))
    for keyword in _REFERENCES if isinstance(contents, Mapping) else ():
        reference = contents.get(keyword)
        if isinstance(reference, str):
            found = _resolved(resolver, reference)
            if urldefrag(reference)[0] in SPECIFICATIONS:
                continue
            check_schema(found.contents, f"what $ref {reference!r:.200} leads to")
            _check_references(resource_of(found.contents), found.resolver, seen)
    for part in resource.subresources():
        _check_references(part, resolver.in_subresource(part), seen)


def _resolved(resolver: Any, reference: str) -> Any:  # noqa: ANN401
    """Return what a reference leads to. Raises :class:`ConfigurationError` where that is nothing."""
    try:
        return resolver.lookup(reference)
    except (Unresolvable, TypeError) as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ConfigurationError):
                raise type(cause)(f"$ref {reference!r:.200}: {cause}") from error
            cause = cause.__cause__
        raise ConfigurationError(f"$ref {reference!r:.200} leads nowhere") from error


class _Files:
    """The files of a base folder as resources, each read once."""

    def __init__(self, folder: Path | None, root: str) -> None:
        self.folder = None if folder is None else folder.resolve()
        self.beside = urljoin(
            root, "."
        )  # an `$id` of the whole schema says nothing about where its files are
        self.read: dict[str, Any] = {}

    def resource(self, uri: str) -> Any:  # noqa: ANN401
        """Return the resource of an address; ``referencing`` asks for those that it does not have."""
        if uri not in self.read:
            if len(self.read) >= MAX_FILES:
                raise ConfigurationError(f"the schema refers to more than {MAX_FILES} files")
            path = self._path(uri.removeprefix(self.beside) if urlsplit(self.beside).scheme else uri)
            part = read_file(path).value
            check_schema(part, f"the schema file {path.name}")
            self.read[uri] = resource_of(part)
        return self.read[uri]

    def _path(self, uri: str) -> Path:
        name = unquote(uri)
        if urlsplit(uri).scheme or name.startswith("//"):
            raise ConfigurationError("only files of the base folder may be referred to, no URLs")
        if self.folder is None:
            raise SchemaFolderError("it names a file: give base_folder, the folder to look for it in")
        if name.startswith("/") or "\\" in name or "\0" in name or Path(name).is_absolute():
            raise ConfigurationError("the path must be relative, with / between folders")
        try:
            path = (self.folder / name).resolve()
            there = path.is_file()
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigurationError(f"the file can't be found: {type(error).__name__}") from error
        if not path.is_relative_to(self.folder):
            raise ConfigurationError("it leads out of the base folder")
        if path.suffix not in {".json", ".yaml", ".yml"}:
            raise ConfigurationError("a schema file ends in .json, .yaml or .yml")
        if not there:
            beside = [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else []
            near = difflib.get_close_matches(path.name, beside, 1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(f"there is no such file in the base folder{hint}")
        return path
