"""A model as the agent, with a scripted one."""

import pytest

from benchmarks.hotpotqa.agent import MAX_CONTEXT, ReActAgent
from benchmarks.hotpotqa.questions import paragraphs_of
from benchmarks.hotpotqa.scorer import SelfJudge, f1_of
from jeeves_reflexion import Attempt, Judge, ScriptedModel, Session, Task

pytestmark = pytest.mark.anyio
SEARCH = "Thought: t\nAction: Search[The Larkspur]"


async def test_react_answers_with_the_pages_of_its_question(questions):
    model = ScriptedModel([SEARCH, "Thought: t\nAction: Finish[1961]"])
    agent = ReActAgent(model, paragraphs_of(questions))
    session = Session().for_attempt(1, {"reflexion_lessons": "- Answer with a year."})
    attempt = await agent(questions[0].task.public(), session)
    assert attempt.output == "1961"
    assert attempt.steps[0].observation.startswith("The Larkspur is a restaurant")
    system = model.calls[0].messages[0].content
    assert "Answer with a year." in system
    assert "Search" in system
    assert not any("1961" in message.content for message in model.calls[0].messages)


async def test_react_has_six_steps_and_an_attempt_without_an_answer_is_worth_nothing(questions):
    model = ScriptedModel([SEARCH] * 6)
    attempt = await ReActAgent(model, paragraphs_of(questions))(questions[0].task, Session())
    assert (len(attempt.steps), attempt.interrupted) == (6, "max_turns")
    assert f1_of(attempt, attempt.output) == f1_of(Attempt("1961", error="E"), "1961") == 0.0


async def test_a_model_with_tools_of_its_own_plays_in_the_form_of_the_examples(questions):
    """Else it would be shown ``Action: Finish[1961]`` and be judged by these very words."""
    model = ScriptedModel([SEARCH, "Thought: t\nAction: Finish[1961]"], supports_tools=True)
    attempt = await ReActAgent(model, paragraphs_of(questions))(questions[0].task, Session())
    assert (attempt.output, len(attempt.steps)) == ("1961", 2)
    assert not any(call.tools for call in model.calls)


@pytest.mark.parametrize("limit", [10, 1400])
async def test_a_prompt_that_grows_too_long_ends_the_attempt(questions, limit):
    model = ScriptedModel(["Thought: " + "t " * 4000 + "\nAction: Search[The Larkspur]", SEARCH])
    agent = ReActAgent(model, paragraphs_of(questions), context_limit=limit)
    attempt = await agent(questions[0].task, Session())
    assert (attempt.interrupted, attempt.error) == (MAX_CONTEXT, None)
    assert len(model.calls) == (limit > 10)


async def test_a_self_judge_reads_no_gold():
    model = ScriptedModel(["score: 1\nreason: fine"])
    verdict = await SelfJudge(Judge(model))(Task("Who?", reference="Ada Lovelace"), Attempt("Bo"))
    assert verdict.score == 1.0
    assert not any("Lovelace" in message.content for message in model.calls[0].messages)
