"""Streamed answers: the same as unstreamed ones, told as they come, and never taken for whole where they broke off."""

from __future__ import annotations

import contextlib
import copy
import json
import random

import pytest
from tables import table

from jeeves_reflexion import AnthropicModel, OpenAIModel, Session
from jeeves_reflexion.errors import ModelConnectionError, ModelError, ModelResponseError, ModelTimeoutError
from jeeves_reflexion.events import TextStreamed
from jeeves_reflexion.models import AnthropicOptions, OpenAIOptions, Retry
from jeeves_reflexion.protocols import Message, ToolSpec

asynchronous = pytest.mark.anyio
on_both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

HELLO = [Message("user", "hello")]
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
TEXT = ["Gr\u00fc\u00dfe ", "\u2028\U0001f44b", " an alle"]
QUICK = Retry(retries=2, first_wait=0.001, longest_wait=0.01)


def chunk(delta=None, reason=None, **more):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"model": "served", "choices": choices, **more}


def called(arguments, **more):
    return {"index": 0, **more, "function": {"arguments": arguments}}


CHAT_CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}
CHAT = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Let me "}),
    chunk({"reasoning_content": "see."}),
    *(chunk({"content": text}) for text in TEXT),
    chunk({"tool_calls": [CHAT_CALL]}),
    chunk({"tool_calls": [called('{"a":')]}),
    chunk({"tool_calls": [called(" 1}")]}),
    chunk({}, "tool_calls"),
    chunk(usage={"prompt_tokens": 7, "completion_tokens": 5}),
]
CHAT_WHOLE = {
    "model": "served",
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": "".join(TEXT),
                "reasoning_content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"a": 1}'},
                    }
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 5},
}
ITEMS = [
    {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "gAAA"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "".join(TEXT)}]},
    {"type": "function_call", "id": "f1", "call_id": "c1", "name": "look", "arguments": '{"a": 1}'},
]
RESPONSE = {
    "model": "served",
    "status": "completed",
    "error": None,
    "output": ITEMS,
    "usage": {"input_tokens": 7, "output_tokens": 5},
}
RESPONSES = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
    *({"type": "response.output_text.delta", "delta": text} for text in TEXT),
    *({"type": "response.output_item.done", "item": item} for item in ITEMS),
    {"type": "response.completed", "response": {**RESPONSE, "output": []}},
]


def block(index, begun, *deltas):
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop", "index": index}


MESSAGES = [
    {
        "type": "message_start",
        "message": {"model": "served", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}},
    },
    {"type": "ping"},
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Let me "},
        {"type": "thinking_delta", "thinking": "see."},
        {"type": "signature_delta", "signature": "sig=="},
    ),
    *block(1, {"type": "text", "text": ""}, *({"type": "text_delta", "text": text} for text in TEXT)),
    *block(
        2,
        {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"a":'},
        {"type": "input_json_delta", "partial_json": " 1}"},
    ),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
MESSAGES_WHOLE = {
    "model": "served",
    "content": [
        {"type": "thinking", "thinking": "Let me see.", "signature": "sig=="},
        {"type": "text", "text": "".join(TEXT)},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 7, "output_tokens": 5},
}
FORMS = {
    "chat": (CHAT, CHAT_WHOLE),
    "responses": (RESPONSES, RESPONSE),
    "messages": (MESSAGES, MESSAGES_WHOLE),
}


def sse(*events):
    lines = [event if isinstance(event, str) else json.dumps(event, ensure_ascii=False) for event in events]
    return "".join(f"data: {line}\r\n\r\n" for line in [*lines]) + ": bye\n\n"


def connect(endpoint, form="chat", *, stream=True, idle=None, **settings):
    how = {"base_url": endpoint.url, "retry": QUICK, "stream": stream, **settings}
    if form == "messages":
        return AnthropicModel("m", options=AnthropicOptions(idle_timeout=idle), **how)
    return OpenAIModel("m", api=form, options=OpenAIOptions(idle_timeout=idle), **how)


async def ask(endpoint, form="chat", **settings):
    async with connect(endpoint, form, **settings) as model:
        return await model.complete(HELLO, tools=[TOOL])


@pytest.fixture
def streamed(canned):
    def made(*events, pieces=7, **more):
        headers = {"content-type": "text/event-stream"}
        return canned(sse(*events), headers=headers, pieces=pieces, **more)

    return made


async def listened(model):
    """Return the texts that a listener to a run hears while its agent asks the model."""
    heard = []
    session = Session(attempt=1, listener=heard.append)
    with session.acting_as("agent"):
        await model.complete(HELLO)
    return [event for event in heard if isinstance(event, TextStreamed)]


@asynchronous
@on_both_loops
@table("form", list(FORMS))
async def test_a_stream_comes_to_what_comes_without_one(endpoint, streamed, form):
    events, whole = FORMS[form]
    endpoint.gives(whole)
    unstreamed = await ask(endpoint, form, stream=False)
    # One byte at a time, and so in the middle of characters and of line ends, behind a mark of the order of bytes.
    sent = streamed(*events, "[DONE]", pieces=1)
    sent.body = f"\ufeff{sent.body}"
    endpoint.gives(sent)
    answer = await ask(endpoint, form)
    assert answer == unstreamed
    assert answer.opaque == unstreamed.opaque
    assert (answer.text, answer.usage.tokens, len(answer.tool_calls)) == ("".join(TEXT), 12, 1)
    assert endpoint.requests[0]["stream"] is True
    assert await ask(endpoint, form, stream=False) == unstreamed  # of a server that streams all the same
    endpoint.gives(whole)  # and of one that does not
    assert await ask(endpoint, form) == unstreamed


@asynchronous
@table("form", list(FORMS))
async def test_a_listener_hears_the_words_as_they_come(endpoint, streamed, form):
    events = [each for each in FORMS[form][0] if "tool" not in json.dumps(each) or form == "chat"]
    endpoint.gives(streamed(*events))
    async with connect(endpoint, form) as model:
        heard = await listened(model)
    assert [event.text for event in heard] == TEXT
    assert {(event.role, event.model, event.attempt) for event in heard} == {("agent", "m", 1)}


BREAKS = {
    "closed": ([], {"cut": 1}, ModelConnectionError),
    "ended": ([], {}, ModelConnectionError),
    "half an event": (['{"choices": [{"del'], {}, ModelResponseError),
    "an error": ([{"error": {"message": "overloaded", "code": 503}}], {}, ModelResponseError),
    "an error by its type": (
        [{"type": "error", "error": {"type": "overloaded_error"}}],
        {},
        ModelResponseError,
    ),
    "silent": ([], {"hang": True}, ModelTimeoutError),
}


@asynchronous
@table("form", list(FORMS))
@table("how", list(BREAKS))
async def test_a_stream_that_breaks_off_is_an_error_and_nothing_that_was_heard_is_asked_again(
    endpoint, streamed, form, how
):
    last, more, kind = BREAKS[how]
    said = next(
        place
        for place, event in enumerate(FORMS[form][0])
        if TEXT[0] in json.dumps(event, ensure_ascii=False)
    )
    broken = streamed(*FORMS[form][0][: said + 1], *last, **more)
    endpoint.gives(broken)
    with pytest.raises(kind) as caught:
        await ask(endpoint, form, idle=0.5 if how == "silent" else None)
    assert not caught.value.handed_on
    assert len(endpoint.requests) == (1 if how in ("silent", "half an event") else 3)
    endpoint.gives(broken, FORMS[form][1])
    async with connect(endpoint, form, idle=0.5 if how == "silent" else None) as model:
        with pytest.raises(kind) as caught:
            await listened(model)
    assert caught.value.handed_on
    assert len(endpoint.requests) == 1


@asynchronous
@table(
    ("deltas", "calls"),
    [
        # Gemini's, which have one index; those of servers that give none, or say the name again.
        (
            [{**called("{}", id="a")}, {**called("{}", id="b")}],
            ["a {}", "b {}"],
        ),
        (
            [{"id": "a", "function": {"name": "look", "arguments": "{"}}, {"function": {"arguments": "}"}}],
            ["a {}"],
        ),
        ([called("{", id="a"), called("}", id="a"), {**called("", id="")}], ["a {}"]),
        ([{**called("{}", id="a"), "index": 1}, {**called("[]", id="b"), "index": 0}], ["a {}", "b []"]),
    ],
)
async def test_calls_of_tools_are_put_together_from_their_parts(endpoint, streamed, deltas, calls):
    for each in deltas:
        if each.get("id"):
            each["function"]["name"] = "look"
    endpoint.gives(
        streamed(*(chunk({"tool_calls": [each]}) for each in deltas), chunk(None), chunk({}, "stop"))
    )
    answer = await ask(endpoint)
    assert [f"{call.id} {call.arguments}" for call in answer.tool_calls] == calls
    assert answer.usage.unreported == 1  # and so it stays


@asynchronous
async def test_a_whole_answer_whose_stream_stays_open_past_its_time_is_not_lost(
    endpoint, streamed, monkeypatch
):
    monkeypatch.setattr("vectorstores.json_http._AFTER_END", 30.0)
    endpoint.gives(streamed(*CHAT, pieces=4096, hang=True))
    assert (await ask(endpoint, timeout=2.0)).text == "".join(TEXT)


@asynchronous
async def test_a_server_that_can_not_count_is_asked_without(endpoint, canned, streamed):
    refusal = canned({"error": {"message": "stream_options: Extra inputs are not permitted"}}, 422)
    endpoint.gives(refusal, streamed(*CHAT))
    assert (await ask(endpoint)).text == "".join(TEXT)
    assert ["stream_options" in request for request in endpoint.requests] == [True, False]


@asynchronous
async def test_a_call_that_the_bound_of_tokens_cut_off_is_none(endpoint, streamed):
    end = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {}}
    endpoint.gives(
        streamed(*[each for each in MESSAGES if " 1}" not in json.dumps(each)][:-2], end, MESSAGES[-1])
    )
    answer = await ask(endpoint, "messages")
    assert (answer.finish_reason, answer.tool_calls, answer.usage.unreported) == ("length", (), 1)


ODD = (None, 5, "x", "", [], {}, [None], ["a"], [{}], {"index": "a"}, {"a": {"b": 1}}, True, [[1]])


def garbled(value, dice):
    """Return a value with some of its parts taken away, or others in their place."""
    if dice.random() < 0.12:
        return copy.deepcopy(dice.choice(ODD))
    if isinstance(value, dict):
        return {name: garbled(item, dice) for name, item in value.items() if dice.random() > 0.03}
    return [garbled(item, dice) for item in value] if isinstance(value, list) else value


@asynchronous
@table("form", list(FORMS))
async def test_however_odd_its_events_a_stream_is_an_answer_or_an_error_of_ours(endpoint, streamed, form):
    events, _ = FORMS[form]
    dice = random.Random(form)
    endpoint.respond = lambda _: streamed(
        *(garbled(event, dice) for event in events[:-1]), events[-1], pieces=4096
    )
    async with connect(endpoint, form, retry=Retry(0)) as model:
        for _ in range(150):
            with contextlib.suppress(ModelError):
                await model.complete(HELLO)
