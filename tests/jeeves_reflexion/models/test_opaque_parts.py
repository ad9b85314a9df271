"""What came with an assistant message goes back with the next turn, unchanged, also when it is played."""

from __future__ import annotations

import base64
import json
import random

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import ReAct, RecordedModel, Reflexion, Session, Task
from jeeves_reflexion.errors import ModelResponseError
from jeeves_reflexion.models import OpenAIModel, Retry
from jeeves_reflexion.protocols import Completion, Message

asynchronous = pytest.mark.anyio

HELLO = [Message("user", "hello")]
SEAL = base64.b64encode(random.Random(1).randbytes(300)).decode()
CALL = {
    "id": "call_q8Zx71LmPw0aRt5KdY3v",
    "type": "function",
    "function": {"name": "count", "arguments": '{"item": "x"}'},
}
CARRIED = {
    "reasoning": {"content": None, "reasoning_content": "First I count.", "tool_calls": [CALL]},
    "signature": {
        "content": None,
        "tool_calls": [{**CALL, "extra_content": {"google": {"thought_signature": SEAL}}}],
    },
    "details": {
        "content": "",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": SEAL, "index": 0, "format": None}],
        "tool_calls": [{**CALL, "index": 0}],
    },
    "parts": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "ok"},
        ],
        "tool_calls": [CALL],
    },
    "thinking in the text": {"content": "<think>hm</think>counting", "tool_calls": [CALL]},
}


def count(item: str) -> int:
    """Count what is in stock."""
    return len(item)


def connect(endpoint):
    return OpenAIModel("m", base_url=endpoint.url, retry=Retry(0))


def react(model):
    async def run():
        return await ReAct(model, [count])(Task("How many?"), Session())

    return anyio.run(run)


@table("what", CARRIED)
def test_react_hands_on_what_came_with_a_message(endpoint, completed, what):
    message = {"role": "assistant", **CARRIED[what]}
    endpoint.gives(completed(**_as_arguments(message)), completed("1"))
    attempt = react(connect(endpoint))
    assert attempt.output == "1"
    assert endpoint.requests[1]["messages"][-2] == message
    assert endpoint.requests[1]["messages"][-1]["tool_call_id"] == CALL["id"]


def _as_arguments(message):
    return {"text": message["content"], **{k: v for k, v in message.items() if k != "content"}}


@table("mode", ["replay", "auto"])
@table("what", CARRIED)
def test_it_survives_a_recording(endpoint, completed, tmp_path, what, mode):
    message = {"role": "assistant", **CARRIED[what]}
    endpoint.gives(completed(**_as_arguments(message)), completed("1"))
    tape, cut = tmp_path / f"{mode} {what}", tmp_path / f"{mode} {what} cut"
    live = react(RecordedModel(tape, connect(endpoint), mode="record"))
    if mode == "replay":
        assert react(RecordedModel(tape)).steps == live.steps
        return
    # A run that was cut off after the first answer goes on with the real model, from what is in the file.
    first, _ = tape.read_text().splitlines()
    cut.write_text(f"{first}\n")
    endpoint.gives(completed("2"))
    assert react(RecordedModel(cut, connect(endpoint))).output == "2"
    assert endpoint.requests[0]["messages"][-2] == message
    assert endpoint.requests[0]["messages"][-1]["tool_call_id"] == CALL["id"]


@table("name", ["reasoning_content", "signature", "thought_signature"])
def test_a_secret_in_it_reaches_no_file_log_or_lesson(endpoint, completed, tmp_path, caplog, name):
    secret = "sk-proj-" + "abcdEFGH1234" * 4
    said = completed("no", **{name: secret})
    endpoint.gives(said, completed("A lesson: look twice before you count."), said)
    model = RecordedModel(tmp_path / "tape", connect(endpoint), mode="record")
    heard = []
    loop = Reflexion(ReAct(model), evaluator=lambda output: 0.0, reflector=model, max_attempts=2)
    result = anyio.run(lambda: loop.run("Count.", session=Session(listener=heard.append)))
    told = (tmp_path / "tape").read_text() + caplog.text + repr(result) + repr(heard) + repr(model)
    assert secret not in told
    assert secret[:12] not in told


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    extra=st.dictionaries(
        st.text(min_size=1).filter(
            lambda n: n not in ("role", "content", "tool_calls", "finish_reason", "usage")
        ),
        json_values,
        max_size=3,
    ),
    on_call=st.dictionaries(
        st.text().filter(lambda n: n not in ("id", "type", "function")), json_values, max_size=2
    ),
    text=st.none() | st.text(),
)
def test_whatever_came_goes_back_as_it_was(endpoint, canned, extra, on_call, text):
    message = {"role": "assistant", "content": text, **extra, "tool_calls": [{**CALL, **on_call}]}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    endpoint.gives(canned(json.dumps(body)), canned(json.dumps({"choices": [{"message": {"content": "1"}}]})))

    async def two_turns():
        async with connect(endpoint) as model:
            first = await model.complete(HELLO)
            await model.complete([*HELLO, first.message(), Message("tool", "1", tool_call_id=CALL["id"])])

    anyio.run(two_turns)
    sent = endpoint.requests[1]["messages"][1]
    said = {name for name, value in message.items() if value not in (None, "", [], {})}
    assert json.dumps({name: sent[name] for name in message if name in said}) == json.dumps(
        {name: value for name, value in message.items() if name in said}
    )


@asynchronous
async def test_a_plain_answer_carries_nothing(endpoint, completed):
    endpoint.gives(completed("hi", refusal=None, annotations=[]), completed(None, tool_calls=[CALL]))
    async with connect(endpoint) as model:
        assert [(await model.complete(HELLO)).opaque for _ in range(2)] == [{}, {}]


@asynchronous
async def test_a_call_without_an_id_goes_back_with_the_one_that_its_result_names(endpoint, completed):
    call = {"function": {"name": "count", "arguments": {"item": "x"}}, "extra_content": {"a": 1}}
    endpoint.gives(completed(None, tool_calls=[call]), completed("1"))
    async with connect(endpoint) as model:
        first = await model.complete(HELLO)
        await model.complete([*HELLO, first.message(), Message("tool", "1", tool_call_id="call_0")])
    (sent,) = endpoint.requests[1]["messages"][1]["tool_calls"]
    assert sent == {
        "id": "call_0",
        "type": "function",
        "function": {"name": "count", "arguments": '{"item": "x"}'},
        "extra_content": {"a": 1},
    }


@asynchronous
async def test_what_an_endpoint_does_not_take_back_is_left_out_with_a_warning(
    endpoint, canned, completed, caplog
):
    said = "messages.1.reasoning: Extra inputs are not permitted"
    endpoint.respond = lambda request: (
        canned({"error": {"message": said}}, 400)
        if any("reasoning" in message for message in request["messages"])
        else canned(completed("hm", reasoning="because", reasoning_content="kept"))
    )
    async with connect(endpoint) as model:
        first = await model.complete(HELLO)
        await model.complete([*HELLO, first.message(), Message("user", "and?")])
    assert endpoint.requests[-1]["messages"][1] == {
        "role": "assistant",
        "content": "hm",
        "reasoning_content": "kept",
    }
    assert "without reasoning" in caplog.text


@asynchronous
async def test_a_form_that_a_model_does_not_know_is_not_sent(endpoint, completed):
    endpoint.gives(completed())
    answer = Completion("hi", opaque={"another": {"content": "bye"}})
    async with connect(endpoint) as model:
        await model.complete([*HELLO, answer.message(), Message("user", "and?")])
    assert endpoint.requests[0]["messages"][1] == {"role": "assistant", "content": "hi"}


@asynchronous
async def test_a_message_with_an_opaque_part_may_be_looked_up_in_a_set():
    one, other = (Completion("hi", opaque={"chat": {"n": n}}).message() for n in (1, 2))
    assert len({one, other, one}) == 2
    assert "chat" not in repr(one)


@asynchronous
async def test_a_message_that_is_refused_for_what_is_missing_is_an_error(endpoint, canned):
    endpoint.gives(canned({"error": {"message": "Missing reasoning_content in message 1"}}, 400))
    async with connect(endpoint) as model:
        with pytest.raises(ModelResponseError, match="Missing reasoning_content"):
            await model.complete(HELLO)
