"""Problems and solutions in HumanEval's form (Chen et al. 2021, arXiv 2107.03374): one JSON object a line."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pydantic

from jeeves_reflexion import ConfigurationError

from ..records import read_rows


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    ``prompt`` is the beginning of a Python module that ends with the head and docstring of ``entry_point``. ``hidden``
    is gold: code that runs after the solution and raises if the solution is wrong.
    """

    id: str
    prompt: str
    entry_point: str
    hidden: str
    kind: str = "humaneval"


@dataclass(frozen=True, slots=True)
class Sample:
    """A solution from a file: a whole module or a continuation of the prompt, and the logged verdict, if any."""

    task_id: str
    solution: str
    logged: bool | None
    line: int


_Text = Annotated[str, pydantic.StringConstraints(min_length=1, pattern=r"\S")]


def _name(value: str) -> str:
    if not value.isidentifier():
        raise ValueError(f"{value!r} is no name")
    return value


def _python(value: str) -> str:
    try:
        ast.parse(value)
    except SyntaxError as error:
        raise ValueError(f"it is no Python: {error}") from error
    return value


class _Problem(pydantic.BaseModel):
    task_id: _Text
    prompt: _Text
    entry_point: Annotated[str, pydantic.AfterValidator(_name)]
    test: Annotated[_Text, pydantic.AfterValidator(_python)]


class _Sample(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    task_id: _Text
    solution: str = pydantic.Field(
        validation_alias=pydantic.AliasChoices("completion", "solution", "canonical_solution")
    )
    logged: bool | None = pydantic.Field(None, validation_alias=pydantic.AliasChoices("is_solved", "passed"))


def load_problems(path: Path) -> list[Problem]:
    """Read problems, plain or compressed, in the file's order.

    Raises :class:`ConfigurationError`, which names the file, the line and the fault.
    """
    problems: dict[str, Problem] = {}
    for line, row in read_rows(path, _Problem, "a problem: task_id, prompt, entry_point and test"):
        if row.task_id in problems:
            raise ConfigurationError(
                f"{path}, line {line}: another problem has the id {row.task_id!r} already"
            )
        hidden = f"{row.test}\ncheck({row.entry_point})"
        problems[row.task_id] = Problem(row.task_id, row.prompt, row.entry_point, hidden)
    return list(problems.values())


def load_samples(path: Path) -> list[Sample]:
    """Read solutions: ``task_id``, ``completion`` or ``solution``, and perhaps the verdict ``is_solved`` or ``passed``.

    From HumanEval's own file the canonical solutions are read. A problem may have several solutions.
    Raises :class:`ConfigurationError`, which names the file and line.
    """
    expected = "a solution: task_id and completion or solution"
    rows = read_rows(path, _Sample, expected)
    return [Sample(row.task_id, row.solution, row.logged, line) for line, row in rows]
