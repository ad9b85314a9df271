"""Values of users refuse, by name, what would else be found out much later; lists and numbers of numpy are taken."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from tables import table

from jeeves_reflexion import (
    Attempt,
    Completion,
    Convergence,
    CriteriaEvaluator,
    Evaluation,
    EvaluationError,
    LoopOptions,
    Message,
    QualityCriterion,
    ReAct,
    RefinementOptions,
    Reflection,
    ReflectionPattern,
    Reflexion,
    Sampling,
    Sandbox,
    SandboxLimits,
    ScriptedModel,
    Step,
    Task,
    ToolCall,
    Triggers,
    Usage,
)
from jeeves_reflexion.cli.screen import plain
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments import Plan
from jeeves_reflexion.models import OpenAIOptions, Retry

WRONG = [
    (lambda: Attempt(output=3), r"Attempt\.output must be a text \(str\), not 3"),
    (lambda: Attempt(output=None), r"Attempt\.output"),
    (lambda: Attempt(steps=None), r"Attempt\.steps must be a tuple, not None"),
    (lambda: Attempt(steps="look"), r"Attempt\.steps"),
    (lambda: Attempt(error=ValueError("x")), r"Attempt\.error must be a text"),
    (lambda: Attempt(metadata=None), r"Attempt\.metadata must be a mapping"),
    (lambda: Attempt(seconds=None), r"Attempt\.seconds must be a number, not None"),
    (lambda: Attempt(seconds="3"), r"Attempt\.seconds must be a number"),
    (lambda: Task("x", tools="search"), r"Task\.tools must be a tuple, not 'search'"),
    (lambda: Task("x", tools=3), r"Task\.tools"),
    (lambda: Task(3), r"Task\.prompt must be a text"),
    (lambda: Task("x", metadata=["a"]), r"Task\.metadata"),
    (lambda: Evaluation("0.8"), r"Evaluation\.score must be a number or None, not '0.8'"),
    (lambda: Evaluation(np.array([0.1, 0.2])), r"Evaluation\.score"),
    (lambda: Evaluation(0.5, passed="no"), r"Evaluation\.passed must be True or False or None"),
    (lambda: Evaluation(0.5, passed=0.9), r"Evaluation\.passed"),
    (lambda: Evaluation(0.5, issues="it fails"), r"Evaluation\.issues must be a tuple"),
    (lambda: Evaluation(0.5, suggestions={"a": 1}), r"Evaluation\.suggestions"),
    (lambda: Evaluation(0.5, rationale=None), r"Evaluation\.rationale"),
    (lambda: Evaluation(0.5, issues=["a", 3]), r"Evaluation\.issues must be a tuple, each a text"),
    (lambda: Evaluation(0.5, usage=None), r"Evaluation\.usage must be of the class Usage"),
    (lambda: Attempt(steps=["look"]), r"Attempt\.steps must be a tuple, each of the class Step"),
    (lambda: Attempt(usage=None), r"Attempt\.usage must be of the class Usage"),
    (lambda: Attempt(usage={"input_tokens": 3}), r"Attempt\.usage"),
    (lambda: Usage(input_tokens=None), r"Usage\.input_tokens must be a whole number, not None"),
    (lambda: Usage(output_tokens=3.5), r"Usage\.output_tokens"),
    (lambda: Usage(cost_usd="3"), r"Usage\.cost_usd must be a number or None"),
    (lambda: Step("look", observation=None), r"Step\.observation must be a text"),
    (lambda: Task("x", tools=["a", 3]), r"Task\.tools must be a tuple, each a text"),
    (lambda: Reflection("look left", evidence=["1"]), r"Reflection\.evidence must be a tuple, each a whole"),
    (lambda: Reflection("look left", usage=3), r"Reflection\.usage"),
    (lambda: ToolCall("1", "open", {"a": 1}), r"ToolCall\.arguments must be a text \(str\), not \{'a': 1\}"),
    (lambda: Message("user", None), r"Message\.content must be a text"),
    (
        lambda: Message("assistant", "", tool_calls=[{"id": "1"}]),
        r"Message\.tool_calls must be a tuple, each of",
    ),
    (lambda: Completion(None), r"Completion\.text must be a text"),
    (lambda: Completion("a", usage=None), r"Completion\.usage must be of the class Usage"),
    (lambda: Reflection(None), r"Reflection\.lesson must be a text"),
    (lambda: Reflection("look left", evidence=3), r"Reflection\.evidence"),
]


def test_a_field_of_another_kind_is_named():
    for make, said in WRONG:
        with pytest.raises(TypeError, match=said):
            make()


def test_a_list_is_a_tuple_and_a_number_of_numpy_is_one_of_python():
    attempt = Attempt("a", steps=[Step("x")], seconds=np.float32(0.5))
    task = Task("x", tools=["search", "open"])
    verdict = Evaluation(np.float32(0.5), passed=np.True_, issues=["a"], confidence=np.float64(1.0))
    reflection = Reflection("look left", evidence=iter([1, 2]))
    assert (attempt.steps, task.tools) == ((Step("x"),), ("search", "open"))
    assert (verdict.score, verdict.passed, verdict.issues) == (0.5, True, ("a",))
    assert [
        type(value) for value in (verdict.score, verdict.passed, verdict.confidence, attempt.seconds)
    ] == [
        float,
        bool,
        float,
        float,
    ]
    assert reflection.evidence == (1, 2)
    assert json.loads(json.dumps(verdict, default=plain))["passed"] is True


def test_a_setting_may_be_a_number_of_numpy():
    model = ScriptedModel([])
    loop = Reflexion(
        model=model, max_attempts=np.int64(4), top_k_lessons=np.int32(2), threshold=np.float32(0.5)
    )
    react, judge = (
        ReAct(model, max_turns=np.int16(3), max_repeats=np.int64(0)),
        CriteriaEvaluator(model=model, panel=np.int64(3)),
    )
    plan = Plan(("retry",), trials=np.int64(2), seeds=(np.int64(0), np.int64(1)), holdout=np.float32(0.5))
    limits = SandboxLimits(memory_mb=np.int64(256), seconds=np.float32(2))
    pattern = ReflectionPattern(max_iterations=np.uint8(2), quality_threshold=np.float64(0.5))
    numbers = [
        *(
            loop.max_attempts,
            loop.top_k_lessons,
            loop.threshold,
            react.max_turns,
            react.max_repeats,
            judge.panel,
        ),
        *(*plan.seeds, plan.holdout, limits.memory_mb, limits.seconds),
        *(plan.trials, pattern.max_iterations, pattern.quality_threshold),
        OpenAIOptions(max_tokens=np.int64(9)).max_tokens,
    ]
    assert numbers == [4, 2, 0.5, 3, 0, 3, 0, 1, 0.5, 256, 2.0, 2, 2, 0.5, 9]
    assert {type(number) for number in numbers} == {int, float}
    with pytest.raises(ConfigurationError, match=r"threshold must lie in \[0, 1\], not np.float32\(1.5\)"):
        Reflexion(model=model, threshold=np.float32(1.5))
    with pytest.raises(ConfigurationError, match="max_attempts must be a whole number"):
        Reflexion(model=model, max_attempts=np.float64(2))


def test_a_setting_that_is_not_a_plain_field_may_be_a_number_of_numpy():
    triggers = Triggers(step_interval=np.int64(2), quality_drop=np.float32(0.25))
    criterion = QualityCriterion("clarity", weight=np.float32(2), threshold=np.float64(0.5))
    numbers = [
        *(triggers.step_interval, triggers.quality_drop, criterion.weight, criterion.threshold),
        LoopOptions(lesson_characters=np.int32(300)).lesson_characters,
    ]
    assert numbers == [2, 0.25, 2.0, 0.5, 300]
    assert {type(number) for number in numbers} == {int, float}
    Sandbox(concurrency=np.int64(2))
    with pytest.raises(ConfigurationError, match=r"quality_drop must lie above 0 and up to 1, not 2\.0"):
        Triggers(quality_drop=np.float32(2))


@table("score", [float("nan"), 1.5, -0.1, np.float32("nan"), 2])
def test_a_number_out_of_range_is_a_value_error(score):
    with pytest.raises(ValueError, match=r"Evaluation\.score must (lie in|be a number or None)"):
        Evaluation(score)


@table("number", [float("nan"), np.float64("nan"), 10**400])
@table(
    ("make", "name"),
    [
        (lambda number: Attempt(seconds=number), "Attempt.seconds"),
        (lambda number: Usage(cost_usd=number), "Usage.cost_usd"),
        (lambda number: Sampling(temperature=number), "Sampling.temperature"),
    ],
)
def test_what_is_no_number_after_all_is_a_value_error(make, name, number):
    with pytest.raises(ValueError, match=f"{re.escape(name)} must be a number"):
        make(number)


@table("value", [None, "3", float("nan"), [2]])
@table(
    ("kind", "name"),
    [
        (Convergence, "plateau_iterations"),
        (Convergence, "repeated_issues"),
        (Convergence, "improvement_threshold"),
        (Convergence, "epsilon"),
        (Convergence, "detect_oscillation"),
        (ReflectionPattern, "plateau_iterations"),
        (ReflectionPattern, "improvement_threshold"),
        (ReflectionPattern, "timeout"),
        (RefinementOptions, "timeout"),
        (Retry, "retries"),
        (Retry, "first_wait"),
    ],
)
def test_a_setting_that_can_be_no_such_number_is_refused_by_name(kind, name, value):
    with pytest.raises(ConfigurationError, match=f"{name} must"):
        kind(**{name: value})


@table("make", [lambda: Attempt(output=3), lambda: Attempt(steps=None)])
def test_an_agent_that_makes_such_an_attempt_ends_the_run_with_the_fields_name(make):
    async def agent(task: Task, session) -> Attempt:
        return make()

    with pytest.raises(TypeError, match=r"Attempt\."):
        Reflexion(agent, evaluator=lambda output: 0.0, reflector=lambda task, trials: "look left").run_sync(
            "x"
        )


def test_an_error_without_a_path_may_hold_what_was_raised():
    raised = ValueError("odd")
    verdict = Evaluation(0.0, issues=("odd", "late"), errors=(EvaluationError("", raised),))
    assert verdict.faults == ("odd", "late")
