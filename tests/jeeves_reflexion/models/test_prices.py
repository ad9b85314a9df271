"""What calls cost, and a budget in dollars that is not passed."""

from __future__ import annotations

import json
from dataclasses import replace

import anyio
import pytest
from tables import table

from jeeves_reflexion import Budget, Judge, LoopOptions, ModelReviser, ReAct, Refinement, Reflexion, Session
from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError
from jeeves_reflexion.models import (
    AnthropicModel,
    OpenAIModel,
    OpenAIOptions,
    Prices,
    RecordedModel,
    read_prices,
)
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.protocols import Message, Sampling, ToolCall
from jeeves_reflexion.session import Spend

asynchronous = pytest.mark.anyio

HELLO = [Message("user", "hello")]
DOLLAR = Prices(input=0.0, output=1_000_000.0)  # a dollar for each token of an answer


def connect(endpoint, **settings):
    return OpenAIModel("m", **{"base_url": endpoint.url, "prices": DOLLAR, **settings})


def answer(completed, tokens=1):
    return completed("hi", usage={"prompt_tokens": 10, "completion_tokens": tokens})


@asynchronous
@table("wrap", ["plain", "wrapped", "recorded"])
async def test_the_call_that_would_pass_the_budget_is_not_made(endpoint, completed, tmp_path, wrap):
    endpoint.gives(answer(completed))
    session = Session(spend=Spend(Budget(max_cost_usd=5.0)))
    async with connect(endpoint) as model:
        asked = {
            "plain": model,
            "wrapped": WrappedModel(model),
            "recorded": RecordedModel(tmp_path / "tape", model, mode="record"),
        }[wrap]
        with session.acting_as("agent"):
            for _ in range(3):
                await asked.complete(HELLO, sampling=Sampling(max_tokens=3))
            with pytest.raises(
                BudgetExceededError, match=r"3\.0000 of 5\.0 USD are used, and the next call may cost 3"
            ):
                await asked.complete(HELLO, sampling=Sampling(max_tokens=3))
            await asked.complete(HELLO, sampling=Sampling(max_tokens=2))
    assert len(endpoint.requests) == 4
    assert session.spend.total.cost_usd == pytest.approx(4.0)


@asynchronous
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_calls_at_the_same_time_do_not_pass_it_together(endpoint, completed):
    endpoint.gives(answer(completed, 3))
    session = Session(spend=Spend(Budget(max_cost_usd=7.0)))
    refused = []

    async def ask(model):
        with session.acting_as("agent"):
            try:
                await model.complete(HELLO)
            except BudgetExceededError as error:
                refused.append(error)

    async with (
        connect(endpoint, options=OpenAIOptions(max_tokens=3)) as model,
        anyio.create_task_group() as group,
    ):
        for _ in range(6):
            group.start_soon(ask, model)
    assert (len(endpoint.requests), len(refused)) == (2, 4)
    assert session.spend.total.cost_usd <= 7.0


@asynchronous
async def test_what_was_set_aside_for_a_call_that_fails_is_free_again(endpoint, canned, completed):
    endpoint.gives(canned("no", 400), answer(completed))
    session = Session(spend=Spend(Budget(max_cost_usd=3.0)))
    async with connect(endpoint, options=OpenAIOptions(max_tokens=3)) as model:
        with session.acting_as("agent"):
            with pytest.raises(Exception, match="400"):
                await model.complete(HELLO)
            assert (await model.complete(HELLO)).text == "hi"


@asynchronous
@table("inner", [False, True])
async def test_a_run_stops_before_it(endpoint, completed, inner):
    endpoint.gives(answer(completed))
    async with connect(endpoint, options=OpenAIOptions(max_tokens=2)) as model:
        agent = ReAct(model)
        if inner:
            agent = Refinement(agent, evaluator=Judge(model), reviser=ModelReviser(model))
        budget = Budget(max_cost_usd=4.0)
        loop = Reflexion(
            agent,
            evaluator=lambda output: 0.0,
            reflector=model,
            max_attempts=50,
            options=LoopOptions(budget=budget),
        )
        result = await loop.run("x")
    assert result.stop_reason == "budget"
    assert len(endpoint.requests) == 3
    assert result.total_usage.cost_usd == pytest.approx(3.0)


def test_what_a_call_may_cost():
    prices = Prices(input=3_000_000.0, output=1_000_000.0)
    model = OpenAIModel("m", base_url="http://localhost:1", prices=prices)
    assert model.expected_cost([Message("user", "x" * 28)]) == pytest.approx(30.0)
    assert model.expected_cost([Message("user", "x" * 28)], sampling=Sampling(max_tokens=7)) == pytest.approx(
        37.0
    )
    claude = AnthropicModel("m", base_url="http://localhost:1", prices=Prices(0.0, 1_000_000.0))
    assert claude.expected_cost(HELLO) == 4096.0
    assert OpenAIModel("m", base_url="http://localhost:1").expected_cost(HELLO) == 0.0
    longer = [Message("assistant", "", opaque={"chat": {"reasoning_content": "y" * 300}})]
    assert model.expected_cost(longer) > 300
    called = [Message("assistant", "", (ToolCall("c1", "write", "y" * 300),))]
    assert model.expected_cost(called) > 300
    cached = OpenAIModel("m", base_url="http://localhost:1", prices=replace(prices, cache_write=6_000_000.0))
    assert cached.expected_cost([Message("user", "x" * 28)]) == pytest.approx(60.0)


@table("price", [float("nan"), float("inf"), -1, "3", None])
def test_a_price_is_a_number_of_dollars(price):
    with pytest.raises(ConfigurationError, match=r"Prices\.output"):
        Prices(1.0, price)


def test_prices_are_data_of_the_users(tmp_path):
    file = tmp_path / "prices.json"
    file.write_text(
        json.dumps(
            {
                "sample_spec": {"input_cost_per_token": "in USD", "mode": "one of chat, embedding"},
                "gpt-x": {
                    "input_cost_per_token": 2e-6,
                    "output_cost_per_token": 8e-6,
                    "cache_read_input_token_cost": 5e-7,
                    "mode": "chat",
                },
                "image-x": {"output_cost_per_image": 0.04},
                "mine": {"input": 1, "output": 2.5, "cache_write": 1.25, "cached_input": None},
            }
        )
    )
    found = read_prices(file)
    assert found.keys() == {"gpt-x", "mine"}
    assert found["mine"] == Prices(1, 2.5, cache_write=1.25)
    assert found["gpt-x"].cost(1_000_000, 1_000_000, 1_000_000) == pytest.approx(8.5)
    assert found.get("unknown") is None


@table(
    "text",
    [
        "",
        "[]",
        '{"m": 3}',
        '{"m": {"input": 1}}',
        '{"m": {"input": -1, "output": 1}}',
        '{"m": {"input": "1", "output": 1}}',
        '{"m": {"input": NaN, "output": 1}}',
        '{"m": {"input": true, "output": 1}}',
        '{"m": {"input": 1e999, "output": 1}}',
    ],
)
def test_prices_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(ConfigurationError, match="the prices"):
        read_prices(tmp_path / "p.json")
    with pytest.raises(ConfigurationError, match="can't be read"):
        read_prices(tmp_path / "none.json")
