"""RecordedModel: what is recorded is played back, offline, to the same program."""

from functools import partial
from types import MappingProxyType

import anyio
import pytest
from tables import table

from jeeves_reflexion import Budget, LoopOptions, ReAct, Reflexion, ScriptedModel, Session, Task
from jeeves_reflexion.errors import (
    ConfigurationError,
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelRequestError,
    ModelResponseError,
    ModelTimeoutError,
)
from jeeves_reflexion.models import (
    Cassette,
    Exchange,
    FallbackModel,
    LimitedModel,
    Limits,
    RecordedModel,
    UnknownRequestError,
    recording_at,
)
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolCall, ToolSpec
from jeeves_reflexion.session import Spend
from jeeves_reflexion.types import Usage

pytestmark = pytest.mark.anyio

TOOL = ToolSpec("search", "Searches.", MappingProxyType({"type": "object", "properties": {"q": {}}}))
USAGE = Usage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.25)
SECRET = "sk-proj-" + "abcdEFGH1234" * 4


def said(text):
    return [Message("user", text)]


def tape(folder):
    return folder / "tape.jsonl"


async def recorded(folder, replies, *asked, mode="record"):
    """Record a model that gives these replies to these questions, and return it."""
    model = RecordedModel(tape(folder), ScriptedModel(replies), mode=mode)
    for question in asked:
        await model.complete(said(question))
    return model


async def test_what_was_recorded_is_played_without_the_model(tmp_path):
    answer = Completion("so", (ToolCall("1", "search", '{"q": "x"}'),), USAGE, "served-1", "tool_calls")
    live = RecordedModel(
        tape(tmp_path), ScriptedModel([answer], name="gpt", supports_tools=True), mode="record"
    )
    settings = {"tools": [TOOL], "schema": {"type": "object"}, "sampling": Sampling(temperature=0.0, seed=3)}
    assert await live.complete(said("go"), **settings) == answer
    offline = RecordedModel(tape(tmp_path))
    assert (offline.name, offline.supports_tools, offline.mode) == ("gpt", True, "replay")
    assert await offline.complete(said("go"), **settings) == answer
    assert (offline.counts.played, offline.counts.asked, offline.counts.played_usage) == (1, 0, USAGE)
    assert (live.counts.asked, live.counts.asked_usage) == (1, USAGE)


async def test_equal_requests_get_their_answers_in_order_and_no_more_than_there_are(tmp_path):
    await recorded(tmp_path, ["one", "two", "other", "three"], "q", "q", "p", "q")
    model = RecordedModel(tape(tmp_path))
    texts = [(await model.complete(said(question))).text for question in ("q", "p", "q", "q")]
    assert texts == ["one", "other", "two", "three"]
    with pytest.raises(UnknownRequestError, match="only 3 times"):
        await model.complete(said("q"))


@table(
    "change",
    [
        {"tools": ()},
        {"schema": {"type": "object", "required": ["a"]}},
        {"sampling": Sampling(temperature=0.5)},
        {"sampling": None},
    ],
)
async def test_tools_schema_and_sampling_are_part_of_a_request(tmp_path, change):
    settings = {"tools": [TOOL], "schema": {"type": "object"}, "sampling": Sampling(temperature=0.0)}
    live = RecordedModel(tape(tmp_path), ScriptedModel(["fine"]), mode="record")
    await live.complete(said("go"), **settings)
    with pytest.raises(UnknownRequestError):
        await RecordedModel(tape(tmp_path)).complete(said("go"), **{**settings, **change})


async def test_an_unknown_request_is_shown_beside_the_nearest_recorded_one(tmp_path):
    long = "word " * 200
    await recorded(tmp_path, ["a", "b"], "Put the mug on the shelf", f"{long}Which river is longer?\nSay it.")
    with pytest.raises(UnknownRequestError) as caught:
        await RecordedModel(tape(tmp_path)).complete(said(f"{long}Which river is wider?\nSay it."))
    lines = str(caught.value).splitlines()
    assert "tape.jsonl" in lines[0]
    assert [line[0] for line in lines[1:]] == ["-", "+"]
    assert "longer?" in lines[1]
    assert "wider?" in lines[2]
    assert max(map(len, lines)) < 300


async def test_the_difference_stays_short_and_without_secrets(tmp_path):
    await recorded(tmp_path, ["a"], "\n".join(f"line {n}" for n in range(60)))
    with pytest.raises(UnknownRequestError, match="more lines") as caught:
        await RecordedModel(tape(tmp_path)).complete(said("\n".join(f"line {n} {SECRET}" for n in range(60))))
    assert SECRET not in str(caught.value)
    assert len(str(caught.value).splitlines()) < 20


async def test_secrets_stay_out_of_the_file_and_do_not_matter_for_what_is_played(tmp_path):
    live = RecordedModel(tape(tmp_path), ScriptedModel([f"you said {SECRET}"]), mode="record")
    assert (await live.complete(said(f"key: {SECRET}"))).text == f"you said {SECRET}"
    assert SECRET not in tape(tmp_path).read_text()
    other = "sk-proj-" + "zyxwVUTS9876" * 4
    played = await RecordedModel(tape(tmp_path)).complete(said(f"key: {other}"))
    assert played.text == "you said [REDACTED:api_key]"


async def test_auto_asks_only_for_what_is_not_there_yet(tmp_path):
    await recorded(tmp_path, ["one", "two"], "q", "p", mode="auto")
    script = ScriptedModel(["new", "newer"])
    model = RecordedModel(tape(tmp_path), script)
    assert model.mode == "auto"
    texts = [(await model.complete(said(question))).text for question in ("q", "q", "p", "r")]
    assert texts == ["one", "new", "two", "newer"]
    assert (model.counts.played, model.counts.asked, len(script.calls)) == (2, 2, 2)
    again = await recorded(tmp_path, [], "q", "q", "p", "r", mode="auto")
    assert again.counts.asked == 0


async def test_record_asks_each_time_and_appends(tmp_path):
    await recorded(tmp_path, ["one"], "q")
    await recorded(tmp_path, ["two"], "q")
    assert [each.answer.text for each in Cassette(tape(tmp_path)).exchanges()] == ["one", "two"]


@pytest.mark.parametrize(
    "error",
    [
        ModelError("odd"),
        ModelTimeoutError("late"),
        ModelConnectionError("gone"),
        ModelResponseError("busy", status=503, said="try later"),
        ModelRequestError("no such model", status=404, said="no gpt-9"),
    ],
)
async def test_a_recorded_error_is_raised_in_its_turn(tmp_path, error):
    live = RecordedModel(tape(tmp_path), ScriptedModel([error, "fine"]), mode="record")
    for play in (lambda: live, lambda: RecordedModel(tape(tmp_path))):
        model = play()
        with pytest.raises(type(error)) as caught:
            await model.complete(said("q"))
        assert (type(caught.value), str(caught.value)) == (type(error), str(error))
        assert getattr(caught.value, "status", None) == getattr(error, "status", None)
        assert (await model.complete(said("q"))).text == "fine"
    # What was not answered was not paid for: auto asks again.
    auto = RecordedModel(tape(tmp_path), ScriptedModel([]))
    assert (await auto.complete(said("q"))).text == "fine"


async def test_auto_keeps_no_errors_and_no_mode_keeps_a_refused_key(tmp_path):
    for mode, error in (("auto", ModelTimeoutError("late")), ("record", ModelAuthError("bad key"))):
        model = RecordedModel(tape(tmp_path), ScriptedModel([error, "fine"]), mode=mode)
        with pytest.raises(type(error)):
            await model.complete(said(mode))
        await model.complete(said(mode))
    assert [each.answer.text for each in Cassette(tape(tmp_path)).exchanges()] == ["fine", "fine"]


async def test_equal_requests_at_different_places_keep_their_own_answers(tmp_path):
    places = [f"task {n}" for n in range(4)]

    async def ask(model, place, found):
        with recording_at(place):
            for _ in range(2):
                found.setdefault(place, []).append((await model.complete(said("q"))).text)

    async def all_at_once(model, order):
        found = {}
        async with anyio.create_task_group() as group:
            for place in order:
                group.start_soon(partial(ask, model, place, found))
        return found

    script = ScriptedModel([str(n) for n in range(8)])
    live = await all_at_once(RecordedModel(tape(tmp_path), script, mode="record"), places)
    assert sorted(text for texts in live.values() for text in texts) == [str(n) for n in range(8)]
    assert await all_at_once(RecordedModel(tape(tmp_path)), places[::-1]) == live
    with pytest.raises(UnknownRequestError, match=r"without a place only 0 times, and at 'task 0', 'task 1'"):
        await RecordedModel(tape(tmp_path)).complete(said("q"))


async def test_an_answer_is_recorded_although_its_caller_is_cancelled(tmp_path):
    class Cancelling(ScriptedModel):
        async def complete(self, messages, *, tools=(), schema=None, sampling=None):
            answer = await super().complete(messages, tools=tools, schema=schema, sampling=sampling)
            scope.cancel()
            return answer

    model = RecordedModel(tape(tmp_path), Cancelling(["paid"]))
    with anyio.CancelScope() as scope:
        await model.complete(said("q"))
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert (await RecordedModel(tape(tmp_path)).complete(said("q"))).text == "paid"


async def test_a_torn_last_line_is_left_out_and_asked_for_again(tmp_path, caplog):
    await recorded(tmp_path, ["one", "two"], "q", "p")
    tape(tmp_path).write_bytes(tape(tmp_path).read_bytes()[:-20])
    model = RecordedModel(tape(tmp_path), ScriptedModel(["again"]))
    assert "unfinished" in caplog.text
    assert [(await model.complete(said(text))).text for text in "qp"] == ["one", "again"]
    caplog.clear()
    whole = RecordedModel(tape(tmp_path))
    assert not caplog.text
    assert [(await whole.complete(said(text))).text for text in "qp"] == ["one", "again"]


class _WithoutTools(ScriptedModel):
    """Finds out at its first call with tools that its server has none, as the OpenAI-compatible one does."""

    async def complete(self, messages, *, tools=(), schema=None, sampling=None):
        if tools:
            self._supports_tools = False
            raise ModelResponseError("this server has no tools", status=400)
        return await super().complete(messages, tools=tools, schema=schema, sampling=sampling)


async def test_an_agent_does_offline_what_it_did_live(tmp_path):
    def search(query: str) -> str:
        """Search."""
        return f"nothing on {query}"

    replies = ["Thought: look\nAction: search[x]", "Thought: enough\nAction: Finish[42]"]
    live = RecordedModel(tape(tmp_path), _WithoutTools(replies, supports_tools=True), mode="record")
    first = await ReAct(live, [search])(Task("what?"), Session())
    second = await ReAct(RecordedModel(tape(tmp_path)), [search])(Task("what?"), Session())
    assert first.output == "42"
    assert (first.steps, first.usage) == (second.steps, second.usage)


async def test_an_unknown_request_ends_a_run_instead_of_passing_for_a_failed_attempt(tmp_path):
    await recorded(tmp_path, ["42"], "another question")
    loop = Reflexion(model=RecordedModel(tape(tmp_path)), evaluator=lambda output: output == "42")
    with pytest.raises(UnknownRequestError, match="no such request"):
        await loop.run("what?")


async def test_what_is_played_counts_for_the_budget_as_it_did(tmp_path):
    live = RecordedModel(tape(tmp_path), ScriptedModel([Completion("no", usage=USAGE)] * 2), mode="record")
    for play in (lambda: live, lambda: RecordedModel(tape(tmp_path))):
        loop = Reflexion(
            model=play(),
            evaluator=lambda output: output == "42",
            options=LoopOptions(learn=False, budget=Budget(max_cost_usd=0.4)),
        )
        result = await loop.run("what?", session=Session(spend=Spend(Budget(max_cost_usd=0.4))))
        assert (result.stop_reason, result.total_usage.cost_usd) == ("budget", 0.5)


async def test_one_recording_may_hold_several_models(tmp_path):
    for name in ("judge", "player"):
        await RecordedModel(tape(tmp_path), ScriptedModel([name], name=name), mode="record").complete(
            said("q")
        )
    with pytest.raises(ConfigurationError, match=r"models judge, player: choose one by name="):
        RecordedModel(tape(tmp_path))
    for name in ("judge", "player"):
        assert (await RecordedModel(tape(tmp_path), name=name).complete(said("q"))).text == name
    with pytest.raises(ConfigurationError, match="no model 'other'"):
        RecordedModel(tape(tmp_path), name="other")


async def test_answers_without_their_requests_are_played_by_a_script(tmp_path):
    cassette = Cassette(tape(tmp_path))
    cassette.append([Exchange("m", Completion(text)) for text in ("1", "2")])
    with pytest.raises(ConfigurationError, match="without their requests"):
        RecordedModel(tape(tmp_path))
    model = ScriptedModel([each.answer for each in cassette.exchanges()])
    assert [(await model.complete(said("whatever"))).text for _ in range(2)] == ["1", "2"]


@table(
    ("arguments", "problem"),
    [
        ({"mode": "record"}, "needs the real model"),
        ({"mode": "play"}, "mode must be one of record, replay, auto"),
        ({}, "there is no cassette"),
        ({"model": ScriptedModel([]), "name": "x"}, "without a model"),
    ],
)
async def test_what_cannot_work_is_said_at_once(tmp_path, arguments, problem):
    with pytest.raises(ConfigurationError, match=problem):
        RecordedModel(tape(tmp_path), **arguments)


async def test_an_empty_recording_cannot_be_played(tmp_path):
    tape(tmp_path).touch()
    with pytest.raises(ConfigurationError, match="is empty"):
        RecordedModel(tape(tmp_path))


async def test_closing_closes_the_models_within(tmp_path):
    class Closing(ScriptedModel):
        closed = False

        async def aclose(self):
            self.closed = True

    for wrap in (
        lambda inner: RecordedModel(tape(tmp_path), inner, mode="record"),
        lambda inner: LimitedModel(inner, Limits()),
        lambda inner: FallbackModel(inner, fallback=ScriptedModel([])),
        lambda inner: FallbackModel(Closing(["fine"]), fallback=inner),
    ):
        inner = Closing(["fine"])
        async with wrap(inner) as model:
            assert (await model.complete(said("q"))).text == "fine"
        assert inner.closed
    async with RecordedModel(tape(tmp_path)) as offline:
        assert offline.name == "scripted"


async def test_a_replay_beside_the_model_says_what_the_model_does_of_itself(tmp_path):
    class Priced(ScriptedModel):
        provider = "acme"

        def expected_cost(self, messages, **settings):
            return 0.5

    async with RecordedModel(tape(tmp_path), Priced(["fine"]), mode="record") as model:
        await model.complete(said("q"))
    replay = RecordedModel(tape(tmp_path), Priced([]), mode="replay")
    assert (replay.provider, replay.expected_cost(said("q"))) == ("acme", 0.5)
    assert (await replay.complete(said("q"))).text == "fine"
