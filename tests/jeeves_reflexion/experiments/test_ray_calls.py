"""What the answers to a try cost that is begun in more than one process."""

import pytest

pytest.importorskip("ray")

from jeeves_reflexion import Attempt, Evaluation, Message, ScriptedModel, Trial, Usage
from jeeves_reflexion.experiments.executors import RunBudget
from jeeves_reflexion.experiments.journal import Entry
from jeeves_reflexion.experiments.ray.executor import Answers
from jeeves_reflexion.experiments.ray.worker import Asked, Finished
from jeeves_reflexion.protocols import Completion
from jeeves_reflexion.types import NO_USAGE

pytestmark = pytest.mark.anyio

OWN = Usage(2, 50, 5, 0.5)
"""What an agent's own client used."""

PAID = Usage(1, 10, 1, 0.1)


async def test_an_answer_is_paid_for_once_and_an_agents_own_client_is_charged():
    model, budget = ScriptedModel([Completion("there", usage=PAID)]), RunBudget(None, NO_USAGE)
    answers = Answers("room", {"mine": model}, budget)
    for _ in range(2):
        answers.begin()
        reply = await answers.reply(Asked(1, "mine", [Message("user", "where?")], (), None, None))
        assert reply.answer.text == "there"
        assert budget.spent.cost_usd == pytest.approx(0.1)
    entry = Entry(Trial(1, Attempt("x"), Evaluation(1.0), usage={"agent": OWN + PAID}))
    answers.settled(entry, Finished(entry.as_json()))
    assert (budget.spent.calls, budget.spent.cost_usd) == (3, pytest.approx(0.6))
    assert len(model.calls) == 1
