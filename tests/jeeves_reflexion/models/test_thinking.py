"""What a model thinks aloud reaches no answer, draft or output, whoever asks the model."""

from __future__ import annotations

import pytest
from tables import table

from jeeves_reflexion import (
    Draft,
    Evaluation,
    ModelReviser,
    ReAct,
    RevisionRequest,
    ScriptedModel,
    Session,
    Task,
    as_agent,
)
from jeeves_reflexion.revisers import AgentReviser
from jeeves_reflexion.workflows import Tools, reflection_loop

pytestmark = pytest.mark.anyio

THINKING = '<think>\nMaybe {"name": "draft"}. No.\n</think>\n\n'
TASK = Task("Say a name.")


async def test_it_is_no_part_of_an_agents_answer():
    model = ScriptedModel([f"{THINKING}Ada"])
    assert (await ReAct(model)(TASK, Session())).output == "Ada"


async def test_it_is_no_part_of_what_a_workflow_generates():
    model = ScriptedModel([f'{THINKING}{{"name": "Ada"}}'])
    ran = await reflection_loop(
        {},
        generator={"action": "llm.call", "prompt": "A name"},
        evaluator={"type": "schema", "schema": {"type": "object", "required": ["name"]}},
        tools=Tools(model=model),
    )
    assert (ran["valid"], ran["name"]) == (True, "Ada")


async def test_thinking_that_was_never_closed_is_no_output():
    model = ScriptedModel(lambda messages: '<think>\n{"name": "draft"}')
    ran = await reflection_loop(
        {},
        generator={"action": "llm.call", "prompt": "A name"},
        evaluator={"type": "schema", "schema": {"type": "object", "required": ["name"]}},
        tools=Tools(model=model),
    )
    assert ran["valid"] is False
    assert "draft" not in str(ran["reflection_output"])


@table("of_a_model", [True, False])
async def test_it_is_no_part_of_a_draft(of_a_model):
    verdict = Evaluation(0.2, issues=("no last name",))
    said = f"{THINKING}Ada Lovelace"
    reviser = (
        ModelReviser(ScriptedModel([said]), strategy="full_rewrite")
        if of_a_model
        else AgentReviser(as_agent(lambda prompt: said))
    )
    revision = await reviser(TASK, RevisionRequest(Draft(1, "Ada", verdict), verdict))
    assert revision.output == "Ada Lovelace"
