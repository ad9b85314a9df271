"""Our loop as a solver of Inspect AI, and our evaluators as its scorers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai.agent")

import anyio
import inspect_ai
from conformance import LESSON, OWN
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, match, mean, scorer
from inspect_ai.solver import Solver, chain, generate, solver, system_message, use_tools
from inspect_ai.tool import ToolError, tool
from inspect_ai.util import store

from jeeves_reflexion import (
    ConfigurationError,
    Evaluation,
    LoopOptions,
    Reflexion,
    Session,
    Task,
)
from jeeves_reflexion.adapters.inspect_ai import (
    InspectModel,
    SampleAgent,
    evaluated,
    reflexive,
    task_scorers,
)
from jeeves_reflexion.loop.transcripts import read_transcripts


@tool
def look() -> Any:
    """A tool that looks, and fails for row 9."""

    async def execute(x: int) -> str:
        """Look at a row.

        Args:
            x: the row
        """
        if x == 9:
            raise ToolError("there is no row 9")
        return f"row {x} holds 40"

    return execute


class Model:
    """What a mock model is shown, and what it says: 41 until a lesson stands in its instructions."""

    def __init__(self, *, row: int = 3, calls: bool = True, error: str = "") -> None:
        self.shown: list[tuple[str, str]] = []
        self._row = row
        self._calls = calls
        self._error = error

    def __call__(self, messages: list[Any], tools: Any, choice: Any, config: Any) -> ModelOutput:
        system = "\n".join(message.text for message in messages if message.role == "system")
        self.shown.append(
            (system, "\n".join(message.text for message in messages if message.role != "system"))
        )
        if self._error:
            raise RuntimeError(self._error)
        if self._calls and not any(message.role == "tool" for message in messages):
            output = ModelOutput.for_tool_call("mockllm", "look", {"x": self._row}, content="I look.")
        elif "submit" in {each.name for each in tools}:
            output = ModelOutput.for_tool_call(
                "mockllm", "submit", {"answer": "40" if LESSON in system else "41"}
            )
        else:
            output = ModelOutput.from_content("mockllm", "40" if LESSON in system else "41")
        output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return output


def sample(number: int = 3) -> Sample:
    return Sample(input=f"What is in row {number}?", target="40", id=number)


def loop(base: Any = None, **options: Any) -> Reflexion[Any]:
    agent = SampleAgent(chain(system_message(OWN), use_tools(look()), generate()) if base is None else base)
    given = {"evaluator": task_scorers, "reflector": lambda task, trials: LESSON, **options}
    return Reflexion(agent, **given)


def run(plan: Solver, model: Model, folder: Path, **options: Any) -> Any:
    given = {"dataset": [sample()], "scorer": match(), **options.pop("task", {})}
    task = inspect_ai.Task(solver=plan, **given)
    mock = get_model("mockllm/model", custom_outputs=model, memoize=False)
    [log] = inspect_ai.eval(
        task, model=mock, display="none", log_dir=str(folder), log_level="warning", **options
    )
    return log


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.mark.parametrize("kept", ["eval", "json"])
def test_learn_reads_a_log_of_inspect(tmp_path: Path, kept: str) -> None:
    plan = chain(system_message(OWN), use_tools(look()), generate())
    log = run(plan, Model(row=9), tmp_path, log_format=kept, task={"dataset": [sample(9)]}, epochs=2)
    first, second = read_transcripts([log.location, log.location])
    assert first.id != second.id
    assert (first.task.prompt, first.task.id) == ("What is in row 9?", "inspect:9")
    assert first.task.reference == "40"
    assert first.attempt.output == "41"
    [step] = first.attempt.steps
    assert (step.thought, step.action, step.observation) == ("I look.", 'look {"x": 9}', "there is no row 9")
    assert step.failed
    assert first.evaluation is not None
    assert first.evaluation.score == 0.0
    assert "rationale" in first.evaluation.quotes_gold


def test_a_sample_that_ended_early_says_why_and_one_without_a_score_is_left_to_a_judge(
    tmp_path: Path,
) -> None:
    plan = chain(use_tools(look()), generate())
    log = run(plan, Model(), tmp_path, message_limit=2, score=False)
    [found] = read_transcripts([log.location])
    assert found.attempt.interrupted == "message_limit"
    assert found.evaluation is None
    log = run(plan, Model(error="the endpoint is gone"), tmp_path, fail_on_error=False)
    [found] = read_transcripts([log.location])
    assert "the endpoint is gone" in (found.attempt.error or "")


def test_a_list_of_logs_is_read_whole(tmp_path: Path) -> None:
    logs = [run(generate(), Model(calls=False), tmp_path / name, log_format="json") for name in "ab"]
    (tmp_path / "logs").write_text(f"[{','.join(Path(log.location).read_text() for log in logs)}]")
    assert len(read_transcripts([str(tmp_path / "logs")])) == 2


@scorer(metrics=[mean()])
def points() -> Any:
    async def score(state: Any, target: Any) -> Score:
        return Score(value=7)

    return score


@pytest.mark.parametrize(
    ("task", "said"),
    [({"scorer": points()}, "give 7"), ({"dataset": [Sample(input="", id=3)]}, "prompt is empty")],
)
def test_a_sample_that_cannot_be_read_is_named(tmp_path: Path, task: dict[str, Any], said: str) -> None:
    log = run(generate(), Model(calls=False), tmp_path, task=task)
    with pytest.raises(ConfigurationError, match=rf"\.eval, sample 3: .*{said}"):
        read_transcripts([log.location])


def test_a_damaged_log_is_an_error_that_names_it(tmp_path: Path) -> None:
    log = run(chain(generate()), Model(calls=False), tmp_path)
    half = Path(log.location).read_bytes()[:200]
    (tmp_path / "half.eval").write_bytes(half)
    with pytest.raises(ConfigurationError, match=r"half\.eval: Inspect can't read the log"):
        read_transcripts([str(tmp_path / "half.eval")])


def test_a_task_is_tried_again_with_a_lesson(tmp_path: Path) -> None:
    model = Model()
    log = run(reflexive(loop()), model, tmp_path)
    assert log.status == "success"
    [done] = log.samples
    assert done.scores["match"].value == "C"
    assert done.output.completion == "40"
    assert done.store["reflexion:attempts"] == 2
    assert done.store["reflexion:stop_reason"] == "passed"
    assert [LESSON in system for system, _ in model.shown] == [False, False, True, True]
    assert all(OWN in system for system, _ in model.shown)
    assert all(system.count(LESSON) <= 1 and LESSON not in rest for system, rest in model.shown)
    assert "41" not in "\n".join(rest for _, rest in model.shown), (
        "an attempt knows nothing of the one before"
    )


def test_an_agent_of_inspect_is_a_base(tmp_path: Path) -> None:
    model = Model()
    log = run(reflexive(loop(react(prompt=OWN, tools=[look()]))), model, tmp_path)
    [done] = log.samples
    assert done.scores["match"].value == "C"
    assert [LESSON in system and OWN in system for system, _ in model.shown] == [False, False, True, True]


def test_steps_and_usage_come_from_the_transcript(tmp_path: Path) -> None:
    kept = []

    def keep(task: Task, attempt: Any) -> float:
        kept.append(attempt)
        return 1.0

    run(reflexive(loop(evaluator=keep)), Model(), tmp_path)
    [attempt] = kept
    [step] = attempt.steps
    assert (step.thought, step.observation, step.failed) == ("I look.", "row 3 holds 40", False)
    assert step.action == 'look {"x":3}'
    assert (attempt.usage.calls, attempt.usage.tokens, attempt.usage.unreported) == (2, 30, 0)


def test_a_tool_that_fails_is_a_failed_step(tmp_path: Path) -> None:
    kept = []
    run(reflexive(loop(evaluator=lambda task, attempt: kept.append(attempt) or 1.0)), Model(row=9), tmp_path)
    [step] = kept[0].steps
    assert step.failed
    assert step.observation == "there is no row 9"


def test_samples_at_once_keep_their_own_lessons(tmp_path: Path) -> None:
    model = Model(calls=False)

    def reflect(task: Task, trials: Any) -> str:
        return f"{LESSON[:-1]}, when asked: {task.prompt}"

    plan = reflexive(loop(chain(system_message(OWN), generate()), reflector=reflect))
    samples = {"dataset": [sample(number) for number in range(8)]}
    log = run(plan, model, tmp_path, task=samples, max_samples=8)
    assert len(log.samples) == 8
    for system, rest in model.shown:
        assert system.count("when asked") <= 1
        assert "when asked" not in system or rest in system


def test_the_target_reaches_no_reflector(tmp_path: Path) -> None:
    seen = []

    def reflect(task: Task, trials: Any) -> str:
        seen.append((task.reference, trials[-1].evaluation.rationale))
        return LESSON

    run(reflexive(loop(reflector=reflect)), Model(), tmp_path)
    assert seen == [(None, "")]


def test_without_learning_nothing_is_added(tmp_path: Path) -> None:
    model = Model()
    run(reflexive(loop(max_attempts=2, options=LoopOptions(learn=False))), model, tmp_path)
    assert {system for system, _ in model.shown} == {OWN}


def test_a_limit_of_inspect_ends_the_sample_and_is_scored(tmp_path: Path) -> None:
    model = Model()
    log = run(reflexive(loop(max_attempts=5)), model, tmp_path, token_limit=40)
    [done] = log.samples
    assert done.limit.type == "token"
    assert len(model.shown) == 3
    assert "match" in done.scores


def test_a_time_limit_cancels_the_tool_at_work(tmp_path: Path) -> None:
    stopped = []

    @tool
    def look() -> Any:
        async def execute(x: int) -> str:
            """Never return.

            Args:
                x: the row
            """
            try:
                await anyio.sleep_forever()
            finally:
                stopped.append(x)

        return execute

    model = Model()
    log = run(reflexive(loop(chain(use_tools(look()), generate()))), model, tmp_path, time_limit=1)
    assert log.samples[0].limit.type == "time"
    assert stopped == [3]
    assert len(model.shown) == 1


def test_every_attempt_failed_is_an_error_of_the_sample(tmp_path: Path) -> None:
    log = run(reflexive(loop(max_attempts=2)), Model(error="content filter"), tmp_path)
    assert log.status == "error"
    assert "content filter" in log.error.message


def test_a_store_of_the_sample_is_that_of_the_best_attempt(tmp_path: Path) -> None:
    found = []

    @solver
    def count() -> Solver:
        async def solve(state: Any, generate: Any) -> Any:
            found.append(store().get("tries", 0))
            store().set("tries", 1)
            return await generate(state)

        return solve

    log = run(reflexive(loop(count(), max_attempts=2)), Model(calls=False), tmp_path)
    assert found == [0, 0]
    assert log.samples[0].store["tries"] == 1


def test_a_base_that_is_none_of_inspects(tmp_path: Path) -> None:
    async def clerk(prompt: str) -> str:
        return "40" if LESSON in prompt else "41"

    plan = reflexive(Reflexion(clerk, evaluator=task_scorers, reflector=lambda task, trials: LESSON))
    log = run(plan, Model(), tmp_path)
    [done] = log.samples
    assert done.scores["match"].value == "C"
    assert done.messages[-1].text == "40"


def test_a_conversation_as_input(tmp_path: Path) -> None:
    talk = Sample(input=[ChatMessageUser(content="Hello."), ChatMessageUser(content="Row 3?")], target="40")
    model = Model()
    log = run(reflexive(loop()), model, tmp_path, task={"dataset": [talk]})
    assert log.samples[0].scores["match"].value == "C"
    assert all("Hello." in rest and "Row 3?" in rest for _, rest in model.shown)


def test_inspects_model_reflects(tmp_path: Path) -> None:
    def answer(messages: list[Any], tools: Any, choice: Any, config: Any) -> ModelOutput:
        asked = messages[-1].text == "What is in row 3?"
        known = any(LESSON in message.text for message in messages)
        output = ModelOutput.from_content("mockllm", ("40" if known else "41") if asked else LESSON)
        output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return output

    plan = reflexive(Reflexion(SampleAgent(), model=InspectModel(), evaluator=task_scorers))
    log = run(plan, answer, tmp_path)  # type: ignore[arg-type]
    [done] = log.samples
    assert done.scores["match"].value == "C"
    assert sum(used.total_tokens for used in done.model_usage.values()) == 45


@pytest.mark.parametrize(
    ("verdict", "value"),
    [
        (1.0, 1.0),
        (Evaluation(None, passed=False), 0.0),
        (Evaluation(0.25, rationale="one of four"), 0.25),
        (True, 1.0),
    ],
)
def test_an_evaluator_of_ours_scores(verdict: Any, value: float, tmp_path: Path) -> None:
    seen = []

    def judge(task: Task, attempt: Any) -> Any:
        seen.append((task.prompt, task.reference, attempt.output))
        return verdict

    log = run(generate(), Model(calls=False), tmp_path, task={"scorer": evaluated(judge)})
    assert seen == [("What is in row 3?", "40", "41")]
    assert log.samples[0].scores["evaluated"].value == value


def test_what_cant_be_scored_is_no_zero(tmp_path: Path) -> None:
    log = run(generate(), Model(calls=False), tmp_path, task={"scorer": evaluated(lambda output: None)})
    [done] = log.samples
    assert done.scores["evaluated"].value != 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("C", 1.0),
        ("P", 0.5),
        ("N", 0.0),
        (True, 1.0),
        ("0.4", 0.4),
        ({"a": 1, "b": 0}, 0.5),
        ("perhaps", None),
    ],
)
def test_a_value_of_a_scorer_is_a_share_or_unknown(
    value: Any, expected: float | None, tmp_path: Path
) -> None:
    @scorer(metrics=[mean()])
    def says() -> Any:
        async def score(state: Any, target: Any) -> Score:
            return Score(value=value)

        return score

    seen = []

    async def judge(task: Task, attempt: Any) -> Evaluation:
        seen.append(await task_scorers(task, attempt))
        return Evaluation(1.0)

    run(reflexive(loop(evaluator=judge)), Model(calls=False), tmp_path, task={"scorer": says()})
    assert [verdict.score for verdict in seen] == [expected]


@pytest.mark.anyio
async def test_outside_of_a_sample_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(ConfigurationError, match="solver=reflexive"):
        await SampleAgent()(Task("What is in row 3?"), Session())
