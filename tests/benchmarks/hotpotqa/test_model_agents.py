"""Models as agents, with scripted ones."""

import pytest

from benchmarks.hotpotqa.model_agents import MAX_CONTEXT, CotAgent, ReActAgent, ShortContext
from benchmarks.hotpotqa.pages import own_pages
from benchmarks.hotpotqa.questions import paragraphs_of
from benchmarks.hotpotqa.scorer import SelfJudge, f1_of
from jeeves_reflexion import Attempt, Judge, ScriptedModel, Session, Task

pytestmark = pytest.mark.anyio
SEARCH = "Thought: t\nAction: Search[The Larkspur]"


async def test_react_answers_with_the_pages_of_its_question(questions):
    model = ScriptedModel([SEARCH, "Thought: t\nAction: Finish[1961]"])
    agent = ReActAgent(model, own_pages(paragraphs_of(questions)))
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
    attempt = await ReActAgent(model, own_pages(paragraphs_of(questions)))(questions[0].task, Session())
    assert (len(attempt.steps), attempt.interrupted) == (6, "max_turns")
    assert f1_of(attempt, attempt.output) == f1_of(Attempt("1961", error="E"), "1961") == 0.0


async def test_a_model_with_tools_of_its_own_plays_in_the_form_of_the_examples(questions):
    """Else it would be shown ``Action: Finish[1961]`` and be judged by these very words."""
    model = ScriptedModel([SEARCH, "Thought: t\nAction: Finish[1961]"], supports_tools=True)
    attempt = await ReActAgent(model, own_pages(paragraphs_of(questions)))(questions[0].task, Session())
    assert (attempt.output, len(attempt.steps)) == ("1961", 2)
    assert not any(call.tools for call in model.calls)


@pytest.mark.parametrize("limit", [10, 1400])
async def test_a_prompt_that_grows_too_long_ends_the_attempt(questions, limit):
    model = ScriptedModel(["Thought: " + "t " * 4000 + "\nAction: Search[The Larkspur]", SEARCH])
    agent = ReActAgent(model, own_pages(paragraphs_of(questions)), context_limit=limit)
    attempt = await agent(questions[0].task, Session())
    assert (attempt.interrupted, attempt.error) == (MAX_CONTEXT, None)
    assert len(model.calls) == (limit > 10)


async def test_chain_of_thought_with_and_without_paragraphs(questions):
    paragraphs = paragraphs_of(questions, supporting=True)
    for given in (None, paragraphs):
        model = ScriptedModel(["Thought: she was born then.\nAction: Finish[1961]"])
        attempt = await CotAgent(model, given)(questions[0].task.public(), Session())
        assert attempt.output == "1961"
        assert attempt.steps[0].thought == "she was born then."
        asked = model.calls[0].messages[1].content
        assert ("Odile Marchetti (born 3 March 1961)" in asked) is (given is not None)
        assert "Tamsin is a town" not in asked  # no supporting paragraph


async def test_a_reply_without_an_answer_is_an_attempt_without_one(questions):
    attempt = await CotAgent(ScriptedModel(["I don't know."]))(questions[0].task, Session())
    assert attempt.output == ""
    assert attempt.steps[0].failed
    full = await CotAgent(ScriptedModel([]), context_limit=5)(questions[0].task, Session())
    assert full.interrupted == MAX_CONTEXT


async def test_a_short_context_is_the_model_behind_it():
    model = ShortContext(ScriptedModel(["x"], name="m", supports_tools=True), 5)
    assert (model.name, model.supports_tools) == ("m", True)


async def test_a_self_judge_reads_no_gold():
    model = ScriptedModel(["score: 1\nreason: fine"])
    verdict = await SelfJudge(Judge(model))(Task("Who?", reference="Ada Lovelace"), Attempt("Bo"))
    assert verdict.score == 1.0
    assert not any("Lovelace" in message.content for message in model.calls[0].messages)
