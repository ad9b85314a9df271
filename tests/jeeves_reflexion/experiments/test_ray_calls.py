"""What the calls of a try cost that is begun in more than one process."""

import pytest

from jeeves_reflexion import Message, ScriptedModel, Usage
from jeeves_reflexion.experiments.executors import RunBudget
from jeeves_reflexion.experiments.journal import Position
from jeeves_reflexion.experiments.ray.calls import Calls
from jeeves_reflexion.experiments.ray.messages import Asked
from jeeves_reflexion.protocols import Completion
from jeeves_reflexion.types import NO_USAGE

pytestmark = pytest.mark.anyio

OWN = Usage(2, 50, 5, 0.5)
"""What an agent's own client used, before it asked the experiment's model."""

PAID = Usage(1, 10, 1, 0.1)


def asked(spent):
    return Asked(1, "mine", [Message("user", "where?")], (), None, None, spent)


async def test_an_answer_is_paid_for_once_and_an_agents_own_client_each_time():
    model, budget = ScriptedModel([Completion("there", usage=PAID)]), RunBudget(None, NO_USAGE)
    calls = Calls(Position("retry", 0, "learning", "room", 1), {"mine": model}, budget)
    for turn in (1, 2):
        calls.begin()
        reply = await calls.answer(asked(OWN))
        assert reply.answer.text == "there"
        calls.settle(OWN + PAID)
        assert budget.spent.calls == 2 * turn + 1
        assert budget.spent.cost_usd == pytest.approx(0.5 * turn + 0.1)
    assert len(model.calls) == 1
