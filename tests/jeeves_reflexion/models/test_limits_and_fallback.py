"""What stands around a model: bounds that all runs of a process share, and another model where it can't answer."""

from __future__ import annotations

import random
import threading

import anyio
import anyio.lowlevel
import pytest
from tables import table

from jeeves_reflexion import Completion, ScriptedModel, Session
from jeeves_reflexion.errors import (
    ConfigurationError,
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelRequestError,
    ModelResponseError,
    ModelTimeoutError,
)
from jeeves_reflexion.events import ModelCalled, Warned
from jeeves_reflexion.models import FallbackModel, LimitedModel, Limits, OpenAIModel, Prices, Retry, limits
from jeeves_reflexion.protocols import Message, Sampling
from jeeves_reflexion.types import Usage

asynchronous = pytest.mark.anyio

HELLO = [Message("user", "x" * 297)]  # with the empty schema, about 99 tokens


class Clock:
    """Goes on as far as its sleepers say."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await anyio.lowlevel.checkpoint()


@asynchronous
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@table(
    ("bounds", "requests", "tokens", "at_once"),
    [
        ({"requests_per_minute": 3}, 3, 10**9, 30),
        ({"tokens_per_minute": 500}, 30, 500, 30),
        ({"concurrency": 2}, 30, 10**9, 2),
        ({"requests_per_minute": 4, "tokens_per_minute": 300, "concurrency": 2}, 4, 300, 2),
    ],
)
async def test_no_minute_has_more_than_the_bounds(monkeypatch, bounds, requests, tokens, at_once):
    clock, used = Clock(), random.Random(0)
    monkeypatch.setattr(limits, "time", clock)
    monkeypatch.setattr(limits, "anyio", clock)
    made, under_way = [], []

    class Model:
        name, supports_tools = "m", False

        async def complete(self, messages, **_):
            call = [clock.now, 99]
            minute = [call, *(each for each in made if each[0] + 60 > clock.now)]
            made.append(call)
            under_way.append(call)
            assert len(under_way) <= at_once
            assert len(minute) <= requests
            assert sum(cost for _, cost in minute) <= tokens
            for _turn in range(used.randrange(1, 5)):
                await clock.sleep(0.01)
            call[1] = used.randrange(1, 99)
            under_way.remove(call)
            return Completion("fine", usage=Usage(1, call[1], 0))

    shared = Limits(**bounds)
    models = [LimitedModel(Model(), shared) for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(models[number % 2].complete, HELLO)
    assert len(made) == 30


def test_threads_share_them_and_a_cancelled_or_failed_call_gives_its_place_back():
    shared, under_way, answers = Limits(concurrency=2), [], []

    async def reply(_):
        under_way.append(1)
        assert len(under_way) <= 2
        await anyio.sleep(0.001)
        under_way.pop()
        if len(answers) % 3 == 0:
            answers.append("failed")
            raise ModelConnectionError("gone")
        return "fine"

    model = LimitedModel(ScriptedModel(reply), shared)

    async def ask():
        try:
            answers.append((await model.complete(HELLO)).text)
        except ModelError as error:
            assert str(error) == "gone"  # noqa: PT017

    async def several():
        with anyio.move_on_after(0):
            await model.complete(HELLO)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)

    threads = [threading.Thread(target=anyio.run, args=(several,)) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(answers) == 15


@asynchronous
async def test_a_call_larger_than_the_bound_goes_when_nothing_else_did(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(limits, "time", clock)
    monkeypatch.setattr(limits, "anyio", clock)
    model = LimitedModel(ScriptedModel(lambda _: Completion("fine")), Limits(tokens_per_minute=50))
    await model.complete(HELLO, sampling=Sampling(max_tokens=5))
    assert clock.now == 0
    await model.complete(HELLO)  # the first's usage was not told, so it counts as it was expected
    assert clock.now >= 60


@table("bound", [0, 1.5, True, "9"])
def test_a_bound_that_is_none_is_refused(bound):
    with pytest.raises(ConfigurationError, match="requests_per_minute"):
        Limits(requests_per_minute=bound)


# -- another model


def handed_on():
    error = ModelConnectionError("broke off")
    error.handed_on = True
    return error


@asynchronous
@table(
    ("error", "asked"),
    [
        (ModelTimeoutError("late"), True),
        (ModelConnectionError("gone"), True),
        (ModelResponseError("busy", status=429), True),
        (ModelResponseError("broken", status=503), True),
        (ModelResponseError("answered without choices", status=200), True),
        (ModelRequestError("paid up", status=429, code="insufficient_quota"), True),
        (ModelResponseError("no", status=500, said="the prompt is too long"), False),
        (ModelResponseError("no", status=400, said="too long"), False),
        (ModelResponseError("no", status=200, code="content_filter"), False),
        (ModelRequestError("no such model", status=404), False),
        (ModelAuthError("no"), False),
        (handed_on(), False),
    ],
)
async def test_the_fallback_is_asked_where_the_model_can_not_answer(caplog, error, asked):
    heard = []
    other = ScriptedModel(["here"], name="other")
    model = FallbackModel(ScriptedModel([error]), fallback=other)
    session = Session(listener=heard.append)
    with session.acting_as("agent"):
        if asked:
            assert (await model.complete(HELLO)).text == "here"
            (warned,) = [event for event in heard if isinstance(event, Warned)]
            assert warned.message in caplog.messages
            assert f"scripted can't answer, so other is asked: {error}" == warned.message
            assert [event.model for event in heard if isinstance(event, ModelCalled)] == ["other"]
        else:
            with pytest.raises(type(error)):
                await model.complete(HELLO)
            assert not other.calls
    assert session.spend.total.calls == asked


@asynchronous
async def test_what_came_with_an_answer_goes_back_to_the_model_that_gave_it(endpoint, canned, completed):
    first = ScriptedModel(
        [
            Completion("one", opaque={"chat": {"content": "one", "reasoning_content": "first's"}}),
            ModelTimeoutError("late"),
        ]
    )
    endpoint.gives(completed("two", reasoning_content="second's"), completed("three"))
    other = OpenAIModel("m", base_url=endpoint.url, retry=Retry(0), prices=Prices(1.0, 1.0))
    async with other:
        told = list(HELLO)
        model = FallbackModel(first, fallback=other)
        for _ in range(2):
            told += [(await model.complete(told)).message(), Message("user", "and?")]
        first._replies += (ModelTimeoutError("late"),)
        await model.complete(told)
        assert model.expected_cost(told) > 0
        assert (model.provider, FallbackModel(other, fallback=other).provider) == ("", "openai")
    assert "first's" not in str(endpoint.requests)
    assert "second's" in str(endpoint.requests[1])
    assert "second's" not in str([message.opaque.get("chat") for message in first.calls[2].messages])
