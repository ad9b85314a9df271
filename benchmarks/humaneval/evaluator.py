"""The two judges: a problem's own tests (self-judged), and its hidden tests (oracle-judged)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
import pydantic

from jeeves_reflexion import Attempt, ChatModel, Evaluation, Message, Sampling, Task
from jeeves_reflexion.models.ask import ask

from ..records import read_rows
from .agent import entry_point_of, prompt_text
from .checking import OwnTestRunner
from .own_tests import MOST_TESTS, OwnTest, docstring_tests, model_tests
from .problems import Problem
from .scoring import HiddenTests

UNTESTED = "there is no test of its own to judge it by: it is handed in as it is"
_REFUSED = "It did not pass the hidden tests; what they are is not told."


class OwnTestSource(Protocol):
    """Gives a problem's own tests; it sees the task without gold."""

    async def __call__(self, task: Task) -> Sequence[OwnTest]:
        """Return the tests, the same each time."""
        ...


async def docstring_source(task: Task) -> Sequence[OwnTest]:
    """Return the examples in the task's docstring."""
    return docstring_tests(task.prompt, entry_point_of(task))


class ModelTests:
    """Tests that a model writes once for each problem, before the first verdict (Shinn et al. 2023, 4.3).

    The file ``path`` keeps them, so that a resumed run has the same tests. The calls count as the evaluator's.
    """

    def __init__(self, model: ChatModel, *, path: Path | None = None, most: int = MOST_TESTS) -> None:
        self._model = model
        self._path = path
        self._most = most
        self._locks: dict[str, anyio.Lock] = defaultdict(anyio.Lock)
        self._tests: dict[str, list[OwnTest]] = {}
        if path is not None and path.exists():
            self._tests = read_tests(path)

    async def __call__(self, task: Task) -> Sequence[OwnTest]:
        """Return the tests, which the first call lets the model write; none if none is valid."""
        async with self._locks[task.id]:
            if task.id not in self._tests:
                messages = [Message("system", prompt_text("tests.md")), Message("user", task.prompt)]
                sampling = Sampling(temperature=0.0, max_tokens=1024)
                completion = await ask(self._model, messages, sampling=sampling)
                tests = model_tests(completion.text, task.prompt, entry_point_of(task), most=self._most)
                await self._keep(task.id, tests)
        return self._tests[task.id]

    async def _keep(self, task_id: str, tests: list[OwnTest]) -> None:
        self._tests[task_id] = tests
        if self._path is not None:
            line = json.dumps({"task_id": task_id, "tests": [asdict(test) for test in tests]})
            await anyio.to_thread.run_sync(_append, self._path, line)


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


class _Kept(pydantic.BaseModel):
    task_id: str
    tests: list[OwnTest]


def read_tests(path: Path) -> dict[str, list[OwnTest]]:
    """Return the tests that a run has kept, by problem. Raises :class:`ConfigurationError` for another file."""
    return {row.task_id: row.tests for _, row in read_rows(path, _Kept, "the tests of a problem")}


class OwnTestsEvaluator:
    """Self-judged: an attempt passes if its problem's own tests pass. ``Task.reference`` is never read.

    Without tests there is no score. Then a program that can be loaded is handed in, as in the paper, where an empty
    list of tests has no failure; a program that can't be loaded has failed.
    """

    def __init__(self, source: OwnTestSource, runner: OwnTestRunner) -> None:
        self._source = source
        self._runner = runner

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the share of own tests that passed; the tests that failed are the issues."""
        tests = await self._source(task.public())
        checked = await self._runner.check(attempt.output, entry_point_of(task), tests)
        if not checked.tested:
            return Evaluation(None, passed=True, rationale=UNTESTED)
        return Evaluation(
            checked.share, passed=checked.passed, rationale=checked.feedback(), issues=checked.failed
        )


class OracleEvaluator:
    """The hidden tests as an evaluator, which tells only that they failed.

    It is the scorer of a self-judged run, which no loop hears of, or the evaluator of an oracle-judged run.
    """

    def __init__(self, problems: Mapping[str, Problem], hidden: HiddenTests) -> None:
        self._problems = problems
        self._hidden = hidden

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return 1 or 0."""
        verdict = await self._hidden.verdict(self._problems[task.id], attempt.output)
        if verdict.passed:
            return Evaluation(1.0, passed=True)
        return Evaluation(0.0, passed=False, rationale=_REFUSED)
