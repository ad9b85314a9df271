"""The loop: the order of its steps, when it stops, what it returns, and that learning comes before stopping."""

from __future__ import annotations

import anyio
import pytest
from loop_parts import BLOCK, Grader, Player, Writer, heard
from tables import table

from jeeves_reflexion import (
    Attempt,
    BudgetExceededError,
    ConfigurationError,
    Evaluation,
    LoopOptions,
    ModelAuthError,
    ModelRequestError,
    Reflexion,
    SessionError,
    Task,
    Usage,
)

pytestmark = pytest.mark.anyio

FAILED_TURN = ["attempt_started", "attempt_finished", "evaluated", "lesson_produced", "lesson_persisted"]


def loop(agent=None, grader=None, writer=None, **settings) -> Reflexion:
    return Reflexion(
        agent or Player(), evaluator=grader or Grader(0.0, 1.0), reflector=writer or Writer(), **settings
    )


async def test_steps_come_in_the_order_of_the_paper():
    session, ear = heard(reflexion := loop())
    result = await reflexion.run("find the key", session=session)
    passed_turn = ["attempt_started", "attempt_finished", "evaluated", "threshold_met"]
    assert ear.kinds == ["run_started", *FAILED_TURN, *passed_turn, "run_finished"]
    assert result.stop_reason == "passed"
    assert [trial.number for trial in result.trials] == [1, 2]


async def test_the_last_attempt_is_learned_from_too():
    session, ear = heard(reflexion := loop(grader=Grader(0.2), max_attempts=2))
    result = await reflexion.run("find the key", session=session)
    assert ear.kinds == ["run_started", *FAILED_TURN, *FAILED_TURN, "max_attempts_reached", "run_finished"]
    assert result.stop_reason == "max_attempts"
    block = await reflexion.memory.read(BLOCK)
    assert block == "- lesson 1 says look left\n- lesson 2 says look left"


@table(
    ("output", "sign"),
    [
        (Attempt("half way", interrupted="max_turns"), "max_turns"),
        (RuntimeError("the robot fell"), "RuntimeError: the robot fell"),
        (ExceptionGroup("tasks", [OSError("no route")]), "ExceptionGroup: tasks (1 sub-exception)"),
    ],
)
async def test_an_attempt_that_ran_out_of_turns_or_raised_is_judged_and_learned_from(output, sign):
    writer, grader = Writer(), Grader(0.0)
    result = await loop(Player(output), grader, writer, max_attempts=1).run("find the key")
    attempt = result.trials[0].attempt
    assert sign in (attempt.interrupted, attempt.error)
    assert grader.attempts == [attempt]
    assert writer.seen[0][-1].attempt == attempt
    assert result.trials[0].reflection is not None


@table("place", ["agent", "evaluator", "reflector"])
async def test_a_cancel_ends_the_run_without_learning(place):
    reached = anyio.Event()

    async def hang(*_):
        reached.set()
        await anyio.sleep_forever()

    async def agent(prompt: str) -> str:
        return "done" if place != "agent" else await hang()

    async def reflector(task, trials):
        return "never written down" if place != "reflector" else await hang()

    reflexion = Reflexion(
        agent, evaluator=hang if place == "evaluator" else lambda out: 0.0, reflector=reflector
    )
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(reflexion.run, "find the key")
            await reached.wait()
            group.cancel_scope.cancel()
    assert await reflexion.memory.read(BLOCK) == ""


async def test_learning_from_success_is_asked_for():
    writer = Writer()
    assert (await loop(grader=Grader(1.0), writer=writer).run("x")).trials[0].reflection is None
    options = LoopOptions(learn_from_success=True)
    result = await loop(grader=Grader(1.0), writer=writer, options=options).run("x")
    assert result.stop_reason == "passed"
    assert result.trials[0].reflection is not None


async def test_the_control_arm_learns_nothing():
    writer = Writer()
    session, ear = heard(
        reflexion := loop(grader=Grader(0.0), writer=writer, options=LoopOptions(learn=False))
    )
    assert (await reflexion.run("x", session=session)).stop_reason == "max_attempts"
    assert writer.seen == []
    assert "lesson_dropped" not in ear.kinds


async def test_unscorable_twice_in_a_row_stops_the_run():
    session, ear = heard(reflexion := loop(grader=Grader(None), max_attempts=5))
    result = await reflexion.run("x", session=session)
    assert (result.stop_reason, len(result.trials)) == ("unscorable", 2)
    assert (result.score, result.passed) == (None, False)
    assert ear.kinds.count("lesson_dropped") == 2


async def test_unscorable_once_goes_on():
    result = await loop(grader=Grader(None, 0.1, None, 0.9), max_attempts=4).run("x")
    assert result.stop_reason == "passed"
    assert [trial.evaluation.score for trial in result.trials] == [None, 0.1, None, 0.9]
    assert [trial.reflection is None for trial in result.trials] == [True, False, True, True]


async def test_an_evaluator_that_fails_leaves_no_verdict_and_says_why():
    session, ear = heard(reflexion := loop(grader=Grader(OSError("the judge is away"), 0.9)))
    result = await reflexion.run("x", session=session)
    assert result.trials[0].evaluation.score is None
    assert "the judge is away" in result.trials[0].evaluation.rationale
    assert "the judge is away" in result.trials[0].problems[0]
    assert "warned" in ear.kinds


async def test_a_reflector_that_fails_costs_the_lesson_and_not_the_run():
    def broken(number: int) -> str:
        raise OSError("the pen is dry")

    session, ear = heard(reflexion := loop(writer=Writer(broken)))
    result = await reflexion.run("x", session=session)
    assert result.stop_reason == "passed"
    assert "the pen is dry" in result.trials[0].problems[0]
    assert {"warned", "lesson_dropped"} <= set(ear.kinds)


async def test_a_refused_lesson_is_asked_for_once_more_with_the_problem_shown():
    writer = Writer(lambda number: "Two lines.\nOf advice." if number == 1 else "look left")
    result = await loop(writer=writer).run("x")
    assert writer.problems[0] is None
    assert "2 sentences" in writer.problems[1]
    assert result.trials[0].reflection.lesson == "look left"


@table("bad", ["", "  ", "?!", "Two.\n\nLines.", "No lesson.", "I can't help with that.", "word " * 200])
async def test_a_lesson_refused_twice_is_dropped_visibly(bad):
    session, ear = heard(reflexion := loop(writer=Writer(lambda _: bad)))
    result = await reflexion.run("x", session=session)
    assert "lesson_dropped" in ear.kinds
    assert result.trials[0].reflection is None
    assert await reflexion.memory.read(BLOCK) == ""


@table(
    "error",
    [ConfigurationError("no such tool"), ModelAuthError("no key"), ModelRequestError("no such model")],
)
@table("grouped", [False, True])
async def test_what_no_further_attempt_would_mend_is_raised_as_itself(error, grouped):
    raised = (
        ExceptionGroup("tasks", [ExceptionGroup("inner", [error]), OSError("and this")]) if grouped else error
    )
    with pytest.raises(type(error), match=str(error)):
        await loop(Player(raised)).run("x")


async def test_a_budget_error_of_tasks_side_by_side_is_seen():
    group = ExceptionGroup("tasks", [BudgetExceededError("tokens", "all are used")])
    result = await loop(Player(group)).run("x")
    assert (result.stop_reason, result.detail) == ("budget", "all are used")


@table(
    ("scores", "best"),
    [((0.3, 0.6, 0.1), 2), ((0.5, 0.5, 0.2), 2), ((None, 0.0, 0.0), 3), ((0.7, None, 0.1), 1)],
)
async def test_the_output_is_that_of_the_best_score_and_the_later_of_equals(scores, best):
    result = await loop(Player("one", "two", "three"), Grader(*scores)).run("x")
    assert result.output == ["one", "two", "three"][best - 1]
    assert result.best.number == best
    assert result.final.number == 3


async def test_an_attempt_that_passed_is_the_best_whatever_its_score():
    graded = Grader(Evaluation(0.7, passed=False), Evaluation(0.2, passed=True))
    result = await loop(Player("one", "two"), graded).run("x")
    assert (result.output, result.score, result.passed) == ("two", 0.2, True)


async def test_the_evaluators_own_word_goes_before_the_threshold():
    assert (await loop(grader=Grader(Evaluation(1.0, passed=False)), max_attempts=1).run("x")).passed is False
    assert (await loop(grader=Grader(0.5), threshold=0.5, max_attempts=1).run("x")).passed is True


async def test_usage_is_kept_by_role():
    spent = Usage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.5)
    agent = Player(Attempt("a", usage=spent))
    judged = [Evaluation(score, usage=Usage(calls=2, input_tokens=1)) for score in (0.0, 1.0)]
    result = await loop(agent, Grader(*judged)).run("x")
    assert result.usage["agent"] == Usage(2, 20, 10, 1.0)
    assert result.usage["evaluator"] == Usage(4, 2)
    assert result.usage["reflector"] == Usage()
    assert result.total_usage.tokens == 32
    assert [trial.usage["agent"] for trial in result.trials] == [spent, spent]


async def test_a_session_used_twice_counts_each_run_by_itself():
    reflexion = loop(Player(Attempt("a", usage=Usage(1, 10))), Grader(1.0))
    session = reflexion.session()
    assert (await reflexion.run("x", session=session)).usage["agent"].tokens == 10
    assert (await reflexion.run("x", session=session)).usage["agent"].tokens == 10
    assert session.spend.total.tokens == 20


async def test_reset_runs_before_each_retry_only():
    for make in (_async_reset, _sync_reset):
        calls: list[str] = []
        agent = Player("a")
        agent.reset = make(calls)
        assert (await loop(agent, Grader(0.0)).run(Task("x", reference="gold"))).stop_reason == "max_attempts"
        assert calls == ["None", "None"]


def _async_reset(calls):
    async def reset(task, session):
        calls.append(str(task.reference))

    return reset


def _sync_reset(calls):
    return lambda task, session: calls.append(str(task.reference))


async def test_a_reset_that_fails_leaves_the_agent_alone():
    async def reset(task, session):
        raise OSError("the door is stuck")

    agent = Player("a")
    agent.reset = reset
    result = await loop(agent, Grader(0.0), max_attempts=2).run("x")
    assert len(agent.tasks) == 1
    assert "the door is stuck" in result.trials[1].attempt.error


async def test_an_agent_that_is_not_retry_safe_learns_and_is_not_run_again():
    agent = Player("a")
    agent.retry_safe = False
    reflexion = loop(agent, Grader(0.0))
    result = await reflexion.run("x")
    assert (result.stop_reason, len(agent.tasks)) == ("not_retry_safe", 1)
    assert await reflexion.memory.read(BLOCK) != ""
    with pytest.raises(ConfigurationError, match="retry_safe"):
        await reflexion.trial(Task("x"), result.trials, reflexion.session())


async def test_an_agent_that_returns_something_else_is_told_so():
    class Wrong:
        async def __call__(self, task, session) -> Attempt:
            return 7

    with pytest.raises(ConfigurationError, match="returned int"):
        await loop(Wrong()).run("x")


@table("task", [7, None, ["x"]])
async def test_a_task_of_another_kind_is_refused(task):
    with pytest.raises(ConfigurationError, match="a task must be a Task or a text"):
        await loop().run(task)
    with pytest.raises(ConfigurationError, match="a task must be a Task or a text"):
        await loop().trial(task, [], loop().session())


async def test_an_empty_task_is_refused():
    with pytest.raises(ValueError, match=r"Task\.prompt is empty"):
        await loop().run("  ")


async def test_run_sync_is_refused_within_an_event_loop():
    with pytest.raises(SessionError, match="await"):
        loop().run_sync("x")
