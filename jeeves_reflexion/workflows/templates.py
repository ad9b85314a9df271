"""Fills in templates, with Jinja2's sandbox in the worker process.

The texts of models and users are only ever values, never templates. The worker limits time (:data:`MAX_SECONDS`) and
memory, a text has at most ``MAX_TEXT`` characters, and an undefined name is an error.
"""

from __future__ import annotations

import functools
import json
import re
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, Final

import anyio.to_thread

from jeeves_reflexion.errors import MissingDependencyError
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import worker
from jeeves_reflexion.workflows.errors import TemplateError, WorkflowFileError
from jeeves_reflexion.workflows.values import NoJSONError, State, as_text, plain, strings

try:
    import jinja2
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as error:  # pragma: no cover - the tests have it
    raise MissingDependencyError("templates", "workflows") from error

MAX_SECONDS: Final = 2.0
"""The time limit for the templates of one step together, or for reading one template."""

MAX_TEXT: Final = 1_000_000
"""The most characters of a filled-in template."""

_MARKER: Final = re.compile(r"\{[{%#]")


def is_template(text: str) -> bool:
    """Return whether a text has anything to fill in."""
    return _MARKER.search(text) is not None


def check(value: JSON, where: str) -> None:
    """Raise :class:`WorkflowFileError` if a value holds a malformed template; blocks."""
    for source in filter(is_template, strings(value)):
        try:
            worker.ask(MAX_SECONDS, "templates.read", source, where)
        except worker.TooLongError as error:
            raise WorkflowFileError(f"{where}: the template takes longer than {MAX_SECONDS:g} s") from error


async def render(value: JSON, state: State, where: str, *, as_value: bool = True) -> JSON:
    """Return a value with every template in it filled in.

    A text that is just one ``{{ expression }}`` becomes the expression's value, unless ``as_value`` is false. Messages
    begin with ``where``. Raises :class:`TemplateError`.
    """
    if not any(map(is_template, strings(value))):
        return value

    question = (MAX_SECONDS, "templates.filled", value, dict(state), where, as_value)
    try:
        result: JSON = await anyio.to_thread.run_sync(worker.ask, *question, abandon_on_cancel=True)
    except worker.TooLongError as error:
        raise TemplateError(f"{where}: the template takes longer than {MAX_SECONDS:g} s") from error
    return result


async def holds(condition: JSON, state: State, where: str) -> bool:
    """Return whether a condition is true: a value, or an expression of ``state`` with or without braces."""
    if isinstance(condition, str):
        condition = await render(as_expression(condition), state, where)
    return bool(condition)


def as_expression(condition: str) -> str:
    """Return a condition as a template, with braces added if it has none."""
    return condition if is_template(condition) else f"{{{{ {condition} }}}}"


# -- in the worker process


class _Environment(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401
        # A key comes before a method: state.items is the state's key "items" if it has one.
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


def _defined(value: object) -> object:
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises, except for `a if b` without an else
        return value
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else value


_environment: Final = _Environment(
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,
    optimized=False,  # the optimizer takes cubic time for a chain of filters
    finalize=lambda value: as_text(_defined(value)),
    cache_size=0,
)
_environment.globals = {"range": _environment.globals["range"]}
# Jinja2's own filter would escape ``<`` and others for HTML.
_environment.filters["tojson"] = lambda value, indent=None: json.dumps(
    _defined(value), ensure_ascii=False, indent=indent
)


def read(source: str, where: str) -> None:
    """Read a template. Raises :class:`WorkflowFileError`."""
    try:
        _read(source)
    except jinja2.TemplateSyntaxError as error:
        raise WorkflowFileError(f"{where}: line {error.lineno} of the template: {error.message}") from error
    except (RecursionError, OverflowError, SyntaxError, ValueError, MemoryError) as error:
        raise WorkflowFileError(f"{where}: the template is nested too deeply") from error


@functools.lru_cache(maxsize=512)
def _read(source: str) -> tuple[jinja2.Template, Any]:
    """Return a text as a template, and as an expression if it is just one expression, else None."""
    whole, body = _environment.from_string(source), _environment.parse(source).body
    alone = len(body) == 1 and isinstance(body[0], nodes.Output) and len(body[0].nodes) == 1
    text = source.strip()
    if not alone or not text.startswith("{{") or not text.endswith("}}"):
        return whole, None
    inner = text[2:-2].removeprefix("-").removesuffix("-")
    return whole, _environment.compile_expression(inner, undefined_to_none=False)


def filled(value: JSON, state: JSON, where: str, as_value: bool) -> JSON:  # noqa: FBT001 - over a pipe
    """Return a value with every template in it filled in. Raises :class:`TemplateError`."""
    if isinstance(value, Mapping):
        return {key: filled(item, state, f"{where}.{key}", as_value) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, state, f"{where}[{at}]", as_value) for at, item in enumerate(value)]
    if not isinstance(value, str) or not is_template(value):
        return value
    read(value, where)
    whole, alone = _read(value)
    try:
        if as_value and alone is not None:
            try:
                result = _defined(alone(state=state))
            except Exception:  # noqa: BLE001 - raised again, with the template's lines instead of Python's
                _environment.handle_exception()
            return None if isinstance(result, jinja2.Undefined) else plain(result)
        text = whole.render(state=state)
    except Exception as error:  # a template may raise anything; its author must learn where
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
        line = f", line {lines[-1]} of the template" if lines else ""
        reason = str(error) if isinstance(error, jinja2.TemplateError | OverflowError | NoJSONError) else ""
        raise TemplateError(f"{where}{line}: {reason or f'{type(error).__name__}: {error}'}") from error
    if len(text) > MAX_TEXT:
        raise TemplateError(f"{where}: the filled-in text is longer than {MAX_TEXT:,} characters")
    return text
