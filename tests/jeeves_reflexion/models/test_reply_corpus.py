"""Replies as models give them, read through the public classes that ask for them."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
from tables import table

from jeeves_reflexion import (
    Attempt,
    CriteriaEvaluator,
    Judge,
    ReAct,
    Reflexion,
    ScriptedModel,
    Session,
    StructuredReflector,
    Task,
)
from jeeves_reflexion.errors import UnreadableReplyError
from jeeves_reflexion.models.thoughts import spoken
from jeeves_reflexion.reflections.forms import cause_of
from jeeves_reflexion.tasknotes import LlmReflectionStrategy, ReflectionInput
from jeeves_reflexion.types import Evaluation, Trial
from jeeves_reflexion.workflows import Tools, reflection_evaluate

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"  # reading is the same on each


OWN = Path(__file__).with_name("replies.jsonl")
SHARED = Path(__file__).parents[4] / "shared" / "data" / "replies"
LINES = [
    json.loads(line)
    for path in (OWN, *sorted(SHARED.glob("*.jsonl")))
    for line in path.read_text(encoding="utf-8").splitlines()
]
CRITERIA = [line for line in LINES if line["reader"] == "criteria"]
TASK = Task("Do what the candidate was asked for.")
UNREADABLE = {"unreadable": True}


async def judge(line):
    read = await Judge(says(line))(TASK, Attempt(line.get("candidate") or "the output"))
    return UNREADABLE if read.score is None else {"score": pytest.approx(read.score, abs=1e-6)}


async def lesson(line):
    task = Task(line.get("task") or "put a clean mug on the desk")
    loop = Reflexion(
        lambda prompt: "an answer", evaluator=lambda output: 0.0, reflector=says(line), max_attempts=1
    )
    reflection = (await loop.run(task)).trials[0].reflection
    return {"refused": True} if reflection is None else {"lesson": reflection.lesson}


async def criteria(line, *, structured=True):
    names = line.get("criteria") or list(line["expect"]["scores"])
    evaluator = CriteriaEvaluator(names, model=says(line), together=True, structured=structured)
    read = await evaluator(TASK, Attempt(line.get("candidate") or "the output"))
    if read.score is None:
        return UNREADABLE
    return {"scores": {name: pytest.approx(score, abs=1e-6) for name, score in read.criteria_scores.items()}}


async def valid(line):
    try:
        candidate = json.loads(line.get("candidate") or '"the output"')
    except ValueError:
        candidate = line["candidate"]
    evaluator = {"type": "llm", "prompt": "Is {{ state.reflection_output }} right?"}
    ran = await reflection_evaluate({}, evaluator=evaluator, data=candidate, tools=Tools(model=says(line)))
    return {"valid": ran["valid"]} if ran["success"] else UNREADABLE


async def json_value(line):
    """What a schema judges: the object or array that the text holds."""
    evaluator = {"type": "schema", "schema": line.get("schema") or {"type": ["object", "array"]}}
    ran = await reflection_evaluate({}, evaluator=evaluator, data=spoken(line["reply"]))
    return (
        {"value": ran["reflection_output"]}
        if isinstance(ran["reflection_output"], dict | list)
        else UNREADABLE
    )


async def notes(line):
    given = ReflectionInput(Task("the task", expected_output="the form"), "the output")
    read = await LlmReflectionStrategy(says(line)).reflect(given)
    if not read.complete:
        return UNREADABLE
    fields = {name: getattr(read, name) for name in line["expect"] if name != "unreadable"}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


async def form(line):
    score = {"failed": 0.0, "partial": 0.6, "success": 1.0}[line.get("outcome", "failed")]
    trial = Trial(1, Attempt("the output"), Evaluation(score), passed=score == 1.0)
    try:
        read = await StructuredReflector(says(line))(TASK, [trial])
    except UnreadableReplyError:
        return UNREADABLE
    wanted = line["expect"].get("fields", {})
    fields = dict(read.fields)
    if "cause" in wanted:
        _, _, why = fields["why"].partition(":")
        fields |= {
            "cause": cause_of(fields["why"]),
            "why": why.strip() or fields["why"],
        }
    return {"fields": {name: fields.get(name) for name in wanted}}


async def react(line):
    wanted = line["expect"]
    given = wanted.get("input") if isinstance(wanted.get("input"), dict) else {"argument": ""}
    calls = []

    def tool(name, parameters):
        def called(**arguments):
            calls.append((name, arguments))
            return "nothing was found"

        called.__name__ = name
        called.__signature__ = inspect.Signature(
            [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, annotation=str) for each in parameters]
        )
        called.__annotations__ = dict.fromkeys(parameters, str)
        return called

    names = {wanted.get("action", "search"), "search", "send", "calculate"}
    tools = [tool(name, given if name == wanted.get("action") else ["argument"]) for name in sorted(names)]
    attempt = await ReAct(says(line), tools, max_turns=1)(TASK, Session())
    if calls:
        name, arguments = calls[0]
        return {
            "action": name,
            "input": arguments if isinstance(wanted.get("input"), dict) else arguments["argument"],
        }
    return {"finish": attempt.output} if attempt.interrupted is None else UNREADABLE


def says(line):
    return ScriptedModel(lambda messages: line["reply"])


READERS = {
    "judge": judge,
    "lesson": lesson,
    "criteria": criteria,
    "valid": valid,
    "notes": notes,
    "form": form,
    "react": react,
    "json": json_value,
}


def same_lesson(text):
    return " ".join(text.split()).removesuffix(".").removesuffix("\u3002")


@table("line", LINES)
async def test_a_reply_is_read_as_it_is_meant(line):
    read = await READERS[line["reader"]](line)
    if "lesson" in read and "lesson" in line["expect"]:
        assert same_lesson(read["lesson"]) == same_lesson(line["expect"]["lesson"])
    elif set(line["expect"]) > {"unreadable"}:
        assert line["expect"] in (read, {**read, "unreadable": True}) or read == UNREADABLE
    elif line.get("own_verdict"):
        assert read in (line["expect"], UNREADABLE)
    else:
        assert read == line["expect"]


@table("line", CRITERIA)
async def test_criteria_are_read_the_same_whatever_form_was_asked_for(line):
    assert await criteria(line, structured=False) == await criteria(line)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder ../shared/data/replies is absent")
def test_the_shared_replies_are_among_them():
    assert sum(line["id"].startswith("dev-") for line in LINES) >= 135
