"""Problems and solutions from files: HumanEval's form, MBPP's two forms, and any file written like them.

Chen et al. 2021 (arXiv 2107.03374) for HumanEval, Austin et al. 2021 (arXiv 2108.07732) for MBPP. One JSON object a
line, ``.jsonl`` or ``.jsonl.gz``; the sanitized MBPP may also be the one JSON list that it is published as.
"""

from __future__ import annotations

import ast
import builtins
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jeeves_reflexion import ConfigurationError

_HUMANEVAL = ("task_id", "prompt", "entry_point", "test")
_MBPP = ("task_id", "test_list")


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    ``prompt`` is the beginning of a Python module that ends in the head and docstring of ``entry_point``; ``hidden`` is
    the code that decides (gold): it runs after the solution and raises where that is wrong.
    """

    id: str
    prompt: str
    entry_point: str
    hidden: str
    kind: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A solution from a file: a whole module or what continues the prompt, and the logged verdict, if any."""

    task_id: str
    solution: str
    logged: bool | None
    line: int


def load_problems(path: Path, *, challenge: bool = False) -> list[Problem]:
    """Read problems, in the file's order; ``challenge`` adds MBPP's ``challenge_test_list`` to the hidden tests.

    Raises :class:`ConfigurationError` that names the file, the line and what is wrong there.
    """
    problems: dict[str, Problem] = {}
    for line, record in _records(path):
        where = f"{path}, line {line}"
        problem = _problem(record, where, challenge=challenge)
        if problem.id in problems:
            raise ConfigurationError(f"{where}: there is a problem {problem.id!r} already")
        problems[problem.id] = problem
    if not problems:
        raise ConfigurationError(f"{path} holds no problem")
    return list(problems.values())


def load_samples(path: Path) -> list[Sample]:
    """Read solutions: ``task_id``, ``completion`` or ``solution``, and ``is_solved`` or ``passed`` where it is logged.

    Of HumanEval's own file the canonical solutions are read.

    A problem may have several. Raises :class:`ConfigurationError` that names the file and line.
    """
    samples = []
    for line, record in _records(path):
        where = f"{path}, line {line}"
        text = record.get("completion", record.get("solution", record.get("canonical_solution")))
        if not isinstance(text, str):
            raise ConfigurationError(f"{where}: neither 'completion' nor 'solution' is a text")
        logged = record.get("is_solved", record.get("passed"))
        if logged is not None and not isinstance(logged, bool):
            raise ConfigurationError(f"{where}: the logged verdict must be true or false, not {logged!r}")
        samples.append(Sample(_id(record, where), text, logged, line))
    if not samples:
        raise ConfigurationError(f"{path} holds no solution")
    return samples


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    text = _text(path)
    if text.lstrip().startswith("["):
        yield from _listed(path, text)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ConfigurationError(f"{path}, line {number}: no JSON ({error})") from error
        if not isinstance(record, dict):
            raise ConfigurationError(f"{path}, line {number}: a JSON object is expected, not {line[:40]!r}")
        yield number, record


def _listed(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        records = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{path}: no JSON list ({error})") from error
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise ConfigurationError(f"{path}, element {number}: a JSON object is expected")
        yield number, record


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path} can't be read: {getattr(error, 'strerror', '') or error}"
        ) from error


def _problem(record: Mapping[str, Any], where: str, *, challenge: bool) -> Problem:
    if "test_list" in record:
        return _mbpp(record, where, challenge=challenge)
    missing = [key for key in _HUMANEVAL if key not in record]
    if missing:
        raise ConfigurationError(
            f"{where}: {', '.join(missing)} missing; a problem has {', '.join(_HUMANEVAL)} (HumanEval) or "
            f"{', '.join(_MBPP)} and text or prompt (MBPP)"
        )
    prompt, entry, test = (_string(record, key, where) for key in ("prompt", "entry_point", "test"))
    problem = Problem(_id(record, where), prompt, entry, f"{test}\ncheck({entry})", "humaneval")
    _check(problem, where)
    return problem


def _mbpp(record: Mapping[str, Any], where: str, *, challenge: bool) -> Problem:
    """A problem of MBPP: the function's name and number of arguments are those of its first test.

    The tests themselves are not shown, unlike in Austin et al. and as in Shinn et al., who give the head and the text.
    """
    said = _string(record, "text" if "text" in record else "prompt", where)
    tests = _strings(record, "test_list", where)
    setup = record.get("test_setup_code") or "\n".join(record.get("test_imports") or ())
    if challenge:
        tests = [*tests, *_strings(record, "challenge_test_list", where)]
    if not tests:
        raise ConfigurationError(f"{where}: test_list is empty")
    entry, arity = _called(tests[0], where)
    arguments = ", ".join(f"arg_{number}" for number in range(1, arity + 1))
    words = said.strip().replace("\\", "\\\\").replace('"""', "'''")
    prompt = f'def {entry}({arguments}):\n    """\n    {words}\n    """\n'
    problem = Problem(_id(record, where), prompt, entry, "\n".join([str(setup), *tests]), "mbpp")
    _check(problem, where)
    return problem


def _called(test: str, where: str) -> tuple[str, int]:
    """The function that a test is about, and its number of arguments: the outermost call that is of no builtin."""
    try:
        tree = ast.parse(test)
    except SyntaxError as error:
        raise ConfigurationError(f"{where}: the first test is no Python: {error}") from error
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and not hasattr(builtins, node.func.id)
        ):
            return node.func.id, len(node.args) + len(node.keywords)
    raise ConfigurationError(f"{where}: the first test calls no function: {test[:80]!r}")


def _check(problem: Problem, where: str) -> None:
    if not problem.entry_point.isidentifier():
        raise ConfigurationError(f"{where}: entry_point {problem.entry_point!r} is no name")
    try:
        ast.parse(problem.hidden)
    except SyntaxError as error:
        raise ConfigurationError(f"{where}: the tests are no Python: {error}") from error


def _id(record: Mapping[str, Any], where: str) -> str:
    value = record.get("task_id")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"MBPP/{value}"
    if isinstance(value, str) and value.strip():
        return value
    raise ConfigurationError(f"{where}: task_id must be a text or a number, not {value!r}")


def _string(record: Mapping[str, Any], key: str, where: str) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{where}: {key} must be a text that is not empty, not {value!r:.40}")
    return value


def _strings(record: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = record.get(key)
    if value is None and key == "challenge_test_list":
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(f"{where}: {key} must be a list of texts, not {value!r:.40}")
    return value
