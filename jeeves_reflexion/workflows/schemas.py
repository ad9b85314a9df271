"""Validates outputs by JSON Schema, 2020-12 or the draft that ``$schema`` names, and says what to mend."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jsonschema.exceptions import ValidationError, best_match
from referencing.exceptions import Unresolvable

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models.replies import json_value
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.coercion import coerce
from jeeves_reflexion.workflows.references import check_schema, gather
from jeeves_reflexion.workflows.values import NoJSONError, plain, produced, shown
from jeeves_reflexion.workflows.verdicts import Problem, Verdict

MAX_ERRORS: Final = 50
_MESSAGE: Final = 300


class SchemaCheck:
    """A schema made ready to judge outputs.

    A text is read as the JSON object or array in it, bare, fenced, or with prose around it, unless the schema asks for
    a string. Then texts become integers, numbers and booleans, or those texts, where the schema asks for it and nothing
    is lost. What comes of both is the output. ``format`` is asserted for the formats that ``jsonschema`` can check
    without further packages.

    Raises :class:`~jeeves_reflexion.errors.ConfigurationError` for a bad schema or reference, see
    :func:`~jeeves_reflexion.workflows.references.gather`.
    """

    def __init__(self, schema: JSON, base_folder: str | Path | None = None) -> None:
        kind = check_schema(schema)
        referred = gather(schema, None if base_folder is None else Path(base_folder))
        self._schema = referred.schema
        self._resolver = referred.registry.resolver(referred.uri)
        self._validator: Any = kind(schema, registry=referred.registry, format_checker=kind.FORMAT_CHECKER)
        self._wants_text = "string" in _types(self._root())

    def _root(self) -> JSON:
        schema, resolver = self._schema, self._resolver
        for _ in range(16):
            reference = schema.get("$ref") if isinstance(schema, Mapping) and "type" not in schema else None
            if not isinstance(reference, str):
                break
            resolved = resolver.lookup(reference)
            schema, resolver = resolved.contents, resolved.resolver
        return schema

    def __call__(self, output: JSON) -> Verdict:
        """Return the verdict on an output; its ``output`` is the coerced one."""
        value = read_json_text(output) if isinstance(output, str) and not self._wants_text else output
        try:
            value = plain(value)
            value = coerce(value, self._schema, self._resolver)
            found = list(itertools.islice(self._validator.iter_errors(value), MAX_ERRORS))
        except RecursionError:
            return _unfit(output, "it is nested too deeply, or its schema refers to itself without an end")
        except NoJSONError as error:
            return _unfit(output, f"it is no JSON: {error}")
        except ArithmeticError:  # such as the quotient of a large number
            return _unfit(output, "it holds a number that is too large or too small for its schema")
        except Unresolvable as error:
            raise ConfigurationError(f"the schema has a reference that leads nowhere: {error}") from error
        except re.error as error:
            raise ConfigurationError(f"the schema has a pattern that can't be read: {error}") from error
        if not found:
            return Verdict(valid=True, score=1.0, output=value)
        problems = tuple(_problem(error) for error in sorted(found, key=_place))
        return Verdict(valid=False, score=0.0, errors=problems, output=value)


def _unfit(output: JSON, message: str) -> Verdict:
    return Verdict(valid=False, score=0.0, errors=(Problem("", message),), output=output)


def _types(schema: JSON) -> list[str]:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return (
        [kind]
        if isinstance(kind, str)
        else [part for part in kind if isinstance(part, str)]
        if isinstance(kind, list)
        else []
    )


def read_json_text(text: str) -> JSON:
    """Return the JSON object or array that a text holds, else the text."""
    found = json_value(text)
    try:
        return text if found is None else produced(found)
    except NoJSONError:
        return text  # it is too deep, or holds the NaN that Python's parser takes


def _place(error: ValidationError) -> list[str]:
    return [f"{part:09d}" if isinstance(part, int) else str(part) for part in error.absolute_path]


def _problem(error: ValidationError) -> Problem:
    message = error.message
    if error.context:
        closest = best_match([error])
        if closest is not None and closest is not error:
            at = ".".join(map(str, closest.absolute_path))
            message = f"{_cut(message)}; the closest reason{f' at {at}' if at else ''}: {closest.message}"
    path = ".".join(map(str, error.absolute_path))
    return Problem(path, _cut(message), _suggestion(error, path))


def _cut(message: str) -> str:
    return abridge(message, _MESSAGE)


_SAYINGS: Final = {
    "pattern": "Write {at} so that it fits the pattern {wanted}.",
    "format": "Write {at} so that it fits the format {wanted}.",
    "const": "Use {wanted} in {at}.",
    **dict.fromkeys(("minLength", "minItems", "minProperties"), "Make {at} longer: at least {wanted}."),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties"), "Make {at} shorter: at most {wanted}."),
    "minimum": "Make {at} at least {wanted}.",
    "maximum": "Make {at} at most {wanted}.",
    "exclusiveMinimum": "Make {at} more than {wanted}.",
    "exclusiveMaximum": "Make {at} less than {wanted}.",
    "multipleOf": "Make {at} a multiple of {wanted}.",
    "additionalProperties": "Remove the fields that {at} may not have.",
    "unevaluatedProperties": "Remove the fields that {at} may not have.",
    "uniqueItems": "Remove what {at} holds twice.",
}


def _suggestion(error: ValidationError, path: str) -> str:
    """Say what to do about an error, or nothing where the message says it all."""
    at = f"'{path}'" if path else "the output"
    wanted: Any = error.validator_value
    if error.validator == "required":
        name = next((name for name in wanted if error.message.startswith(repr(name))), "")
        return f"Add the field {name!r}{f' to {at}' if path else ''}."
    if error.validator == "type":
        kinds = str(" or ".join(wanted) if isinstance(wanted, list) else wanted)
        return f"Make {at} {'an' if kinds[:1] in 'aeiou' else 'a'} {kinds}, not {_kind(error.instance)}."
    if error.validator == "enum":
        texts = [part for part in wanted if isinstance(part, str)]
        near = difflib.get_close_matches(str(error.instance), texts, 1)
        return f"Write {near[0]!r} in {at}." if near else f"Use one of {shown(wanted)} in {at}."
    return _SAYINGS.get(str(error.validator), "").format(at=at, wanted=shown(wanted))


def _kind(value: object) -> str:
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a text",
        list: "an array",
        dict: "an object",
    }
    return names.get(type(value), "null")
