"""What a run tells while it happens, and the stream that hands it out."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from types import MappingProxyType

import anyio
import numpy as np
import pytest
from loop_parts import BLOCK, Ear, Grader, Player, Writer, heard, lesson_store
from tables import table

from jeeves_reflexion import (
    Attempt,
    Budget,
    ConfigurationError,
    Credit,
    LoopOptions,
    ReAct,
    Reflexion,
    ScriptedModel,
    Session,
    SessionError,
    Task,
    VectorLessonStore,
    Withholding,
)
from jeeves_reflexion.errors import ModelTimeoutError
from jeeves_reflexion.events import (
    AgentEvent,
    Evaluated,
    LessonPersisted,
    LessonsRecalled,
    ModelCalled,
    ModelFailed,
    Occurrence,
    as_json,
)
from jeeves_reflexion.protocols import Completion
from jeeves_reflexion.redaction import redact
from vectorstores import HashingEmbedder, InMemoryVectorStore

pytestmark = pytest.mark.anyio

KEY = "sk-proj-AbCdEf0123456789AbCdEf"


def loop(agent=None, **settings) -> Reflexion:
    settings.setdefault("evaluator", Grader(0.0, 1.0))
    return Reflexion(agent or Player("a"), reflector=Writer(), **settings)


def lessons() -> VectorLessonStore:
    return VectorLessonStore(InMemoryVectorStore(HashingEmbedder(), namespace="tests"))


async def test_every_event_is_typed_and_carries_run_attempt_and_time():
    before = time.time()
    session, ear = heard(reflexion := loop(ReAct(ScriptedModel(["a", "b"])), lesson_store=lessons()))
    await reflexion.run("find the key", session=session)
    assert all(isinstance(event, Occurrence) for event in ear.events)
    assert {event.run_id for event in ear.events} == {session.id}
    times = [event.at for event in ear.events]
    assert before <= times[0]
    assert times == sorted(times)
    turn = ["attempt_started", "lessons_recalled", "model.called", "attempt_finished", "evaluated"]
    first, second = [*turn, "lesson_produced", "lesson_persisted"], [*turn, "threshold_met"]
    assert ear.kinds == ["run_started", *first, *second, "run_finished"]
    assert [event.attempt for event in ear.events] == [0] + [1] * 7 + [2] * 6 + [0]


async def test_events_say_what_was_recalled_judged_and_stored():
    session, ear = heard(reflexion := loop(lesson_store=lessons()))
    result = await reflexion.run("find the key", session=session)
    recalled = [event for event in ear.events if isinstance(event, LessonsRecalled)]
    assert [event.n_recalled for event in recalled] == [0, 1]
    assert recalled[1].lessons == ("lesson 1 says look left",)
    assert recalled[1].recall_id == result.trials[1].recall.id
    assert [event.score for event in ear.events if isinstance(event, Evaluated)] == [0.0, 1.0]
    (stored,) = [event for event in ear.events if isinstance(event, LessonPersisted)]
    assert (stored.lesson, stored.block) == (result.lessons[0], "lesson_store")


async def test_every_call_of_a_model_has_an_event_with_its_attempt_role_provider_and_end():
    def answer(messages):
        system = messages[0].content
        if system.startswith("You judge"):
            return Completion(f"score: {next(scores)}\nToo short.", finish_reason="stop")
        if system.startswith("You write lessons"):
            if (failure := next(failures)) is not None:
                raise failure
            return Completion("Look left before you answer.", finish_reason="length")
        return Completion("an answer", finish_reason="end_turn")

    class Model(ScriptedModel):
        provider = "openai"

    scores, failures = iter(["0.1", "0.2", "0.9"]), iter([ModelTimeoutError(f"no answer for {KEY}"), None])
    model = Model(answer)
    session, ear = heard(reflexion := Reflexion(ReAct(model), model=model, lesson_store=lessons()))
    result = await reflexion.run(Task("find the key", reference="Too short."), session=session)
    assert result.passed
    called = [event for event in ear.events if isinstance(event, ModelCalled | ModelFailed)]
    assert [(e.attempt, e.role, getattr(e, "finish_reason", "failed")) for e in called] == [
        (1, "agent", "end_turn"),
        (1, "evaluator", "stop"),
        (1, "reflector", "failed"),
        (2, "agent", "end_turn"),
        (2, "evaluator", "stop"),
        (2, "reflector", "length"),
        (3, "agent", "end_turn"),
        (3, "evaluator", "stop"),
    ]
    assert {event.provider for event in called} == {"openai"}
    assert called[2].error == "ModelTimeoutError: no answer for [REDACTED:api_key]"
    assert len(called) == len(model.calls)
    recalled = [event for event in ear.events if isinstance(event, LessonsRecalled)]
    (given,) = result.trials[2].recall.offered
    assert [each.lesson_ids for each in recalled] == [(), (), (given.lesson.id,)]
    assert recalled[2].similarities == (given.similarity,)
    judged = [event for event in ear.events if isinstance(event, Evaluated)]
    assert not any("Too short" in event.rationale for event in judged), "a judge that saw gold may quote it"


async def test_ids_of_withheld_lessons_are_told():
    store = lesson_store(credit=Credit(withholding=Withholding(0.5)))
    withheld = []
    for number in range(12):
        session, ear = heard(reflexion := loop(lesson_store=store))
        result = await reflexion.run(f"find the key {number}", session=session)
        for trial, event in zip(
            result.trials, (e for e in ear.events if isinstance(e, LessonsRecalled)), strict=True
        ):
            assert event.withheld_ids == tuple(item.lesson.id for item in trial.recall.withheld)
            withheld += event.withheld_ids
    assert withheld


async def test_events_can_be_written_as_json():
    session, ear = heard(reflexion := loop(lesson_store=lessons()))
    await reflexion.run("find the key", session=session)
    data = {"rooms": (1, 2), "picture": b"\xff", "row": np.arange(2), "type": np.float64}
    own = AgentEvent(run_id="r", name="map", data=MappingProxyType(data))
    rows = [json.loads(json.dumps(as_json(event))) for event in [*ear.events, own]]
    kind = "<class 'numpy.float64'>"
    assert rows[-1]["data"] == {"rooms": [1, 2], "picture": "_w==", "row": [0, 1], "type": kind}
    assert all(next(iter(row)) == "kind" for row in rows)


async def test_a_listener_that_raises_is_reported_and_loses_nothing(caplog):
    def listener(event):
        raise OSError("the screen is off")

    async def slow(event):
        await anyio.lowlevel.checkpoint()
        raise OSError("the screen is off")

    for each in (listener, slow):
        caplog.clear()
        reflexion = loop()
        result = await reflexion.run("x", session=reflexion.session(listener=each))
        assert result.stop_reason == "passed"
        assert "the screen is off" in caplog.text


async def test_no_secret_is_heard_or_logged(caplog):
    caplog.set_level(logging.DEBUG)
    agent = Player(
        Attempt(f"used {KEY}"), RuntimeError(f"401 for https://me:{KEY}@host/"), Attempt("no secret at all")
    )
    grader = Grader(0.0, OSError(f"password={KEY}"), 0.0)
    writer = Writer(lambda number: f"log in with {KEY} first")
    session, ear = heard(reflexion := Reflexion(agent, evaluator=grader, reflector=writer))
    result = await reflexion.run("x", session=session)
    told = json.dumps([as_json(event) for event in ear.events]) + caplog.text
    assert "REDACTED" in told
    assert KEY not in told
    assert result.trials[0].attempt.output == f"used {KEY}", "what was asked for is returned as it is"
    assert KEY not in await reflexion.memory.read(BLOCK)
    assert KEY not in agent.blocks[1]
    assert KEY not in (result.trials[1].attempt.error or "")


async def test_no_secret_is_heard_of_a_single_trial():
    reflexion = Reflexion(
        Player(f"used {KEY}"), evaluator=Grader(0.0), reflector=Writer(lambda number: f"use {KEY}")
    )
    session, ear = heard(reflexion)
    task = Task("x")
    trial = await reflexion.trial(task, [], session, commit=False)
    await reflexion.commit(task, trial, session)
    assert KEY not in json.dumps([as_json(event) for event in ear.events])


async def test_no_secret_is_heard_of_an_agents_own_events():
    async def agent(prompt: str, session: Session) -> str:
        await session.emit(
            AgentEvent(run_id=session.id, name="seen", data={"token": "x", "all": [f"key {KEY}"]})
        )
        return "a"

    session, ear = heard(reflexion := loop(agent))
    await reflexion.run("x", session=session)
    assert KEY not in json.dumps([as_json(event) for event in ear.events])


async def test_the_traceback_of_a_listener_shows_no_secret(caplog):
    class UnreadableError(Exception):
        def __str__(self) -> str:
            raise ValueError("password=hunter2hunter2")

    async def slow(event):
        raise UnreadableError

    def listener(event):
        raise RuntimeError("refused: password=hunter2hunter2")

    for each in (listener, slow):
        caplog.clear()
        reflexion = loop()
        assert (await reflexion.run("x", session=reflexion.session(listener=each))).passed
        assert f", in {each.__name__}" in caplog.text
        assert "hunter2" not in caplog.text


async def test_a_long_error_of_a_listener_does_not_hold_up_the_event_loop(monkeypatch):
    def listener(event):
        raise RuntimeError("long " * 15_000)

    threads = set()

    def noted(text: str) -> str:
        threads.add(threading.current_thread())
        return redact(text)

    monkeypatch.setattr("jeeves_reflexion.session.redact", noted)
    reflexion = loop()
    await reflexion.run("x", session=reflexion.session(listener=listener))
    assert threads
    assert threading.current_thread() not in threads


async def test_a_stream_hands_out_what_a_listener_hears():
    ear = Ear()
    reflexion = loop()
    async with reflexion.stream("x", session=reflexion.session(listener=ear)) as events:
        streamed = [event async for event in events]
    assert streamed == ear.events
    assert streamed[-1].kind == "reflexion.run_finished"
    assert events.result.stop_reason == "passed"


async def test_the_result_of_a_stream_is_there_when_its_last_event_is():
    async with loop().stream("x") as events:
        async for event in events:
            if event.kind == "reflexion.run_finished":
                break
    assert events.result.passed


async def test_leaving_a_stream_early_cancels_the_run():
    ended = []

    async def agent(prompt: str) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    with anyio.fail_after(60):
        async with loop(agent).stream("x") as events:
            async for event in events:
                if event.kind == "reflexion.attempt_started":
                    break
            await anyio.wait_all_tasks_blocked()
    assert ended == [True]
    with pytest.raises(SessionError, match="not over yet"):
        _ = events.result


async def test_leaving_a_stream_unread_cancels_the_run():
    agent = Player("a")
    with anyio.fail_after(60):
        async with loop(agent).stream("x"):
            await anyio.wait_all_tasks_blocked()
    assert agent.tasks == []


async def test_an_error_of_the_run_is_raised_where_the_stream_ends_as_itself():
    reflexion = loop(Player(ConfigurationError("no such tool")))
    seen = []
    with pytest.raises(ConfigurationError, match="no such tool"):
        async with reflexion.stream("x") as events:
            seen = [event.kind async for event in events]
    assert seen == ["reflexion.run_started", "reflexion.attempt_started"]


async def test_asking_a_failed_run_for_its_result_raises_the_runs_own_error():
    async def read() -> None:
        async with loop(Player(ConfigurationError("no such tool"))).stream("x") as events:
            async for _ in events:
                pass
            _ = events.result

    with pytest.raises(ConfigurationError, match="no such tool"):
        await read()


async def test_an_error_within_the_block_leaves_it_as_itself_and_cancels_the_run():
    async def read() -> None:
        async with loop().stream("x") as events:
            async for _ in events:
                raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await read()


async def test_cancelling_the_reader_cancels_the_run():
    started = anyio.Event()

    async def agent(prompt: str) -> str:
        started.set()
        await anyio.sleep_forever()

    reflexion = loop(agent)

    async def read():
        async with reflexion.stream("x") as events:
            async for _ in events:
                pass

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await started.wait()
            group.cancel_scope.cancel()
    assert await reflexion.memory.read(BLOCK) == ""


async def test_two_streams_at_once_keep_their_events_apart():
    reflexion = loop(evaluator=Grader(0.0), max_attempts=2)
    runs: dict[str, set[str]] = {}

    async def read(name: str) -> None:
        async with reflexion.stream(name) as events:
            runs[name] = {event.run_id async for event in events}

    async with anyio.create_task_group() as group:
        group.start_soon(read, "red")
        group.start_soon(read, "blue")
    assert len(runs["red"]) == len(runs["blue"]) == 1
    assert runs["red"] != runs["blue"]


class StopError(BaseException):
    pass


@table("error", [StopError("now"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
@table("part", ["agent", "evaluator", "reflector"])
@table("kind", ["async", "sync"])
async def test_what_is_no_exception_comes_out_of_a_stream_as_out_of_a_run(error, part, kind):
    def in_a_thread(first, *_):
        raise error

    async def raising(first, *_):
        raise error

    parts = {"agent": lambda prompt: "a", "evaluator": Grader(0.0), "reflector": Writer()}
    parts[part] = raising if kind == "async" else in_a_thread
    reflexion = Reflexion(parts.pop("agent"), **parts)

    async def read() -> None:
        async with reflexion.stream("x") as events:
            async for _ in events:
                pass

    for call in (read, lambda: reflexion.run("x")):
        with pytest.raises(type(error)) as caught:
            await call()
        assert caught.value is error


@pytest.mark.parametrize("part", ["agent", "evaluator", "reflector"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_nobody_asked_for_is_a_failure_of_its_part(part, anyio_backend):
    async def leaking(*_):
        waiting = asyncio.get_running_loop().create_future()
        waiting.cancel()
        await waiting

    async def agent(prompt: str) -> str:
        return "a" if part != "agent" else await leaking()

    parts = {"evaluator": Grader(0.0), "reflector": Writer(), part: leaking}
    parts.pop("agent", None)
    options = LoopOptions(budget=Budget(max_seconds=60))
    reflexion = Reflexion(agent, options=options, **parts)
    async with reflexion.stream("x") as events:
        kinds = [event.kind async for event in events]
    assert kinds[-1] == "reflexion.run_finished"
    assert (
        f"the {part} failed: RuntimeError: a cancellation that nobody asked for" in events.result.problems[0]
    )


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("how", ["cancel", "timeout"])
async def test_a_cancellation_by_asyncio_itself_ends_the_run(how, anyio_backend):
    started = asyncio.Event()

    async def agent(prompt: str) -> str:
        started.set()
        await asyncio.sleep(60)
        return "a"

    running = asyncio.create_task(loop(agent).run("x"))
    await started.wait()
    if how == "cancel":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(running, 0.01)
    assert running.cancelled()
