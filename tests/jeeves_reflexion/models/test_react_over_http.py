"""A whole ReAct run, and a whole attempt with lessons, against a server that speaks the protocol."""

from __future__ import annotations

import json

import pytest

from jeeves_reflexion.agents import ReAct
from jeeves_reflexion.models import OpenAIModel, Prices, Retry
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import Task

pytestmark = pytest.mark.anyio

STOCK = {"apples": 7, "pears": 5}


def count(item: str) -> int:
    """Count what is in stock.

    Args:
        item: what to count, in the plural
    """
    return STOCK[item]


def wants_both(endpoint, canned, completed):
    """A model that counts apples and pears in one turn, and then adds them up from what the tools said."""

    def respond(request):
        told = [message for message in request["messages"] if message["role"] == "tool"]
        if not told:
            calls = [
                {
                    "id": f"c{n}",
                    "type": "function",
                    "function": {"name": "count", "arguments": json.dumps({"item": i})},
                }
                for n, i in enumerate(STOCK)
            ]
            return canned(completed("Count first.", tool_calls=calls, finish_reason="tool_calls"))
        assert [message["tool_call_id"] for message in told] == ["c0", "c1"]
        return canned(completed(str(sum(int(message["content"]) for message in told))))

    endpoint.respond = respond


async def run(endpoint):
    session = Session().for_attempt(1, {"reflexion_lessons": "- count before you answer"})
    model = OpenAIModel("m", base_url=endpoint.url, prices=Prices(1.0, 1.0), retry=Retry(1, 0.001, 0.1))
    async with model:
        agent = ReAct(model, [count])
        with session.acting_as("agent"):
            return await agent(Task("How many pieces of fruit are there?"), session), session


async def test_native_tools(endpoint, canned, completed):
    wants_both(endpoint, canned, completed)
    attempt, session = await run(endpoint)
    assert attempt.output == "12"
    assert [(step.thought, step.action, step.observation) for step in attempt.steps] == [
        ("Count first.", 'count {"item": "apples"}', "7"),
        ("", 'count {"item": "pears"}', "5"),
    ]
    assert attempt.usage == session.spend.of("agent")
    assert attempt.usage.calls == 2
    assert "count before you answer" in endpoint.requests[0]["messages"][0]["content"]


async def test_a_server_without_tools_gets_the_text_form(endpoint, canned, completed):
    def respond(request):
        if "tools" in request:
            return canned({"error": {"message": "m does not support tools"}}, 400)
        seen = [m["content"] for m in request["messages"] if m["content"].startswith("Observation:")]
        if not seen:
            return canned(completed("Thought: count them\nAction: count[apples]\nObservation: 99"))
        return canned(completed("Thought: enough\nAction: Finish[7]"))

    endpoint.respond = respond
    attempt, _ = await run(endpoint)
    assert attempt.output == "7"
    assert [step.action for step in attempt.steps] == ["count[apples]", "Finish[7]"]
    assert attempt.steps[0].observation == "7"
    assert ["tools" in request for request in endpoint.requests] == [True, False, False]
    assert not any("99" in message["content"] for message in endpoint.requests[-1]["messages"])
