"""Runs Python code: as a module, or as the body of a function if it has a ``return`` at top level."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import textwrap
import types
from typing import TYPE_CHECKING, Any, NoReturn

from . import messages

if TYPE_CHECKING:
    import ast  # imported where it is used, because it takes half the start of a small process

_FILE = "<code>"
_GENERATOR_OR_COROUTINE = 0x20 | 0x80 | 0x200
_MESSAGE = 2_000


def run(request: dict[str, Any], result: int) -> NoReturn:
    """Run the code of a request, write its value or error to ``result``, and end the process."""
    # local references, because the code may replace the originals
    send, leave, own_pid, process_id = messages.send, os._exit, os.getpid, os.getpid()
    problem: dict[str, Any] | None = None
    try:
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        names = vars(module)
        names.update(request["inputs"], __file__=_FILE)
        value = execute(request["code"], names)
        if value is None:
            value = names.get(messages.RESULT)
        try:
            answer = b'{"value": ' + messages.encode(value, messages.RESULT) + b"}"
        except ValueError as error:
            raise _NoJSONError(str(error)) from None
    except BaseException as error:  # noqa: BLE001  whatever the code raises is its result
        problem = _described(error)
        answer = b""
    if own_pid() != process_id:
        leave(0)  # this is a process that the code forked
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):  # the code may have closed or replaced it
            stream.flush()
    with contextlib.suppress(BaseException):  # if the code closed the pipe, the host reports no result
        if problem is not None:
            answer = messages.failure(**problem)
        send(result, answer)
    leave(0)


class _NoJSONError(Exception):
    """The value is not JSON."""


def execute(source: str, names: dict[str, Any]) -> object:
    """Run ``source`` with ``names`` as its globals; return what a ``return`` at top level returned, else None."""
    source, code = _dedented(source), None
    try:
        code = compile(source, _FILE, "exec", dont_inherit=True)
    except SyntaxError as error:
        if "'return' outside function" not in str(error):
            raise
    if code is not None:
        exec(code, names)  # noqa: S102  the sandbox is made for this
        return None
    exec(_as_function(source), names)  # noqa: S102
    return names.pop(_FUNCTION)()


_FUNCTION = "__run__"


def _as_function(source: str) -> types.CodeType:
    """Compile the source as the body of a function whose variables are still globals."""
    import ast  # noqa: PLC0415

    class Bare(ast.NodeTransformer):
        """Removes the annotations of top-level variables: inside a function, a global must not have one."""

        def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
            if not isinstance(node.target, ast.Name):
                return node
            bare = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
            return ast.copy_location(bare, node)

        def kept(self, node: ast.AST) -> ast.AST:
            return node

        visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = kept  # noqa: N815

    tree = ast.parse(source, _FILE)
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    body: list[ast.stmt] = [Bare().visit(node) for node in tree.body if node not in future]
    function = ast.parse(f"def {_FUNCTION}(): pass").body[0]
    assert isinstance(function, ast.FunctionDef)  # noqa: S101 - for the type checker
    function.body = body
    module = ast.fix_missing_locations(ast.Module([*future, function], []))
    constants = compile(module, _FILE, "exec", dont_inherit=True).co_consts
    inner = next(code for code in constants if isinstance(code, types.CodeType) and code.co_name == _FUNCTION)
    if inner.co_flags & _GENERATOR_OR_COROUTINE:
        raise SyntaxError("'yield' or 'await' outside function")
    if local := {*inner.co_varnames, *inner.co_cellvars}:
        function.body = [ast.Global(sorted(local)), *body]
    return compile(ast.fix_missing_locations(module), _FILE, "exec", dont_inherit=True)


def _dedented(source: str) -> str:
    """Remove the indentation that all lines share, as in code cut from an indented block."""
    margin = source[: len(source) - len(source.lstrip())]
    return textwrap.dedent(source) if margin.endswith((" ", "\t")) else source


def _described(error: BaseException) -> dict[str, Any]:
    kind = "raised"
    if isinstance(error, _NoJSONError):
        kind = "value"
    elif isinstance(error, MemoryError):
        kind = "memory_mb"
    elif isinstance(error, OSError) and error.errno in {errno.EFBIG, errno.ENOSPC, errno.EDQUOT}:
        kind = "file_bytes"
    try:
        message = str(error.code) if isinstance(error, SystemExit) else str(error)
    except BaseException:  # noqa: BLE001  the code may define the exception's class
        message = "(the exception's text can't be made)"
    return {
        "kind": kind,
        "type": type(error).__name__,
        "message": message[:_MESSAGE].encode("utf-8", "replace").decode(),
        "line": _line(error),
    }


def _line(error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == _FILE:
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
