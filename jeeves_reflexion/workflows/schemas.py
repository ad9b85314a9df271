"""Validates outputs by JSON Schema (2020-12, or the draft that ``$schema`` names), and says what to correct."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import urldefrag, urljoin, urlsplit

from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.models.replies import json_value
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import worker
from jeeves_reflexion.workflows.documents import path_in, read_file
from jeeves_reflexion.workflows.values import MAX_DEPTH, NoJSONError, plain, produced, shown
from jeeves_reflexion.workflows.verdicts import Problem, Verdict, refusal

try:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError, ValidationError, best_match
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY as SPECIFICATIONS  # type: ignore[import-untyped]
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012
except ImportError as error:  # pragma: no cover - the tests have it
    raise MissingDependencyError("the schema evaluator", "workflows") from error

# The type checker can't follow the types of these two.
_validator_for: Any = validator_for
_registry: Any = Registry

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

MAX_SECONDS: Final = 5.0
"""The time limit for checking a schema, or an output against it."""

MAX_ERRORS: Final = 50
_MESSAGE: Final = 300


class SchemaCheck:
    """A schema that is ready to judge outputs.

    Unless the schema asks for a string, a text is read as the JSON object or array in it: bare, fenced, or with prose
    around it. Then values are coerced where the schema asks for it and nothing is lost: texts to integers, numbers and
    booleans, or numbers and booleans to texts. The verdict's output is the coerced value. ``format`` is checked for
    those formats that ``jsonschema`` knows without further packages.

    A reference leads to the schema itself, to an ``$id`` within it, to the specifications of JSON Schema, or to a YAML
    or JSON file in ``base_folder``, relative to the file with the reference. Raises
    :class:`~jeeves_reflexion.errors.ConfigurationError` for a bad schema, and for any other reference, such as a URL or
    a path out of the folder.
    """

    def __init__(self, schema: JSON, base_folder: str | Path | None = None) -> None:
        kind = check_schema(schema)
        self._schema = schema
        folder = None if base_folder is None else Path(base_folder)

        @functools.cache
        def retrieve(uri: str) -> Any:  # noqa: ANN401 - referencing calls it for a file
            path = path_in(folder, uri.removeprefix(beside) if urlsplit(beside).scheme else uri)
            part = read_file(path).value
            check_schema(part, f"the schema file {path.name}")
            return Resource.from_contents(part, default_specification=DRAFT202012)

        try:
            resource = Resource.from_contents(schema, default_specification=DRAFT202012)
            # References arrive resolved against the root `$id`, which names no folder.
            beside = urljoin(resource.id() or "", ".")
            registry = _registry(retrieve=retrieve).combine(SPECIFICATIONS)
            self._resolver: Any = registry.resolver_with_root(resource)
            _check_references(resource, self._resolver, set())
        except ConfigurationError:
            raise
        except ValueError as error:
            raise ConfigurationError(f"the schema has a $ref or $id that is not a URI: {error}") from error
        except RecursionError as error:
            raise ConfigurationError("the schema is nested too deeply") from error

        # The types that the schema asks for, directly or by a reference.
        part, resolver = schema, self._resolver
        for _ in range(MAX_DEPTH):  # a reference may lead to itself
            if not isinstance(part, Mapping) or "type" in part or not isinstance(part.get("$ref"), str):
                break
            found = resolver.lookup(part["$ref"])
            part, resolver = found.contents, found.resolver
        types = part.get("type") if isinstance(part, Mapping) else None
        self._takes_text = types == "string" or (isinstance(types, list) and "string" in types)
        self._validator: Any = kind(schema, registry=registry, format_checker=kind.FORMAT_CHECKER)

    def __call__(self, output: JSON) -> Verdict:
        """Return the verdict on an output; its ``output`` is the coerced one."""
        value = output
        if isinstance(output, str) and not self._takes_text:
            # The text stays a text if its JSON is nested too deeply, or holds NaN, which Python's parser accepts.
            with contextlib.suppress(NoJSONError):
                found_in = json_value(output)
                value = output if found_in is None else produced(found_in)
        try:
            value = coerce(plain(value), self._schema, self._resolver)
            found = list(itertools.islice(self._validator.iter_errors(value), MAX_ERRORS))
        except RecursionError:
            unfit = "it is nested too deeply, or its schema refers to itself endlessly"
        except NoJSONError as error:
            unfit = f"it is not JSON: {error}"
        except ArithmeticError:  # such as a multipleOf of a large number
            unfit = "it holds a number that is too large or too small for its schema"
        except re.error as error:
            raise ConfigurationError(f"the schema has a pattern that can't be read: {error}") from error
        else:
            # Indices as texts of one length, so that places of numbers and of keys can be compared.
            found.sort(key=lambda each: [f"{i:09d}" if isinstance(i, int) else i for i in each.absolute_path])
            errors = tuple(map(_problem, found))
            return Verdict(valid=not errors, score=float(not errors), errors=errors, output=value)
        return Verdict(valid=False, score=0.0, errors=(Problem("", unfit),), output=output)


def judged(schema: JSON, base_folder: Path | None, output: JSON) -> Verdict:
    """Return the verdict of a :class:`SchemaCheck` in the worker process; a refusal after :data:`MAX_SECONDS`.

    Blocks. Raises what :class:`SchemaCheck` raises, and :class:`WorkflowError` if the worker process can't start.
    """
    folder = None if base_folder is None else str(base_folder)
    try:
        found = worker.ask(MAX_SECONDS, "schemas.verdict", schema, folder, output)
    except worker.TooLongError:
        return refusal(f"judging by the schema took longer than {MAX_SECONDS:g} s and was stopped", output)
    problems = tuple(Problem(**each) for each in found.pop("errors"))
    return Verdict(**{**found, "errors": problems, "advice": tuple(found["advice"])})


# -- in the worker process


def verdict(schema: JSON, base_folder: str | None, output: JSON) -> dict[str, Any]:
    """Return a verdict as JSON; see :func:`judged`."""
    return asdict(SchemaCheck(schema, base_folder)(output))


def _problem(error: ValidationError) -> Problem:
    """Return the problem that an error is, with a suggestion if the message does not say enough."""
    message = error.message
    closest = best_match([error]) if error.context else None
    if closest is not None and closest is not error:
        at = ".".join(map(str, closest.absolute_path))
        reason = f"; the closest reason{f' at {at}' if at else ''}: {closest.message}"
        message = abridge(message, _MESSAGE) + reason
    path = ".".join(map(str, error.absolute_path))
    at = f"'{path}'" if path else "the output"
    wanted: Any = error.validator_value
    advice = ""
    if error.validator == "required":
        name = next((name for name in wanted if error.message.startswith(repr(name))), "")
        advice = f"Add the field {name!r}{f' to {at}' if path else ''}."
    elif error.validator == "type":
        advice = f"Write {at} as {' or '.join(wanted) if isinstance(wanted, list) else wanted}."
    elif error.validator == "enum":
        advice = f"Use one of {shown(wanted)} in {at}."
    elif isinstance(wanted, str | int | float) and not isinstance(wanted, bool):
        advice = f"Write {at} so that it has the {error.validator} {shown(wanted)}."
    return Problem(path, abridge(message, _MESSAGE), advice)


# -- schemas, and the files of the base folder that they refer to


def check_schema(schema: JSON, name: str = "the schema") -> Any:  # noqa: ANN401 - a class of jsonschema
    """Return the validator class of a schema's draft. Raises :class:`ConfigurationError` for a bad schema."""
    if not isinstance(schema, Mapping | bool):
        raise ConfigurationError(f"{name} must be a mapping, or true or false, not {type(schema).__name__}")
    kind: Any = Draft202012Validator
    if isinstance(schema, Mapping) and "$schema" in schema:
        draft = schema["$schema"]
        kind = _validator_for(schema, default=None) if isinstance(draft, str) else None
        if kind is None:
            raise ConfigurationError(f"{name}: the $schema {draft!r} is not a known draft of JSON Schema")
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        at = ".".join(map(str, error.absolute_path))
        message = f"{name} is not a valid JSON Schema{f' at {at}' if at else ''}: {error.message[:300]}"
        raise ConfigurationError(message) from error
    except RecursionError as error:
        raise ConfigurationError(f"{name} is nested too deeply") from error
    return kind


def _check_references(resource: Any, resolver: Any, seen: set[int]) -> None:  # noqa: ANN401
    """Check that every reference leads to a schema, and so on in that schema."""
    contents = resource.contents
    if id(contents) in seen:
        return
    seen.add(id(contents))
    for keyword in _REFERENCES if isinstance(contents, Mapping) else ():
        reference = contents.get(keyword)
        if not isinstance(reference, str):
            continue
        try:
            found = resolver.lookup(reference)
        except (Unresolvable, TypeError) as error:
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, ConfigurationError):  # from reading the file
                    raise type(cause)(f"$ref {reference!r:.200}: {cause}") from error
                cause = cause.__cause__
            raise ConfigurationError(f"$ref {reference!r:.200} leads nowhere") from error
        if urldefrag(reference)[0] not in SPECIFICATIONS:
            check_schema(found.contents, f"what $ref {reference!r:.200} leads to")
            below = Resource.from_contents(found.contents, default_specification=DRAFT202012)
            _check_references(below, found.resolver, seen)
    for part in resource.subresources():
        _check_references(part, resolver.in_subresource(part), seen)


# -- coercion, for a single ``type`` only: with alternatives it is not clear what to coerce to

_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_LONGEST: Final = 2_000  # digits; Python itself refuses integers of more than 4,300


def coerce_scalar(value: JSON, kind: str) -> JSON:
    """Return a scalar as ``integer``, ``number``, ``boolean`` or ``string``, or unchanged if something would be lost.

    A text counts as an integer in its usual form only (not ``"007"``, ``"+5"`` or ``"3.0"``), as a number in any form
    of JSON that a float holds to the last digit, and as a boolean if it is true, yes, 1, false, no or 0 in any case.
    """
    if kind == "string" and isinstance(value, int | float):
        return json.dumps(value)
    if kind == "boolean" and isinstance(value, str):
        return _WORDS.get(value.lower(), value)
    if kind not in {"integer", "number"} or not isinstance(value, str) or len(value) > _LONGEST:
        return value
    try:
        number = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if isinstance(number, float) and kind == "number" and math.isfinite(number) and value == value.strip():
        # Compared as decimals: 0.1 stays 0.1 when written again, but 0.10000000000000000001 does not.
        return number if Decimal(repr(number)) == Decimal(value) else value
    return number if type(number) is int and str(number) == value else value


def coerce(value: JSON, schema: JSON, resolver: Any, depth: int = 0) -> JSON:  # noqa: ANN401 - referencing's own type
    """Return a value, with its properties and items, coerced as a schema asks; ``resolver`` follows references."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return value
    if isinstance(reference := schema.get("$ref"), str):
        found = resolver.lookup(reference)
        value = coerce(value, found.contents, found.resolver, depth + 1)
    if isinstance(value, Mapping):
        wanted = schema.get("properties")
        parts = wanted if isinstance(wanted, Mapping) else {}
        return {key: coerce(item, parts.get(key), resolver, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        items = None if "prefixItems" in schema else schema.get("items")
        return [coerce(item, items, resolver, depth + 1) for item in value]
    kind = schema.get("type")
    return coerce_scalar(value, kind) if isinstance(kind, str) else value
