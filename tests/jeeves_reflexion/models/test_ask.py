"""ask(): the one place where the framework calls a model, and where budgets are kept."""

from __future__ import annotations

import pytest
from tables import table

from jeeves_reflexion.errors import BudgetExceededError, ModelTimeoutError
from jeeves_reflexion.events import ModelCalled
from jeeves_reflexion.models import ScriptedModel
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.session import Budget, Session, Spend
from jeeves_reflexion.types import Usage

pytestmark = pytest.mark.anyio

HELLO = [Message("user", "hello")]
COSTLY = Completion("x", usage=Usage(calls=1, input_tokens=60, output_tokens=50, cost_usd=0.02))


async def test_outside_of_a_run_it_only_asks():
    model = ScriptedModel(["hi"])
    tools, sampling = [ToolSpec("t", "", {})], Sampling(seed=1)
    assert (await ask(model, HELLO, tools=tools, schema={"type": "object"}, sampling=sampling)).text == "hi"
    call = model.calls[0]
    assert (call.messages, call.tools) == (tuple(HELLO), tuple(tools))
    assert (call.schema, call.sampling) == ({"type": "object"}, sampling)


async def test_within_a_run_the_call_is_charged_to_its_role_and_told():
    events = []
    session = Session(listener=events.append).for_attempt(2, {})
    with session.acting_as("reflector"):
        await ask(ScriptedModel([COSTLY]), HELLO)
    assert session.spend.of("reflector") == COSTLY.usage
    assert session.spend.of("agent") == Usage()
    (event,) = events
    assert isinstance(event, ModelCalled)
    assert (event.run_id, event.attempt, event.role, event.model) == (session.id, 2, "reflector", "scripted")
    assert event.usage == COSTLY.usage


@table(("budget", "limit"), [(Budget(max_tokens=100), "tokens"), (Budget(max_cost_usd=0.01), "cost")])
async def test_a_used_up_budget_stops_the_next_call_before_it_is_made(budget, limit):
    model = ScriptedModel([COSTLY, COSTLY])
    with Session(spend=Spend(budget)).acting_as("agent"):
        await ask(model, HELLO)
        with pytest.raises(BudgetExceededError) as caught:
            await ask(model, HELLO)
    assert caught.value.limit == limit
    assert len(model.calls) == 1


async def test_a_failed_call_is_not_charged():
    session = Session()
    with session.acting_as("agent"), pytest.raises(ModelTimeoutError):
        await ask(ScriptedModel([ModelTimeoutError("too late")]), HELLO)
    assert session.spend.total == Usage()
