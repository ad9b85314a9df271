"""A Reflexion as the agent of another one: one attempt of the outer is a whole run of the inner."""

from __future__ import annotations

import pytest
from loop_parts import BLOCK, Ear, Grader, Player, Writer
from tables import table

from jeeves_reflexion import (
    Agent,
    Attempt,
    Budget,
    ConfigurationError,
    LoopOptions,
    Reflexion,
    ScriptedModel,
    Task,
    Usage,
    VectorLessonStore,
)
from vectorstores import HashingEmbedder, InMemoryVectorStore

pytestmark = pytest.mark.anyio

SPENT = Usage(1, 10, 5, 0.5)


def pair(agent, inner_scores=(0.0,), outer_scores=(0.0,), *, inner=None, outer=None):
    inside = Reflexion(
        agent,
        **{"evaluator": Grader(*inner_scores), "reflector": Writer(), "max_attempts": 2, **(inner or {})},
    )
    say = Writer(lambda number: f"outer lesson {number} says look right")
    return inside, Reflexion(
        inside, **{"evaluator": Grader(*outer_scores), "reflector": say, "max_attempts": 2, **(outer or {})}
    )


async def test_one_attempt_is_a_whole_run_of_the_inner_and_sees_both_blocks():
    agent = Player("a")
    inside, outside = pair(agent)
    assert isinstance(inside, Agent)
    result = await outside.run("find the key")
    assert len(agent.tasks) == 4
    assert [len(block.split()) > 0 for block in agent.blocks] == [False, True, True, True]
    assert agent.blocks[2].startswith("- outer lesson 1")
    assert "- lesson 1 says look left" in agent.blocks[2]
    assert [lesson.text.split()[0] for lesson in result.lessons] == ["outer", "outer"]
    assert (await inside.memory.read(BLOCK)).count("\n") == 3


async def test_the_best_attempt_of_the_inner_is_the_outers():
    _, outside = pair(Player("bad", Attempt("good", usage=SPENT)), (0.1, 0.7), (1.0,))
    result = await outside.run("find the key")
    assert (result.output, result.stop_reason) == ("good", "passed")


async def test_what_is_used_is_counted_once_and_by_role():
    judge = ScriptedModel(lambda messages: "score: 0.1")
    _, outside = pair(
        Player(Attempt("a", usage=SPENT)), inner={"evaluator": judge}, outer={"max_attempts": 1}
    )
    result = await outside.run("find the key")
    assert result.usage["agent"] == SPENT + SPENT
    assert result.usage["evaluator"].calls == 2
    assert result.trials[0].attempt.usage == SPENT + SPENT


@table("most", [10, 25])
async def test_the_outers_budget_holds_within(most):
    agent = Player(Attempt("a", usage=SPENT))
    _, outside = pair(
        agent, inner={"max_attempts": 9}, outer={"options": LoopOptions(budget=Budget(max_tokens=most))}
    )
    result = await outside.run("find the key")
    assert (result.stop_reason, len(agent.tasks)) == ("budget", 1 + most // 15)


async def test_a_budget_of_the_inner_is_refused():
    _, outside = pair(Player("a"), inner={"options": LoopOptions(budget=Budget(max_tokens=9))})
    with pytest.raises(ConfigurationError, match="give the budget to the outer"):
        await outside.run("find the key")


async def test_no_gold_reaches_the_inner():
    agent, grader = Player("a"), Grader(0.0)
    tasks = []

    async def evaluator(task, attempt) -> float:
        tasks.append(task)
        return 0.0

    _, outside = pair(agent, inner={"evaluator": evaluator}, outer={"evaluator": grader})
    await outside.run(Task("find the key", reference="drawer"))
    assert {task.reference for task in [*tasks, *agent.tasks]} == {None}


async def test_what_can_not_be_run_twice_is_not_and_what_resets_is_called():
    agent = Player("a")
    agent.retry_safe = False
    _, outside = pair(agent)
    assert (await outside.run("x")).stop_reason == "not_retry_safe"
    assert len(agent.tasks) == 1
    agent, calls = Player("a"), []
    agent.reset = lambda task, session: calls.append(task.prompt)
    _, outside = pair(agent)
    await outside.run("x")
    assert len(calls) == 3


async def test_a_typo_in_the_innermost_agent_ends_both():
    with pytest.raises(NameError):
        await pair(Player(NameError("x")))[1].run("x")


async def test_they_may_share_a_store_and_their_events_tell_them_apart():
    lessons = VectorLessonStore(InMemoryVectorStore(HashingEmbedder()))
    ear = Ear()
    _, outside = pair(Player("a"), inner={"lesson_store": lessons}, outer={"lesson_store": lessons})
    result = await outside.run("find the key", session=outside.session(listener=ear))
    runs = [event.run_id for event in ear.events if event.kind == "reflexion.run_started"]
    assert len(set(runs)) == 3
    assert runs[0] == result.run_id
    assert all(trial.recall is not None for trial in result.trials)
