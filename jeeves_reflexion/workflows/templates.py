"""Fills in templates.

What a model or a user said is only ever a value here, never a template; what a template can do, and its bounds, is in
:mod:`jeeves_reflexion.workflows.template_sandbox`.
"""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

import anyio.to_thread

from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.errors import TemplateError, WorkflowFileError
from jeeves_reflexion.workflows.template_sandbox import counted, environment, jinja2, nodes, within_bounds
from jeeves_reflexion.workflows.values import MAX_TEXT, NoJSONError, State, as_text, plain

_LOOKS: Final = re.compile(r"\{[{%#]")


class _Template:
    """A text that was read as a template. ``alone`` is the one expression that it is, if it is no more than that."""

    def __init__(self, source: str) -> None:
        tree = environment._parse(source, None, None)  # noqa: SLF001 - the parser that tames
        self.alone: jinja2.Template | None = None
        body = tree.body
        if len(body) == 1 and isinstance(body[0], nodes.Output) and len(body[0].nodes) == 1:
            expression = body[0].nodes[0]
            if not isinstance(expression, nodes.TemplateData):
                self.alone = _as_expression(expression)
        self.whole = environment.from_string(source)

    def value(self, state: State) -> JSON:
        """Return the value of the one expression, or the text."""
        if self.alone is None:
            return self.text(state)
        return within_bounds(lambda: _valued(_evaluated(self.alone, state)))

    def text(self, state: State) -> str:
        return within_bounds(lambda: _bounded(self.whole.generate(state=state)))


def _as_expression(expression: nodes.Expr) -> jinja2.Template:
    store = nodes.Name("result", "store", lineno=1)
    made = nodes.Template([nodes.Assign(store, expression, lineno=1)], lineno=1)
    made.set_environment(environment)
    return environment.from_string(made)


def _evaluated(template: jinja2.Template | None, state: State) -> object:
    assert template is not None  # noqa: S101 - for the type checker
    context = template.new_context({"state": state})
    try:
        for _ in template.root_render_func(context):
            pass
    except Exception:  # noqa: BLE001 - raised again, with the template's lines
        environment.handle_exception()
    return context.vars["result"]


def _valued(value: object) -> JSON:
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises, but for `a if b` without an else
        return None
    if not isinstance(value, str | Mapping) and isinstance(value, Iterable):
        value = list(counted(value))
    return plain(value)


def _bounded(parts: Iterable[str]) -> str:
    kept: list[str] = []
    length = 0
    for part in parts:
        length += len(part)
        if length > MAX_TEXT:
            raise OverflowError(f"it becomes longer than {MAX_TEXT:,} characters")
        kept.append(part)
    return "".join(kept)


@functools.lru_cache(maxsize=512)
def _read(source: str) -> _Template:
    return _Template(source)


def is_template(text: str) -> bool:
    """Whether a text has anything to fill in."""
    return _LOOKS.search(text) is not None


def check(source: str, where: str) -> None:
    """Raise :class:`WorkflowFileError` if a text is no template that can be read."""
    try:
        if is_template(source):
            _read(source)
    except jinja2.TemplateSyntaxError as error:
        raise WorkflowFileError(f"{where}: line {error.lineno} of the template: {error.message}") from error
    except (RecursionError, OverflowError, SyntaxError, ValueError) as error:
        raise WorkflowFileError(f"{where}: the template is nested too deeply") from error


async def render(value: JSON, state: State, where: str) -> JSON:
    """Return a value with every template in it filled in.

    A text that is one ``{{ expression }}`` and nothing else becomes that expression's value, not its text. ``where``
    begins an error. Raises :class:`TemplateError`.
    """
    if isinstance(value, str):
        return await _filled(value, state, where, as_value=True)
    if isinstance(value, Mapping):
        return {key: await render(item, state, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [await render(item, state, f"{where}[{place}]") for place, item in enumerate(value)]
    return value


async def render_text(source: str, state: State, where: str) -> str:
    """Return a template filled in as a text; see :func:`render`."""
    return as_text(await _filled(source, state, where, as_value=False))


async def _filled(source: str, state: State, where: str, *, as_value: bool) -> JSON:
    if not is_template(source):
        return source

    def work() -> JSON:
        check(source, where)
        template = _read(source)
        try:
            return template.value(state) if as_value else template.text(state)
        except Exception as error:  # noqa: BLE001 - whatever a template raises, its author must learn where
            _explain(error, where)

    # It may take its time, up to MAX_SECONDS, and the event loop has others to serve.
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _explain(error: Exception, where: str) -> NoReturn:
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"
    ]
    line = f", line {lines[-1]} of the template" if lines else ""
    said = str(error) if isinstance(error, jinja2.TemplateError | OverflowError | NoJSONError) else ""
    raise TemplateError(f"{where}{line}: {said or f'{type(error).__name__}: {error}'}") from error


async def holds(condition: JSON, state: State, where: str) -> bool:
    """Whether a condition, a value or an expression of ``state`` (with or without braces), is true."""
    if isinstance(condition, str):
        condition = await _filled(as_expression(condition), state, where, as_value=True)
    return bool(condition)


def as_expression(condition: str) -> str:
    """Return a condition with the braces that it may be written without."""
    return condition if is_template(condition) else f"{{{{ {condition} }}}}"
