"""One run: problems, arms, trials, seeds. Own tests judge the attempts, the hidden tests score them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from jeeves_reflexion import ChatModel, ConfigurationError, Evaluator, LessonReflector, Reflexion, Task
from jeeves_reflexion.experiments import ArmName, Results, Watcher, arm_lessons
from jeeves_reflexion.experiments.executors import Tools
from jeeves_reflexion.experiments.location import LessonLocation
from vectorstores import JSON, VectorStore

from ..runs import RunSetting, play
from .agent import CodeAgent, CodeReflexion, metadata_of, prompt_text
from .checking import OwnTestRunner
from .evaluator import (
    ModelTests,
    OracleEvaluator,
    OwnTestsEvaluator,
    OwnTestSource,
    docstring_source,
)
from .figures import Confusion, Pair
from .own_tests import MOST_TESTS
from .problems import Problem
from .scoring import SECONDS, HiddenTests

Tests = Literal["docstring", "model"]

FORGETFUL: Final = frozenset({"react", "retry"})
"""Arms whose attempts see nothing of earlier attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(RunSetting):
    """The setting of one run.

    ``plan.judged_by`` says what stops the attempts: ``"self"``, the own tests (as in the paper), or ``"oracle"``, the
    hidden tests.
    """

    problems: Sequence[Problem]
    model: ChatModel
    tests: Tests = "docstring"
    most_tests: int = MOST_TESTS
    temperature: float = 0.2
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        RunSetting.__post_init__(self)
        if not self.problems:
            raise ConfigurationError("there is no problem to try: the data is empty")
        if self.runs_on.ray and self.tests == "model":
            raise ConfigurationError(
                "--executor ray: the tests that a model writes stay on this machine; choose --tests docstring"
            )


async def run(setting: Setting, *, say: Callable[[str], None], watcher: Watcher | None = None) -> Results:
    """Try the problems in every arm and score every attempt by the hidden tests; the log is in ``setting.out``."""
    tasks = [task_of(problem) for problem in setting.problems]
    title = f"HumanEval, {setting.model.name}"
    return await play(
        setting, tasks, _config(setting, len(tasks)), _open_tools, title=title, say=say, watcher=watcher
    )


def task_of(problem: Problem) -> Task:
    """Return the task of a problem. Its hidden tests are the reference, which only evaluators receive."""
    return Task(
        problem.prompt,
        id=problem.id,
        kind=problem.kind,
        reference=problem.hidden,
        metadata=metadata_of(problem.entry_point),
    )


def confusion(results: Results, arm: ArmName) -> Confusion:
    """Count both verdicts on the last solutions of a self-judged run, one for each task and seed."""
    rows = [row for row in results.rows if row.arm == arm and row.split == "learning"]
    pairs = []
    for row in {(row.seed, row.task.id): row for row in rows}.values():
        if row.right is not None:
            own = None if row.trial.evaluation.score is None else row.passed
            pairs.append(Pair(row.task.id, own, row.right))
    return Confusion(tuple(pairs))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What all arms share."""

    tasks: Sequence[Task]
    oracle: OracleEvaluator
    runner: OwnTestRunner
    sources: dict[int, OwnTestSource] = field(default_factory=dict)


@asynccontextmanager
async def _open_tools(setting: Setting, place: LessonLocation, store: VectorStore) -> AsyncIterator[Tools]:
    oracle = OracleEvaluator(
        {problem.id: problem for problem in setting.problems}, HiddenTests(seconds=setting.seconds)
    )
    parts = _Parts([task_of(problem) for problem in setting.problems], oracle, OwnTestRunner())
    scorer = oracle if setting.plan.judged_by == "self" else None

    def loop(arm: ArmName, seed: int) -> Reflexion:
        return _loop(setting, parts, place.scope(store, arm, seed), arm, seed)

    yield Tools(loop, scorer)


def _loop(setting: Setting, parts: _Parts, scope: VectorStore, arm: ArmName, seed: int) -> Reflexion:
    """Return the loop of one arm and seed; the arms differ only in what they remember."""
    plan, source = setting.plan, _source(setting, parts, seed)
    evaluator: Evaluator = OwnTestsEvaluator(source, parts.runner)
    if plan.judged_by == "oracle":
        evaluator = parts.oracle
    kind: type[Reflexion] = Reflexion if arm in FORGETFUL else CodeReflexion
    return kind(
        CodeAgent(setting.model, temperature=setting.temperature),
        evaluator=evaluator,
        reflector=LessonReflector(setting.model, prompt=prompt_text("reflect.md")),
        lesson_store=arm_lessons(arm, scope, parts.tasks, settings=setting.settings, seed=seed),
        max_attempts=plan.trials,
        top_k_lessons=plan.k,
    )


def _source(setting: Setting, parts: _Parts, seed: int) -> OwnTestSource:
    """Return the source of own tests, the same for all arms of a seed."""
    if setting.tests == "docstring":
        return docstring_source
    if seed not in parts.sources:
        path = setting.out / f"own_tests-{seed}.jsonl"
        parts.sources[seed] = ModelTests(setting.model, path=path, most=setting.most_tests)
    return parts.sources[seed]


def _config(setting: Setting, tasks: int) -> Mapping[str, JSON]:
    lessons = setting.settings
    return {
        "benchmark": "humaneval",
        "problems": tasks,
        "own_tests": setting.tests,
        "most_tests": setting.most_tests if setting.tests == "model" else None,
        "player": setting.model.name,
        "temperature": setting.temperature,
        "bugs": None,
        "hidden_seconds": setting.seconds,
        "embedder": setting.embedder.id,
        "key": lessons.key,
        "min_similarity": lessons.min_similarity,
    }
