"""Finds the files that a JSON Schema refers to, in a base folder that no reference gets out of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.documents import read_file
from jeeves_reflexion.workflows.errors import SchemaFolderError
from jeeves_reflexion.workflows.values import near

try:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY as SPECIFICATIONS  # type: ignore[import-untyped]
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012
except ImportError as error:  # pragma: no cover - the tests have it
    raise MissingDependencyError("the schema evaluator", "workflows") from error

# Their types are not told in a way that type checkers follow.
_validator_for: Any = validator_for
_registry: Any = Registry

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def check_schema(schema: JSON, name: str = "the schema") -> Any:  # noqa: ANN401 - a class of jsonschema
    """Return the validator class of a schema's draft. Raises :class:`ConfigurationError` for what is no schema."""
    if not isinstance(schema, Mapping | bool):
        raise ConfigurationError(f"{name} must be a mapping, or true or false, not {type(schema).__name__}")
    kind: Any = Draft202012Validator
    if isinstance(schema, Mapping) and "$schema" in schema:
        draft = schema["$schema"]
        kind = _validator_for(schema, default=None) if isinstance(draft, str) else None
        if kind is None:
            raise ConfigurationError(f"{name}: the $schema {draft!r} is no known draft of JSON Schema")
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        at = ".".join(map(str, error.absolute_path))
        said = f"{name} is no valid JSON Schema{f' at {at}' if at else ''}: {error.message[:300]}"
        raise ConfigurationError(said) from error
    except RecursionError as error:
        raise ConfigurationError(f"{name} is nested too deeply") from error
    return kind


def registry_of(schema: JSON, base_folder: Path | None) -> tuple[Any, Any]:
    """Return the registry of a schema's references, and what resolves them in it; each has been tried.

    References go to the schema itself, to an ``$id`` within it, to the specifications of JSON Schema, or to a YAML or
    JSON file in ``base_folder``, named relative to the file that refers to it. Everything else, such as a URL, a path
    that leads out of the folder, or a symbolic link that does, is a :class:`ConfigurationError`. Raises
    :class:`SchemaFolderError` for a file where there is no folder.
    """
    try:
        resource = _resource(schema)
        registry = _registry(retrieve=_reader(base_folder, resource.id() or "")).combine(SPECIFICATIONS)
        resolver = registry.resolver_with_root(resource)
        _check_references(resource, resolver, set())
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"the schema has a $ref or $id that is no address: {error}") from error
    except RecursionError as error:
        raise ConfigurationError("the schema is nested too deeply") from error
    return registry, resolver


def _resource(schema: JSON) -> Any:  # noqa: ANN401 - see above
    return Resource.from_contents(schema, default_specification=DRAFT202012)


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
            if urldefrag(reference)[0] not in SPECIFICATIONS:
                check_schema(found.contents, f"what $ref {reference!r:.200} leads to")
                _check_references(_resource(found.contents), found.resolver, seen)
    for part in resource.subresources():
        _check_references(part, resolver.in_subresource(part), seen)


def _resolved(resolver: Any, reference: str) -> Any:  # noqa: ANN401
    try:
        return resolver.lookup(reference)
    except (Unresolvable, TypeError) as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ConfigurationError):  # of the file that it named
                raise type(cause)(f"$ref {reference!r:.200}: {cause}") from error
            cause = cause.__cause__
        raise ConfigurationError(f"$ref {reference!r:.200} leads nowhere") from error


def _reader(folder: Path | None, root: str) -> Callable[[str], Any]:
    """Return what reads the files of a base folder as resources; ``referencing`` asks for those it does not have."""
    beside = urljoin(root, ".")  # an `$id` of the whole schema says nothing about where its files are

    @functools.cache
    def retrieve(uri: str) -> Any:  # noqa: ANN401
        path = _path(folder, uri.removeprefix(beside) if urlsplit(beside).scheme else uri)
        part = read_file(path).value
        check_schema(part, f"the schema file {path.name}")
        return _resource(part)

    return retrieve


def _path(folder: Path | None, uri: str) -> Path:
    name = unquote(uri)
    if (
        urlsplit(uri).scheme
        or name.startswith("/")
        or "\\" in name
        or "\0" in name
        or Path(name).is_absolute()
    ):
        raise ConfigurationError(
            "only relative paths of files, with / between folders, may be referred to, no URLs"
        )
    if folder is None:
        raise SchemaFolderError("it names a file: give base_folder, the folder to look for it in")
    try:
        path = (folder / name).resolve()
        there = path.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"the file can't be found: {type(error).__name__}") from error
    if not path.is_relative_to(folder.resolve()):
        raise ConfigurationError("it leads out of the base folder")
    if path.suffix not in {".json", ".yaml", ".yml"}:
        raise ConfigurationError("a schema file ends in .json, .yaml or .yml")
    if not there:
        beside = [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else []
        raise ConfigurationError(f"there is no such file in the base folder{near(path.name, beside)}")
    return path
