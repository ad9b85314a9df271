"""ScriptedModel and open_model."""

from __future__ import annotations

import anyio
import pytest
from tables import table

import jeeves_reflexion.models as room
from jeeves_reflexion.errors import ConfigurationError, ModelAuthError, ModelTimeoutError
from jeeves_reflexion.models import OpenAIModel, ScriptedModel, open_model
from jeeves_reflexion.protocols import ChatModel, Completion, Message, ToolCall

HELLO = [Message("user", "hello there")]

asynchronous = pytest.mark.anyio


@asynchronous
async def test_it_gives_its_replies_in_order_and_keeps_the_calls():
    given = Completion("", tool_calls=(ToolCall("1", "look", "{}"),))
    model = ScriptedModel(["one", given, ModelTimeoutError("late")])
    assert isinstance(model, ChatModel)
    assert (await model.complete(HELLO)).text == "one"
    assert await model.complete(HELLO) is given
    with pytest.raises(ModelTimeoutError, match="late"):
        await model.complete(HELLO)
    assert [call.messages for call in model.calls] == [tuple(HELLO)] * 3


@asynchronous
async def test_a_call_beyond_the_script_says_so():
    model = ScriptedModel(["one"], name="tiny")
    await model.complete(HELLO)
    with pytest.raises(ConfigurationError, match=r"'tiny' has 1 replies and was asked again.*'hello there'"):
        await model.complete(HELLO)


@asynchronous
async def test_the_usage_of_a_text_is_estimated_from_it():
    usage = (await ScriptedModel(["a" * 40]).complete([Message("user", "b" * 20)])).usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 5, 10)
    assert (usage.cost_usd, usage.unreported) == (0.0, 0)


@asynchronous
async def test_replies_may_be_a_sync_or_async_function_of_the_messages():
    async def slowly(messages):
        await anyio.sleep(0.001)
        return messages[-1].content.upper()

    assert (await ScriptedModel(lambda messages: f"{len(messages)} heard").complete(HELLO)).text == "1 heard"
    assert (await ScriptedModel(slowly).complete(HELLO)).text == "HELLO THERE"


@asynchronous
async def test_it_lets_others_run_and_can_be_cancelled():
    with anyio.move_on_after(0.05) as scope:
        model = ScriptedModel(lambda _: "again")
        while True:
            await model.complete(HELLO)
    assert scope.cancelled_caught


def test_one_text_is_no_script():
    with pytest.raises(ConfigurationError, match="list of replies"):
        ScriptedModel("hello")


@table(("spec", "name"), [("gpt-4o-mini", "gpt-4o-mini"), ("openai:o3", "o3"), ("llama3:8b", "llama3:8b")])
def test_open_model_reads_a_name(spec, name):
    model = open_model(spec, base_url="http://localhost:11434/v1")
    assert isinstance(model, OpenAIModel)
    assert model.name == name


def test_open_model_refuses_an_empty_name_and_a_missing_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="has no name"):
        open_model("openai: ")
    with pytest.raises(ModelAuthError, match="OPENAI_API_KEY"):
        open_model("gpt-4o-mini")


def test_every_public_name_of_the_room_is_there():
    assert room.__all__ == sorted(room.__all__)
    for name in room.__all__:
        assert getattr(room, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        room.Nothing  # noqa: B018
