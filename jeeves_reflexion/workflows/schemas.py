"""Validates outputs by JSON Schema, 2020-12 or the draft that ``$schema`` names, and says what to mend."""

from __future__ import annotations

import difflib
import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from jsonschema.exceptions import ValidationError, best_match
from referencing.exceptions import Unresolvable

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models.replies import json_value
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import worker
from jeeves_reflexion.workflows.references import check_schema, registry_of
from jeeves_reflexion.workflows.values import MAX_DEPTH, NoJSONError, plain, produced, shown
from jeeves_reflexion.workflows.verdicts import Problem, Verdict, refusal

MAX_SECONDS: Final = 5.0
"""The longest that a schema, or an output by a schema, is looked at."""

MAX_ERRORS: Final = 50
_MESSAGE: Final = 300


class SchemaCheck:
    """A schema made ready to judge outputs.

    A text is read as the JSON object or array in it, bare, fenced, or with prose around it, unless the schema asks for
    a string. Then texts become integers, numbers and booleans, or those texts, where the schema asks for it and nothing
    is lost. What comes of both is the output. ``format`` is asserted for the formats that ``jsonschema`` can check
    without further packages.

    Raises :class:`~jeeves_reflexion.errors.ConfigurationError` for a bad schema or reference, see
    :func:`~jeeves_reflexion.workflows.references.registry_of`.
    """

    def __init__(self, schema: JSON, base_folder: str | Path | None = None) -> None:
        kind = check_schema(schema)
        self._schema = schema
        registry, self._resolver = registry_of(schema, None if base_folder is None else Path(base_folder))
        self._validator: Any = kind(schema, registry=registry, format_checker=kind.FORMAT_CHECKER)
        self._wants_text = _wants_text(schema, self._resolver)

    def __call__(self, output: JSON) -> Verdict:
        """Return the verdict on an output; its ``output`` is the coerced one."""
        value = read_json_text(output) if isinstance(output, str) and not self._wants_text else output
        try:
            value = coerce(plain(value), self._schema, self._resolver)
            found = list(itertools.islice(self._validator.iter_errors(value), MAX_ERRORS))
        except RecursionError:
            unfit = "it is nested too deeply, or its schema refers to itself without an end"
            return _unfit(output, unfit)
        except NoJSONError as error:
            return _unfit(output, f"it is no JSON: {error}")
        except ArithmeticError:  # such as the quotient of a large number
            unfit = "it holds a number that is too large or too small for its schema"
            return _unfit(output, unfit)
        except Unresolvable as error:
            raise ConfigurationError(f"the schema has a reference that leads nowhere: {error}") from error
        except re.error as error:
            raise ConfigurationError(f"the schema has a pattern that can't be read: {error}") from error
        errors = tuple(_problem(error) for error in sorted(found, key=_place))
        return Verdict(valid=not errors, score=float(not errors), errors=errors, output=value)


def _unfit(output: JSON, message: str) -> Verdict:
    return Verdict(valid=False, score=0.0, errors=(Problem("", message),), output=output)


def _wants_text(schema: JSON, resolver: Any) -> bool:  # noqa: ANN401 - referencing's own type
    """Whether the schema asks for a string, or the one that it refers to."""
    for _ in range(16):
        match schema:
            case {"type": str(kind)}:
                return kind == "string"
            case {"type": list(kinds)}:
                return "string" in kinds
            case {"$ref": str(reference)}:
                resolved = resolver.lookup(reference)
                schema, resolver = resolved.contents, resolved.resolver
            case _:
                return False
    return False


def judged(schema: JSON, base_folder: Path | None, output: JSON) -> Verdict:
    """Return the verdict of a :class:`SchemaCheck`, or a refusal after :data:`MAX_SECONDS`; blocks.

    It is made in a process of its own. Raises what :class:`SchemaCheck` raises, and :class:`WorkflowError` where no
    process can be had.
    """
    folder = None if base_folder is None else str(base_folder)
    try:
        found = worker.ask(MAX_SECONDS, "schemas.verdict", schema, folder, output)
    except worker.TooLongError:
        return refusal(
            f"judging it by the schema took longer than {MAX_SECONDS:g} s, and was stopped", output
        )
    problems = tuple(Problem(**each) for each in found.pop("errors"))
    return Verdict(**{**found, "errors": problems, "advice": tuple(found["advice"])})


def check(schema: JSON, base_folder: Path | None) -> None:
    """Raise what making a :class:`SchemaCheck` raises, or :class:`ConfigurationError` for too long a time; blocks."""
    try:
        worker.ask(MAX_SECONDS, "schemas.load", schema, None if base_folder is None else str(base_folder))
    except worker.TooLongError as error:
        raise ConfigurationError(
            f"the schema takes longer than {MAX_SECONDS:g} s to check: make it smaller"
        ) from error


# -- what runs in the other process


def verdict(schema: JSON, base_folder: str | None, output: JSON) -> dict[str, Any]:
    """Return a verdict as JSON; see :func:`judged`."""
    return asdict(SchemaCheck(schema, base_folder)(output))


def load(schema: JSON, base_folder: str | None) -> None:
    """Make a :class:`SchemaCheck`; see :func:`check`."""
    SchemaCheck(schema, base_folder)


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
    closest = best_match([error]) if error.context else None
    if closest is not None and closest is not error:
        at = ".".join(map(str, closest.absolute_path))
        reason = f"; the closest reason{f' at {at}' if at else ''}: {closest.message}"
        message = abridge(message, _MESSAGE) + reason
    path = ".".join(map(str, error.absolute_path))
    return Problem(path, abridge(message, _MESSAGE), _suggestion(error, path))


def _suggestion(error: ValidationError, path: str) -> str:
    """Say what to do about an error, or nothing where the message says it all."""
    at = f"'{path}'" if path else "the output"
    wanted: Any = error.validator_value
    if error.validator == "required":
        name = next((name for name in wanted if error.message.startswith(repr(name))), "")
        return f"Add the field {name!r}{f' to {at}' if path else ''}."
    if error.validator == "type":
        kinds = str(" or ".join(wanted) if isinstance(wanted, list) else wanted)
        return f"Make {at} {_a(kinds)}, not {_kind(error.instance)}."
    if error.validator == "enum":
        texts = [part for part in wanted if isinstance(part, str)]
        near = difflib.get_close_matches(str(error.instance), texts, 1)
        return f"Write {near[0]!r} in {at}." if near else f"Use one of {shown(wanted)} in {at}."
    if error.validator in {"additionalProperties", "unevaluatedProperties"}:
        return f"Remove the fields that {at} may not have."
    if isinstance(wanted, str | int | float) and not isinstance(wanted, bool):
        return f"Write {at} so that it has the {error.validator} {shown(wanted)}."
    return ""


def _kind(value: object) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "text", list: "array", dict: "object"}
    kind = kinds.get(type(value))
    return "null" if kind is None else _a(kind)


def _a(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


# -- coercion: only a single ``type`` is followed, for what alternatives want is not clear

_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_LONGEST: Final = 2_000  # digits; Python reads no longer integers


def coerce_scalar(value: JSON, kind: str) -> JSON:
    """Return a scalar as ``integer``, ``number``, ``boolean`` or ``string``; itself where that would lose something.

    A text is an integer in its one usual form alone (``"007"``, ``"+5"`` and ``"3.0"`` are not), a number in any form
    of JSON whose value a float holds exactly to its last digit, a boolean as true, yes, 1, false, no or 0 in any case.
    """
    if isinstance(value, str):
        if kind == "boolean":
            return _WORDS.get(value.lower(), value)
        return _number(value, kind) if kind in {"integer", "number"} else value
    if kind == "string" and isinstance(value, int | float):
        return json.dumps(value)
    return value


def _number(text: str, kind: str) -> JSON:
    if not text or len(text) > _LONGEST or text != text.strip():
        return text
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(number, int) and not isinstance(number, bool):
        return number if str(number) == text else text
    if kind == "integer" or not isinstance(number, float) or not math.isfinite(number):
        return text
    # Compared as decimals: 0.1 is the same 0.1 when it is written again, 0.10000000000000000001 is not.
    return number if Decimal(repr(number)) == Decimal(text) else text


def coerce(value: JSON, schema: JSON, resolver: Any, depth: int = 0) -> JSON:  # noqa: ANN401 - referencing's own type
    """Return a value with its parts coerced as the schema asks; ``resolver`` follows its references."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return value
    if isinstance(reference := schema.get("$ref"), str):
        try:
            resolved = resolver.lookup(reference)
        except Unresolvable:
            return value
        value = coerce(value, resolved.contents, resolved.resolver, depth + 1)
    if isinstance(value, Mapping):
        return {key: _member(key, item, schema, resolver, depth) for key, item in value.items()}
    if isinstance(value, list):
        items, first = schema.get("items"), schema.get("prefixItems")
        if isinstance(items, list):  # drafts before 2020-12
            first, items = items, schema.get("additionalItems")
        wanted = itertools.chain(first if isinstance(first, list) else [], itertools.repeat(items))
        return [coerce(item, part, resolver, depth + 1) for item, part in zip(value, wanted, strict=False)]
    kind = schema.get("type")
    return coerce_scalar(value, kind) if isinstance(kind, str) else value


def _member(key: str, item: JSON, schema: Mapping[str, JSON], resolver: Any, depth: int) -> JSON:  # noqa: ANN401
    named, patterns = schema.get("properties"), schema.get("patternProperties")
    wanted = [named[key]] if isinstance(named, Mapping) and key in named else []
    if isinstance(patterns, Mapping):
        wanted += [part for pattern, part in patterns.items() if re.search(pattern, key)]
    for part in wanted or [schema.get("additionalProperties")]:
        item = coerce(item, part, resolver, depth + 1)
    return item
