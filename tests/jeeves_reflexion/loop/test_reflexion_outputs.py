"""What an agent may return besides a text, models by their names, and what a person is shown of a run."""

from __future__ import annotations

import dataclasses

import pydantic
import pytest
from tables import table

from jeeves_reflexion import (
    Attempt,
    ConfigurationError,
    OpenAIModel,
    Refinement,
    Reflexion,
    Revision,
    RunResult,
    ScriptedModel,
    Session,
    Task,
    as_evaluator,
)
from jeeves_reflexion.experiments.journal import rebuilt, trial_json
from jeeves_reflexion.types import Trial


class City(pydantic.BaseModel):
    name: str
    people: int


@dataclasses.dataclass
class Point:
    x: int
    y: float


pytestmark = pytest.mark.anyio

VALUES = [City(name="Ulm", people=3), Point(1, 2.5), {"a": [1, None]}, ["x", 2], 7, 2.5, True]
JSONS = ['{"name":"Ulm","people":3}', '{"x":1,"y":2.5}', '{"a":[1,null]}', '["x",2]', "7", "2.5", "true"]


def lesson(task: Task, trials: object) -> str:
    return "Count again before answering."


@table(("value", "text"), list(zip(VALUES, JSONS, strict=True)))
async def test_an_output_that_is_no_text_is_judged_as_json_and_returned_as_it_is(value: object, text: str):
    judge = ScriptedModel(["score: 0.9"])
    result = await Reflexion(lambda prompt: value, evaluator=judge, reflector=lesson).run("Which?")
    assert result.output == value
    assert type(result.output) is type(value)
    assert result.text == result.trials[0].attempt.output == text
    assert text in judge.calls[0].messages[1].content


async def test_a_function_that_judges_the_output_gets_the_object():
    seen = []

    def judge(output: City) -> bool:
        seen.append(output)
        return output.people > 2

    agent = lambda prompt: City(name="Ulm", people=3)  # noqa: E731 - it is one
    result: RunResult[City] = await Reflexion[City](agent, evaluator=judge, reflector=lesson).run("Which?")
    assert seen == [City(name="Ulm", people=3)]
    assert isinstance(result.output, City)


async def test_a_text_and_an_attempt_stay_what_they_were():
    for made in ("Ulm", Attempt("Ulm")):
        result = await Reflexion(
            lambda prompt, made=made: made, evaluator=lambda output: 1.0, reflector=lesson
        ).run("x")
        assert (result.output, result.text, result.trials[0].attempt.value) == ("Ulm", "Ulm", None)


async def test_a_run_whose_agent_raises_has_a_text_as_output():
    def agent(prompt: str) -> City:
        raise RuntimeError("no network")

    result = await Reflexion[City](agent, evaluator=lambda output: 0.0, reflector=lesson, max_attempts=1).run(
        "x"
    )
    assert result.output == ""


async def test_a_revised_output_is_a_text_and_the_first_draft_keeps_its_object():
    async def reviser(task: Task, request: object) -> Revision:
        return Revision("Ulm, revised", "full_rewrite")

    for verdicts, expected in ([0.1, 0.9], "Ulm, revised"), ([0.9], City(name="Ulm", people=3)):
        scores = iter(verdicts)
        loop = Refinement(
            Reflexion(lambda prompt: City(name="Ulm", people=3), evaluator=lambda o: 1.0, reflector=lesson),
            evaluator=as_evaluator(lambda output, scores=scores: next(scores)),
            reviser=reviser,
        )
        attempt = await loop(Task("Which?"), Session())
        assert (attempt.output if attempt.value is None else attempt.value) == expected


async def test_a_log_keeps_the_text_alone_and_is_read_back():
    result = await Reflexion(lambda prompt: Point(1, 2.5), evaluator=lambda o: 1.0, reflector=lesson).run("x")
    kept = trial_json(result.trials[0])
    assert "value" not in kept["attempt"]
    assert rebuilt(Trial, kept).attempt == dataclasses.replace(result.trials[0].attempt, value=None)


def test_a_model_may_be_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-test")
    loop = Reflexion(
        model="openai:gpt-4o-mini", evaluator="openai:gpt-4o", reflector="llama3:8b", max_attempts=1
    )
    models = [loop.agent.model, loop.evaluator.model, loop.reflector.model]
    assert all(isinstance(model, OpenAIModel) for model in models)
    assert [model.name for model in models] == ["gpt-4o-mini", "gpt-4o", "llama3:8b"]
    with pytest.raises(ConfigurationError, match="has no name"):
        Reflexion(model="openai:")


SCRIPT = ["an \x1b[31manswer", "score: 0.1", "Look left.", "a better answer", "score: 0.9"]


async def test_printing_a_result_shows_its_end_answer_and_lessons():
    result = await Reflexion(model=ScriptedModel(SCRIPT)).run("find the key")
    first, *rest = str(result).split("\n")
    assert first.startswith("passed (2 attempts, best score 0.90, ")
    assert rest == ["answer: a better answer", "learned: Look left."]
    head, one, two = result.summary().split("\n")
    assert head.split() == ["attempt", "score", "verdict", "recalled", "tokens", "seconds", "learned"]
    assert one.split()[:4] == ["1", "0.10", "not", "passed"]
    assert one.endswith("Look left.")
    assert two.split()[:3] == ["2", "0.90", "passed"]


async def test_what_was_not_reported_is_not_shown_as_a_sum():
    result = await Reflexion(
        lambda prompt: "x", evaluator=lambda output: 0.0, reflector=lesson, max_attempts=1
    ).run("x")
    assert "tokens unknown" in str(result)
    assert result.summary().split("\n")[1].split()[5] == "unknown"


def test_verbose_counts_no_tokens_where_no_model_was_asked(capsys: pytest.CaptureFixture[str]):
    Reflexion(lambda prompt: "x", evaluator=lambda output: 1.0, reflector=lesson, verbose=True).run_sync("x")
    assert "token" not in capsys.readouterr().err


async def test_verbose_shows_a_trace_that_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]):
    seen: list[str] = []
    loop = Reflexion(model=ScriptedModel(SCRIPT), verbose=True)
    await loop.run("find the key", session=loop.session(listener=lambda event: seen.append(event.kind)))
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    assert [line.strip() for line in err.splitlines()][:6] == [
        "attempt 1 of 3",
        "answer: an answer",
        "score 0.10: not passed",
        "learned: Look left.",
        "attempt 2 of 3",
        "answer: a better answer",
    ]
    assert "reflexion.attempt_finished" in seen
