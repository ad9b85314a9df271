"""Runs of an ensemble where the event loop can make a difference: side by side, in time, cancelled."""

import anyio
import numpy as np
import pytest
from noting import REPLY, Counting, Heard

from jeeves_reflexion import (
    Attempt,
    Budget,
    BudgetExceededError,
    ConfigurationError,
    Message,
    ScriptedModel,
    Session,
    SessionError,
    Spend,
    Usage,
)
from jeeves_reflexion.tasknotes import (
    Ensemble,
    InMemoryReflectionStore,
    ReflectionConfig,
    Task,
)

pytestmark = pytest.mark.anyio


def agent(prompt: str) -> str:
    return f"done: {prompt[-20:]}"


async def hanging(*_):
    await anyio.sleep_forever()


def broken(output, *_):
    raise RuntimeError("broken")


def reflective(description="Write a report.", **fields):
    strategy = Counting()
    return Task(description, reflect=ReflectionConfig(strategy=strategy), **fields), strategy


async def test_a_second_run_gets_what_the_first_learned_and_the_task_stays_as_it_was():
    asked = []

    def script(messages: list[Message]) -> str:
        asked.append(messages[-1].content)
        return REPLY if "improve the instructions" in messages[0].content else "The report."

    task = Task("Research AI trends", "A structured report", reflect=True)
    ensemble = Ensemble(ScriptedModel(script), reflection_store=InMemoryReflectionStore())
    first = await ensemble.run(task)
    second = await ensemble.run(task)
    assert (first.output, first.outcomes[0].reflection.run_count) == ("The report.", 1)
    assert second.outcomes[0].reflection.run_count == 2
    assert (first.outcomes[0].version, second.outcomes[0].version) == (0, 1)
    assert "Task Improvement Notes" not in asked[0]
    notes, _, original = asked[2].partition("\n---\n")
    assert "Research three trends in AI." in notes
    assert original.endswith("## Task\n\nResearch AI trends\n\n## Expected Output\n\nA structured report")
    assert (task.description, task.expected_output) == ("Research AI trends", "A structured report")


async def test_a_budget_holds_for_agents_that_ask_no_model_of_ours():
    asked = []

    def paid(prompt: str) -> Attempt:
        asked.append(prompt)
        return Attempt("done", usage=Usage(1, 10))

    session = Session(spend=Spend(Budget(max_tokens=5)))
    with pytest.raises(BudgetExceededError, match="10 of 5 tokens are used"):
        await Ensemble(agent=paid).run("Write one.", "Write two.", session=session)
    assert asked == ["Write one."]

    session = Session(spend=Spend(Budget(max_tokens=5)))
    with pytest.raises(ConfigurationError, match="a token budget needs reported usage"):
        await Ensemble(agent=agent).run("Write one.", "Write two.", session=session)


async def test_a_cancelled_run_leaves_no_reflection():
    started = anyio.Event()

    async def slow(prompt: str) -> str:
        started.set()
        await anyio.sleep_forever()
        return ""

    task, strategy = reflective(agent=slow)
    store = InMemoryReflectionStore()
    async with anyio.create_task_group() as group:
        group.start_soon(Ensemble(reflection_store=store).run, task)
        await started.wait()
        group.cancel_scope.cancel()
    assert (strategy.given, store.size) == ([], 0)


async def test_cancelled_while_it_reflects_nothing_is_stored():
    started = anyio.Event()

    class Slow(Counting):
        async def reflect(self, given):
            started.set()
            await anyio.sleep_forever()

    store = InMemoryReflectionStore()
    task = Task("Write.", reflect=ReflectionConfig(strategy=Slow()), agent=agent)
    async with anyio.create_task_group() as group:
        group.start_soon(Ensemble(reflection_store=store).run, task)
        await started.wait()
        group.cancel_scope.cancel()
    assert await store.retrieve(task.identity) is None


class Named:
    def __init__(self):
        self.heard = []

    def on_task_reflected(self, event):
        self.heard.append(event)


async def test_listeners_hear_and_one_that_fails_spoils_nothing():
    task, _ = reflective()
    named, heard = Named(), Heard()
    result = await Ensemble(agent=agent, listeners=[broken, named, heard]).run(task)
    assert result.accepted
    assert [event.kind for event in named.heard] == ["tasknotes.reflected"]
    assert named.heard == heard.reflected


async def test_tasks_run_side_by_side_and_lose_no_count():
    store = InMemoryReflectionStore()
    tasks = [reflective("The same task.")[0] for _ in range(8)]
    most, running = 0, 0
    four_at_once = anyio.Event()

    async def waiting(prompt: str) -> str:
        nonlocal most, running
        running += 1
        most = max(most, running)
        if running == 4:
            four_at_once.set()
        await four_at_once.wait()
        running -= 1
        return "out"

    with anyio.fail_after(60):
        result = await Ensemble(agent=waiting, reflection_store=store).run(*tasks, workers=4)
    assert result.accepted
    assert most == 4
    assert (await store.retrieve(tasks[0].identity)).run_count == 8


@pytest.mark.parametrize("workers", [1, 3, np.int64(3)])
async def test_outputs_reach_the_tasks_that_name_them(workers):
    seen = []

    def tell(prompt: str) -> str:
        seen.append(prompt)
        return f"out {len(seen)}"

    first = Task("Collect {what}.")
    second = Task("Sum up.", context=[first])
    result = await Ensemble(agent=tell).run(first, second, inputs={"what": "sources"}, workers=workers)
    assert [outcome.output for outcome in result.outcomes] == ["out 1", "out 2"]
    assert seen[0] == "Collect sources."
    assert "### Collect sources.\nout 1" in seen[1]
    assert seen[1].endswith("## Task\n\nSum up.")


def test_run_sync_runs_outside_of_a_loop_alone():
    task, _ = reflective()
    ensemble = Ensemble(agent=agent)
    assert ensemble.run_sync(task).accepted
    assert ensemble.run_sync(task).outcomes[0].reflection.run_count == 2

    async def within():
        with pytest.raises(SessionError):
            ensemble.run_sync(task)

    anyio.run(within)


async def test_a_missing_key_ends_the_run_also_side_by_side():
    def keyless(prompt: str) -> str:
        raise ConfigurationError("no key")

    for workers in (1, 2):
        with pytest.raises(ConfigurationError, match="no key"):
            await Ensemble(agent=keyless).run("One.", "Two.", workers=workers)
