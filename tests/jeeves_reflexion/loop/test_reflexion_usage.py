"""What wrapped callables use: unknown is not zero, and models of this package are metered wherever they are asked."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from loop_parts import Ear, Grader, Writer
from tables import table

from jeeves_reflexion import (
    Attempt,
    Budget,
    Completion,
    ConfigurationError,
    Evaluation,
    LoopOptions,
    Message,
    RecordedModel,
    Reflection,
    Reflexion,
    ScriptedModel,
    Task,
    Usage,
    as_agent,
)
from jeeves_reflexion.experiments.executors import RunBudget, RunSpend
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.types import UNKNOWN_USAGE

pytestmark = pytest.mark.anyio

ONE_CALL = Usage(1, 40, 10, 0.5)
HELLO = [Message("user", "hello")]


def model() -> ScriptedModel:
    return ScriptedModel(lambda messages: Completion("a", usage=ONE_CALL))


def loop(agent, budget: Budget | None = None, **settings) -> Reflexion:
    settings = {"evaluator": Grader(0.0), "reflector": Writer(), "max_attempts": 3, **settings}
    return Reflexion(agent, options=LoopOptions(budget=budget), **settings)


def text(prompt: str) -> str:
    return "a"


async def text_async(prompt: str) -> str:
    return "a"


@table("agent", [text, text_async])
async def test_a_text_says_nothing_of_its_usage(agent):
    result = await loop(agent).run("x")
    assert result.usage["agent"] == Usage(3, cost_usd=None, unreported=3)
    assert result.total_usage.cost_usd is None
    assert result.trials[0].attempt.usage == UNKNOWN_USAGE


async def test_a_function_that_raises_says_nothing_of_its_usage_either():
    def agent(prompt: str) -> str:
        raise ConnectionError("after ten thousand tokens")

    assert (await loop(agent).run("x")).usage["agent"] == Usage(3, cost_usd=None, unreported=3)


@table("fails", [False, True])
@table("budget", [Budget(max_tokens=1), Budget(max_cost_usd=0.01)])
async def test_a_budget_over_what_is_unknown_is_refused_after_the_first_call(budget, fails):
    calls = []

    def agent(prompt: str) -> str:
        calls.append(prompt)
        if fails:
            raise ConnectionError("gone")
        return "a"

    with pytest.raises(ConfigurationError, match="return an Attempt or a Reflection with its usage"):
        await loop(agent, budget).run("x")
    assert len(calls) == 1


async def test_a_reflector_that_returns_a_text_is_unknown_too_and_one_that_reports_is_not():
    result = await loop(lambda prompt: Attempt("a"), reflector=lambda task, trials: "look left").run("x")
    assert result.usage["reflector"].unreported == 3
    reflector = lambda task, trials: Reflection("look left")  # noqa: E731
    assert (await loop(lambda prompt: Attempt("a"), reflector=reflector).run("x")).usage[
        "reflector"
    ] == Usage()


async def test_what_an_agent_calls_unreported_stays_so_without_a_count_of_calls():
    agent = lambda prompt: Attempt("a", usage=Usage(unreported=1))  # noqa: E731
    assert (await loop(agent).run("x")).usage["agent"].unreported == 3
    with pytest.raises(ConfigurationError, match="reported none"):
        await loop(agent, Budget(max_tokens=60)).run("x")


async def test_a_verdict_that_is_no_more_than_a_value_is_taken_for_code_and_costs_nothing():
    agent = lambda prompt: Attempt("a", usage=ONE_CALL)  # noqa: E731
    result = await loop(agent, Budget(max_tokens=60), evaluator=lambda output: 0.0).run("x")
    assert (result.stop_reason, result.usage["evaluator"]) == ("budget", Usage())


async def agent_asking(asked, kind: str):
    async def by_text(prompt: str) -> str:
        return (await asked.complete(HELLO)).text

    async def by_attempt(prompt: str) -> Attempt:
        answer = await asked.complete(HELLO)
        return Attempt(answer.text, usage=answer.usage)

    def in_its_own_loop(prompt: str) -> str:
        return asyncio.run(asked.complete(HELLO)).text

    def from_its_thread(prompt: str) -> str:
        return anyio.from_thread.run(asked.complete, HELLO).text

    return {f.__name__: f for f in (by_text, by_attempt, in_its_own_loop, from_its_thread)}[kind]


@table("kind", ["by_text", "by_attempt", "in_its_own_loop", "from_its_thread"])
@table("nested", [False, True])
async def test_complete_of_a_model_of_this_package_is_metered_once(kind, nested, tmp_path):
    asked = (
        RecordedModel(tmp_path / "tape.jsonl", WrappedModel(model()), mode="record") if nested else model()
    )
    agent = await agent_asking(asked, kind)
    result = await loop(agent, Budget(max_tokens=60)).run("x")
    assert result.usage["agent"] == ONE_CALL + ONE_CALL
    assert (result.stop_reason, len(result.trials)) == ("budget", 2)
    assert result.trials[0].attempt.usage == ONE_CALL


@table("kind", ["by_text", "in_its_own_loop", "from_its_thread"])
async def test_a_stream_goes_on_whatever_loop_the_model_was_asked_in(kind):
    reflexion = loop(await agent_asking(model(), kind))
    with anyio.fail_after(30):
        async with reflexion.stream("x") as events:
            kinds = [event.kind async for event in events]
    assert kinds.count("model.called") == (0 if kind == "in_its_own_loop" else 3)
    assert events.result.usage["agent"].tokens == 150


async def test_evaluators_and_reflectors_are_metered_under_their_own_role():
    asked = model()

    async def evaluator(task, attempt) -> Evaluation:
        await asked.complete(HELLO)
        return Evaluation(0.0)

    async def reflector(task, trials) -> str:
        return f"look {(await asked.complete(HELLO)).text}"

    ear = Ear()
    reflexion = loop(text, evaluator=evaluator, reflector=reflector, max_attempts=1)
    result = await reflexion.run("x", session=reflexion.session(listener=ear))
    assert (result.usage["evaluator"], result.usage["reflector"]) == (ONE_CALL, ONE_CALL)
    assert [event.role for event in ear.events if event.kind == "model.called"] == ["evaluator", "reflector"]


async def test_a_budget_stops_a_wrapped_agent_within_its_attempt():
    asked = model()

    async def agent(prompt: str) -> str:
        for _ in range(9):
            await asked.complete(HELLO)
        return "a"

    result = await loop(agent, Budget(max_tokens=60)).run("x")
    assert (result.stop_reason, len(asked.calls)) == ("budget", 2)


async def test_the_inner_call_of_a_model_is_not_charged_beside_the_outer_one():
    class Thrifty(WrappedModel):
        """Counts for nothing, whatever it asks."""

        async def complete(self, messages, **given):
            answer = await super().complete(messages, **given)
            return Completion(answer.text, usage=Usage(1, 1, 1, 0.0))

    async def agent(prompt: str) -> str:
        return (await ask(Thrifty(model()), HELLO)).text

    assert (await loop(agent, max_attempts=1).run("x")).usage["agent"] == Usage(1, 1, 1, 0.0)


async def test_outside_of_a_run_a_text_is_unknown_too():
    reflexion = loop(text)
    attempt = await as_agent(text)(Task("x"), reflexion.session())
    assert attempt.usage == UNKNOWN_USAGE


class SlowSum:
    """A usage whose addition gives other threads their turn."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def __add__(self, other: Usage) -> SlowSum:
        time.sleep(0.02)
        return SlowSum(self.calls + other.calls)


def test_what_several_threads_charge_at_once_is_added_up():
    budget = RunBudget(None, SlowSum(0))
    spends = [RunSpend(Budget(), budget) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda spend: spend.charge("agent", ONE_CALL), spends))
    assert budget.spent.calls == 4
