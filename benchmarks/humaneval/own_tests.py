"""Tests without gold: examples in the docstring, and asserts that a model wrote.

As in Shinn et al. 2023 (arXiv 2303.11366), 4.3, the model writes tests, tests that don't parse are dropped, and at most
six are kept.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from .programs import INDENT, parsed, preamble

Origin = Literal["doctest", "example", "model"]

MOST_TESTS: Final = 6
"""The paper's limit on a problem's own tests."""

_LONGEST = 2_000
_ARROWS = re.compile(
    r"\s*(?:(?:={2,3}>?|=>|-{1,2}>|\u279e|\u27a1|\u2192|#|should return|returns?|should be)\s*:?\s*)+"
)
_FENCED = re.compile(r"^[ \t]*```[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class OwnTest:
    """One assert, and the expression whose value is shown if it fails."""

    source: str
    actual: str
    origin: Origin


def docstring_tests(prompt: str, entry_point: str) -> list[OwnTest]:
    """Return the examples in the docstring of a prompt's function, as tests, each once.

    Examples are lines after ``>>>``, as for :mod:`doctest`, and calls of the function followed by a literal value:
    ``f(1) == 2``, ``f(1) -> 2``, ``f(1) => 2``, ``f(1) returns 2``.
    """
    docstring = _docstring(prompt, entry_point)
    found = list(_doctests(docstring, entry_point))
    found += _examples(docstring, entry_point)
    known = _names(preamble(prompt, entry_point)) | {entry_point}
    return _each_once(test for test in found if _uses_only(ast.parse(test.source), known))


def model_tests(reply: str, prompt: str, entry_point: str, *, most: int = MOST_TESTS) -> list[OwnTest]:
    """Return the first ``most`` valid asserts of a model's reply, each once.

    An assert is valid if it compiles, calls the function, and uses only builtins and names that the prompt defines
    before the function. Lines that are no Python are skipped.
    """
    texts = [match[1] for match in _FENCED.finditer(reply)] or [reply]
    known = _names(preamble(prompt, entry_point)) | {entry_point}
    found = [
        OwnTest(ast.unparse(node), _actual(node), "model")
        for text in texts
        for node in _asserts(text)
        if _valid(node, entry_point, known)
    ]
    return _each_once(found)[:most]


def _each_once(tests: Iterable[OwnTest]) -> list[OwnTest]:
    return list({test.source: test for test in reversed(list(tests))}.values())[::-1]


def _docstring(prompt: str, entry_point: str) -> str:
    tree = parsed(prompt) or parsed(prompt.rstrip() + f"\n{INDENT}pass\n")
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry_point:
            return ast.get_docstring(node) or ""
    return ""


def _doctests(docstring: str, entry_point: str) -> Iterator[OwnTest]:
    lines = docstring.split("\n")
    for number, line in enumerate(lines):
        if not line.strip().startswith(">>>"):
            continue
        call = line.strip().removeprefix(">>>")
        wanted = lines[number + 1].strip() if number + 1 < len(lines) else ""
        if not wanted.startswith((">>>", "...")) and (test := _test(call, wanted, entry_point, "doctest")):
            yield test


def _examples(docstring: str, entry_point: str) -> Iterator[OwnTest]:
    """Find calls anywhere in the text; a call may span lines."""
    text = "\n".join(line for line in docstring.split("\n") if not line.strip().startswith(">>>"))
    for match in re.finditer(rf"(?<![\w.]){re.escape(entry_point)}\(", text):
        call = _balanced(text[match.start() :])
        rest = text[match.start() + len(call) :]
        arrow = _ARROWS.match(rest)
        if not call or arrow is None or not arrow[0].strip():
            continue
        value = re.sub(r"^(true|false)\b", lambda word: word[0].title(), rest[arrow.end() :].split("\n")[0])
        if test := _test(call, _longest_literal(value), entry_point, "example"):
            yield test


def _balanced(text: str) -> str:
    """Return the text up to the first bracket that makes it an expression; empty if there is none."""
    for end in (at for at, letter in enumerate(text[:_LONGEST], 1) if letter == ")"):
        if _expression(text[:end]) is not None:
            return text[:end]
    return ""


def _longest_literal(line: str) -> str:
    """Return the longest beginning of a line that is a literal value and that the rest does not continue."""
    for end in range(len(line), 0, -1):
        if re.match(r"[\w\"']", line[end:]):
            continue
        if _literal(line[:end]) and not re.match(r"\s*([-+*/%=]|or\b)", line[end:]):
            return line[:end]
    return ""


def _test(call: str, wanted: str, entry_point: str, origin: Origin) -> OwnTest | None:
    node = _expression(call)
    if node is None or not _literal(wanted) or not _calls(node, entry_point):
        return None
    actual = ast.unparse(node)
    value = _expression(wanted)
    assert value is not None  # noqa: S101 - a literal is an expression
    return OwnTest(f"assert {actual} == {ast.unparse(value)}", actual, origin)


def _expression(text: str) -> ast.expr | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _literal(text: str) -> bool:
    """Return whether a text is one literal value; a full stop or comma at the end belongs to the sentence."""
    node = _expression(text)
    if node is None or re.fullmatch(r"\s*-?\d+\.\s*|.*,\s*", text):
        return False
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False
    return True


def _asserts(text: str) -> Iterator[ast.Assert]:
    """Yield the asserts of a text, at top level or in test functions; line by line if the whole does not parse."""
    trees = [tree] if (tree := parsed(text)) else [parsed(line.strip()) for line in text.split("\n")]
    for found in trees:
        for node in found.body if found else ():
            inner = (
                node.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test") else [node]
            )
            yield from (each for each in inner if isinstance(each, ast.Assert))


def _valid(node: ast.Assert, entry_point: str, known: set[str]) -> bool:
    return _calls(node, entry_point) and _uses_only(node, known)


def _uses_only(node: ast.AST, known: set[str]) -> bool:
    """Return whether a test uses only builtins, its own names and the known ones."""
    bound = {
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    bound |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - bound - known
    return all(hasattr(builtins, name) for name in used)


def _calls(node: ast.AST, entry_point: str) -> bool:
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == entry_point
        for each in ast.walk(node)
    )


def _actual(node: ast.Assert) -> str:
    test = node.test
    return ast.unparse(test.left if isinstance(test, ast.Compare) else test)


def _names(source: str) -> set[str]:
    """Return the names that a source binds at its top level."""
    tree = parsed(source)
    names: set[str] = set()
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names
