"""Tools: typed Python functions that a model may call."""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import docstring_parser
import pydantic
import pydantic.json_schema
import pydantic_core
from pydantic.errors import PydanticUserError

from jeeves_reflexion import telemetry
from jeeves_reflexion.callables import aside, innermost, run, signature_of
from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError, ToolError, described
from jeeves_reflexion.models.near_json import NotJSONError, json_or_none, read_value
from jeeves_reflexion.protocols import ToolSpec
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import is_cancelled
from jeeves_reflexion.text import cut_middle
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import check_whole

TOOL_TIMEOUT: Final = 300.0
"""Seconds that a tool may take unless it has a limit of its own."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ANY_OBJECT = pydantic.TypeAdapter(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call; make one with :func:`as_tool`.

    ``timeout`` is in seconds, ``None`` for no limit. Results and errors are cut from the middle to ``max_tokens``. A
    tool that is ``alone`` never runs beside others of the same turn. Without a ``signature`` the function gets its
    arguments unchecked, as one dict.
    """

    spec: ToolSpec
    function: Callable[..., object] = field(repr=False)
    arguments: pydantic.TypeAdapter[dict[str, Any]] = field(default=_ANY_OBJECT, repr=False)
    signature: inspect.Signature | None = field(default=None, repr=False)
    timeout: float | None = TOOL_TIMEOUT
    max_tokens: int = 2000
    alone: bool = False

    @property
    def name(self) -> str:
        """The name by which models call it."""
        return self.spec.name

    @property
    def usage(self) -> str:
        """Its arguments, written as ``search(query: string, limit: integer (optional))``."""
        required = self.spec.parameters.get("required")
        needed = set(required) if isinstance(required, list) else set()
        shown = [
            f"{name}: {_type_of(part)}" + ("" if name in needed else " (optional)")
            for name, part in self._properties().items()
        ]
        return f"{self.name}({', '.join(shown)})"

    async def call(self, arguments: str) -> str:
        """Call it with the JSON text that a model wrote, and return the result as text.

        A text result is returned unchanged; anything else as JSON, or as its ``repr`` if JSON can't express it. A sync
        function runs in a worker thread, which is left behind if the call is cancelled or out of time. Wrong arguments,
        a timeout and whatever the function raises become a :class:`ToolError` written for the model; a ``ToolError`` of
        the function keeps its words. :class:`BudgetExceededError` is raised as it is.
        """
        try:
            with telemetry.tool(self.name) as told:
                call = self._bound(arguments)
                with anyio.fail_after(self.timeout) as scope:
                    result = cut_middle(_as_text(await run(self.function, call)), self.max_tokens)
                if telemetry.captured():
                    told(await aside(redact, arguments), await aside(redact, result))
                return result
        except BudgetExceededError:
            raise
        except anyio.get_cancelled_exc_class() as error:
            if is_cancelled():
                raise
            raise ToolError(f"something that {self.name} waited for was cancelled") from error
        except Exception as error:
            problem = str(error) if isinstance(error, ToolError) else described(error)
            if isinstance(error, TimeoutError) and scope.cancelled_caught:
                problem = f"{self.name} gave no result within {self.timeout:g} seconds"
            raise ToolError(cut_middle(problem, self.max_tokens)) from error

    def from_text(self, argument: str) -> str:
        """Return the JSON arguments for the ``argument`` of ``name[argument]``.

        A JSON object is returned unchanged, ``name="value"`` is read by name, and a quoted argument loses its quotes.
        Otherwise a tool with one parameter gets the whole text. A tool with several gets them in order if the text is a
        list of JSON values. Raises :class:`ToolError`.
        """
        text = argument.strip()
        names = list(self._properties())
        whole = json_or_none(text)
        if not text or isinstance(whole, dict):
            return text
        if (named := _named(text, names)) is not None:
            return json.dumps(named)
        if len(names) == 1:
            takes_list = "array" in _type_of(self._properties()[names[0]])
            parsed = isinstance(whole, str) or (isinstance(whole, list) and takes_list)
            return json.dumps({names[0]: whole if parsed else text})
        values = json_or_none(f"[{text}]")
        if isinstance(values, list) and len(values) <= len(names):
            return json.dumps(dict(zip(names, values, strict=False)))
        raise ToolError(f"{self.name} takes its arguments as a JSON object: {self.usage}")

    def _properties(self) -> Mapping[str, JSON]:
        properties = self.spec.parameters.get("properties")
        return properties if isinstance(properties, Mapping) else {}

    def _bound(self, text: str) -> Callable[[], object]:
        """Return the call that a model asked for."""
        try:
            values = self.arguments.validate_json(text.strip() or "{}")
        except pydantic.ValidationError as error:
            problems = "\n".join(f"- {_problem(item)}" for item in error.errors(include_url=False))
            raise ToolError(f"wrong arguments:\n{problems}\nexpected: {self.usage}") from error
        if self.signature is None:
            return functools.partial(self.function, values)
        # By name if possible, since a decorator may take only **kwargs.
        by_place = [
            values.pop(each.name)
            for each in self.signature.parameters.values()
            if each.kind is each.POSITIONAL_ONLY
        ]
        return functools.partial(self.function, *by_place, **values)


def as_tool(
    function: Callable[..., object] | Tool,
    *,
    name: str | None = None,
    timeout: float | None = TOOL_TIMEOUT,
    max_tokens: int = 2000,
    alone: bool = False,
) -> Tool:
    """Make a tool of a typed sync or async function, also as ``@as_tool``; a tool is returned unchanged.

    See :class:`Tool` for ``timeout``, ``max_tokens`` and ``alone``, which is for functions that share state.

    The JSON schema comes from the signature and the docstring (Google, NumPy, reST or epydoc style);
    ``Annotated[..., Field(description=...)]`` takes precedence over the docstring. Raises :class:`ConfigurationError`
    that names function and parameter if a parameter has no annotation or one that JSON can't express, or is ``*args``
    or ``**kwargs``.
    """
    if isinstance(function, Tool):
        return function
    name = name or str(getattr(function, "__name__", type(function).__name__))
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"tool {name!r}: a name has 1 to 64 letters, digits, _ or -; pass name=")
    if timeout is not None and not timeout > 0:
        raise ConfigurationError(f"tool {name}: timeout must be above 0 seconds or None, not {timeout}")
    max_tokens = check_whole(f"tool {name}: max_tokens", max_tokens)
    signature = signature_of(function, f"tool {name}")
    documented = docstring_parser.parse(inspect.getdoc(innermost(function)) or "")
    descriptions = {p.arg_name: " ".join((p.description or "").split()) for p in documented.params}
    arguments, hints = _arguments(function, signature, name)
    parameters = arguments.json_schema(schema_generator=_Schema)
    for parameter, part in parameters["properties"].items():
        part.pop("title", None)
        notes = (note for note in getattr(hints[parameter], "__metadata__", ()) if isinstance(note, str))
        if text := next(notes, descriptions.get(parameter)):
            part.setdefault("description", text)
    description = "\n".join(filter(None, (documented.short_description, documented.long_description)))
    spec = ToolSpec(name, description, parameters)
    return Tool(spec, function, arguments, signature, timeout, max_tokens, alone)


class _Schema(pydantic.json_schema.GenerateJsonSchema):
    """Omits a default that JSON can't express, without a warning: the model can't write it either."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as pydantic has it


def _arguments(
    function: Callable[..., object], signature: inspect.Signature, name: str
) -> tuple[pydantic.TypeAdapter[dict[str, Any]], Mapping[str, Any]]:
    """Return the validator that reads a function's arguments from JSON, by name, with its defaults; and their types."""
    try:
        hints = typing.get_type_hints(innermost(function), include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigurationError(f"tool {name}: its annotations can't be resolved: {error}") from error
    for parameter in signature.parameters.values():
        where = f"tool {name}: parameter {parameter.name!r}"
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise ConfigurationError(
                f"tool {name}: {parameter} can't be described to a model; name each parameter"
            )
        if parameter.name not in hints:
            raise ConfigurationError(f"{where} has no annotation; a model needs its type")
        hint = hints[parameter.name]
        try:
            pydantic.TypeAdapter(hint).json_schema()
        except (PydanticUserError, pydantic_core.SchemaError, TypeError) as error:
            message = f"{where} has a type that JSON can't express: {inspect.formatannotation(hint)}"
            raise ConfigurationError(message) from error

    def given(**values: object) -> dict[str, Any]:
        return values

    by_name = [each.replace(kind=each.KEYWORD_ONLY) for each in signature.parameters.values()]
    given.__signature__ = signature.replace(parameters=by_name)  # type: ignore[attr-defined]
    given.__annotations__ = dict(hints)
    # A misspelled field of a dataclass is an error for the model too, instead of being left out.
    config = pydantic.ConfigDict(extra="forbid")
    return pydantic.TypeAdapter(given, config=config), hints  # type: ignore[arg-type] # it takes a function too


def _type_of(part: JSON) -> str:
    match part:
        case {"type": str() as kind}:
            return kind
        case {"enum": list() as values}:
            return " | ".join(json.dumps(value) for value in values)
        case {"type": list() as kinds}:  # tools of MCP servers: ["string", "null"]
            return " | ".join(map(str, kinds))
        case {"anyOf": list() as options}:
            return " | ".join(_type_of(option) for option in options)
        case {"$ref": str() as reference}:
            return reference.rsplit("/", 1)[-1]
    return "any"


def _problem(item: pydantic_core.ErrorDetails) -> str:
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] in {"missing", "missing_keyword_only_argument"}:
        return f"{where}: is missing"
    if item["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        return f"{where}: there is no such argument"
    if item["type"] in {"json_invalid", "dict_type", "arguments_type", "unexpected_positional_argument"}:
        return f"the arguments must be one JSON object: {item['msg']}"
    return f"{where}: {item['msg']}; got {cut_middle(repr(item['input']), 50)}"


def _named(text: str, names: Collection[str]) -> dict[str, JSON] | None:
    """Read ``query="Paris", limit=3``. Returns None for any other text, or if a name is not a parameter."""
    before, *pairs = re.split(r"(?:^|,)\s*(\w+)\s*=\s*(?=[\"'\[{\d.+-]|(?i:true|false|null|none)\b)", text)
    written = ", ".join(f'"{name}": {value}' for name, value in zip(pairs[::2], pairs[1::2], strict=True))
    try:
        found, end = read_value(f"{{{written}}}", 0)
    except NotJSONError:
        return None
    if before.strip() or end < len(written) + 2 or not isinstance(found, dict):
        return None
    return found if pairs and set(found) == set(pairs[::2]) <= set(names) else None


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return pydantic_core.to_json(value, inf_nan_mode="constants").decode()
    except (pydantic_core.PydanticSerializationError, ValueError, RecursionError):
        return repr(value)
