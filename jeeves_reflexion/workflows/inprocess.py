"""Runs Python in this process, for files whose author is trusted as much as the caller. No limits, no isolation."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from types import CodeType

import anyio.to_thread

from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.errors import WorkflowError
from jeeves_reflexion.workflows.values import NoJSONError, produced

_NAME = "__workflow__"


async def run_here(code: str, inputs: Mapping[str, JSON], where: str) -> JSON:
    """Run Python in a worker thread; the value is what it returns, else its variable ``result``.

    Raises :class:`WorkflowError` for what is no Python or makes no JSON, and whatever the code raises. The thread is
    left behind when the caller is cancelled.
    """
    compiled = _compiled(code, where)
    scope: dict[str, object] = {"__name__": _NAME, **copy.deepcopy(dict(inputs))}

    def work() -> tuple[object]:
        exec(compiled, scope)  # noqa: S102 - the caller allows it, and the file asks for it
        return (scope[_NAME](),)  # type: ignore[operator]

    (value,) = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    try:
        return produced(value)
    except NoJSONError as error:
        raise WorkflowError(f"{where}: the code made a value that is no JSON: {error}") from error


def _compiled(code: str, where: str) -> CodeType:
    """Compile code as the body of a function, so that it may return; its lines keep their numbers."""
    try:
        tree = ast.parse(code)
        ending = ast.parse("return locals().get('result')").body
        shell = ast.parse(f"def {_NAME}(): pass")
        function = shell.body[0]
        assert isinstance(function, ast.FunctionDef)  # noqa: S101 - for the type checker
        function.body = [*tree.body, *ending]
        return compile(ast.fix_missing_locations(shell), f"<{where}>", "exec")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise WorkflowError(f"{where}: the code can't be read as Python: {error}") from error
