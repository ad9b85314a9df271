"""OpenAIModel against a real server: what it sends and reads, and each way in which a server can fail."""

from __future__ import annotations

import datetime
import json
import logging
import socket
import subprocess
import sys
import time
import traceback
from email.utils import format_datetime

import anyio
import anyio.to_thread
import pytest
from tables import table

from jeeves_reflexion import Reflexion
from jeeves_reflexion.errors import (
    ConfigurationError,
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelRequestError,
    ModelResponseError,
    ModelTimeoutError,
)
from jeeves_reflexion.models import AnthropicOptions, OpenAIModel, OpenAIOptions, Prices, Retry
from jeeves_reflexion.protocols import ChatModel, Message, Sampling, ToolCall, ToolSpec
from vectorstores.json_http import Waits

KEY = "sk-verysecret0123456789abcdef"
QUICK = Retry(retries=2, first_wait=0.001, longest_wait=0.3)
HELLO = [Message("system", "be brief"), Message("user", "hello")]
SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}
WEATHER = ToolSpec(
    "weather", "The weather of a city.", {"type": "object", "properties": {"city": {"type": "string"}}}
)

asynchronous = pytest.mark.anyio
on_both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def connect(endpoint, **settings):
    return OpenAIModel("some-model", **{"base_url": endpoint.url, "api_key": KEY, "retry": QUICK, **settings})


async def say_hello(endpoint, **settings):
    async with connect(endpoint, **settings) as model:
        return await model.complete(HELLO)


@asynchronous
@on_both_loops
async def test_it_sends_the_conversation_and_reads_text_usage_and_cost(endpoint, completed):
    endpoint.gives(completed("hi"))
    async with connect(endpoint, prices=Prices(input=1.0, output=4.0)) as model:
        assert isinstance(model, ChatModel)
        sampling = Sampling(temperature=0.5, max_tokens=9, stop=("END",), seed=7)
        answer = await model.complete(HELLO, sampling=sampling)
    assert (answer.text, answer.model, answer.finish_reason) == ("hi", "served-model", "stop")
    assert (answer.usage.calls, answer.usage.input_tokens, answer.usage.output_tokens) == (1, 12, 3)
    assert answer.usage.cost_usd == pytest.approx(24e-6)
    assert endpoint.requests == [
        {
            "model": "some-model",
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
            "temperature": 0.5,
            "max_tokens": 9,
            "stop": ["END"],
            "seed": 7,
        }
    ]
    assert endpoint.paths == ["/v1/chat/completions"]
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"


@asynchronous
async def test_settings_that_are_not_given_are_not_sent(endpoint, completed):
    endpoint.gives(completed())
    await say_hello(endpoint)
    assert set(endpoint.requests[0]) == {"model", "messages"}


@asynchronous
@table("usage", [None, {}, {"prompt_tokens": "many", "completion_tokens": 1}, "none"])
async def test_usage_that_is_not_reported_is_unknown_not_free(endpoint, completed, usage):
    endpoint.gives(completed(usage=usage))
    answer = await say_hello(endpoint, prices=Prices(1.0, 1.0))
    assert (answer.usage.calls, answer.usage.unreported, answer.usage.tokens) == (1, 1, 0)
    assert answer.usage.cost_usd is None


@asynchronous
async def test_without_prices_the_cost_is_unknown(endpoint, completed):
    endpoint.gives(completed())
    assert (await say_hello(endpoint)).usage.cost_usd is None


@asynchronous
async def test_content_may_be_a_list_of_parts_or_missing(endpoint, completed):
    parts = [{"type": "text", "text": "one "}, {"type": "image"}, {"type": "text", "text": "two"}]
    endpoint.gives(completed(parts), completed(None, refusal="I won't"), completed(None))
    async with connect(endpoint) as model:
        texts = [(await model.complete(HELLO)).text for _ in range(3)]
    assert texts == ["one two", "I won't", ""]


@asynchronous
@table("status", [408, 409, 429, 500, 502, 503, 529])
async def test_passing_failures_are_repeated(endpoint, canned, completed, status):
    endpoint.gives(canned("later", status), canned("later", status), completed("at last"))
    assert (await say_hello(endpoint)).text == "at last"
    assert len(endpoint.requests) == 3


@asynchronous
@table("status", [400, 404, 413, 422, 301])
async def test_other_failures_are_not(endpoint, canned, status):
    endpoint.gives(canned('{"error": "that model does not exist"}', status))
    with pytest.raises(ModelResponseError, match="that model does not exist") as caught:
        await say_hello(endpoint)
    assert caught.value.status == status
    assert endpoint.url in str(caught.value)
    assert len(endpoint.requests) == 1


@asynchronous
@table(
    ("status", "said", "refused"),
    [
        (404, "The model `gpt-9` does not exist", True),
        (400, "gpt-9 is not a valid model ID", True),
        (402, "Insufficient balance", True),
        (422, "extra fields not permitted: top_k", True),
        (400, "This model's maximum context length is 4096 tokens", False),
        (400, "The response was filtered by the content management policy", False),
        (400, "The input token count (1200000) exceeds the maximum number of tokens allowed", False),
        (413, "request too large", False),
        (301, "moved", False),
    ],
)
async def test_a_refused_request_is_told_from_a_refused_text(endpoint, canned, status, said, refused):
    endpoint.gives(canned({"error": {"message": said}}, status))
    with pytest.raises(ModelResponseError, match=str(status)) as caught:
        await say_hello(endpoint)
    assert isinstance(caught.value, ModelRequestError) is refused


@asynchronous
@table("part", ["model", "evaluator", "reflector"])
async def test_a_wrong_name_of_a_model_ends_the_run_whoever_asks_it(endpoint, canned, part):
    endpoint.gives(canned({"error": {"message": "The model `gpt-9` does not exist"}}, 404))
    parts = {"model": None, "evaluator": lambda output: 0.0, "reflector": lambda task, trials: "Look left."}
    base = None if part == "model" else lambda prompt: "an answer"
    async with connect(endpoint) as model:
        loop = Reflexion(base, **{**parts, part: model})
        with pytest.raises(ModelRequestError, match="`gpt-9` does not exist"):
            await loop.run("x")
    assert len(endpoint.requests) == 1


@asynchronous
async def test_when_it_gives_up_it_says_how_often_it_asked(endpoint, canned):
    endpoint.gives(canned("overloaded", 503))
    with pytest.raises(ModelResponseError, match=r"503: overloaded \(asked 3 times\)") as caught:
        await say_hello(endpoint)
    assert caught.value.status == 503
    assert len(endpoint.requests) == 3


@asynchronous
@on_both_loops
async def test_it_waits_as_long_as_the_server_asks_in_seconds(endpoint, canned, completed):
    endpoint.gives(canned("slow down", 429, {"Retry-After": "0.2"}), completed())
    started = time.monotonic()
    await say_hello(endpoint)
    assert time.monotonic() - started >= 0.2


@asynchronous
@table("named", ["seconds", "date"])
async def test_it_does_not_wait_longer_than_its_limit(endpoint, canned, named):
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    named = "3600" if named == "seconds" else format_datetime(until, usegmt=True)
    endpoint.gives(canned("slow down", 429, {"Retry-After": named}))
    with pytest.raises(ModelResponseError, match=r"asks to wait (3600|35\d\d) s, more than longest_wait"):
        await say_hello(endpoint)
    assert len(endpoint.requests) == 1


@asynchronous
async def test_an_unreadable_retry_after_is_as_none(endpoint, canned, completed):
    endpoint.gives(canned("slow down", 429, {"Retry-After": "soon"}), completed("ok"))
    assert (await say_hello(endpoint)).text == "ok"


@asynchronous
@on_both_loops
async def test_a_connection_cut_in_the_middle_of_an_answer_is_repeated(endpoint, canned, completed):
    endpoint.gives(canned(completed("long" * 50), cut=100), completed("whole"))
    assert (await say_hello(endpoint)).text == "whole"


@asynchronous
async def test_a_connection_that_is_always_cut_is_a_connection_error(endpoint, canned, completed):
    endpoint.gives(canned(completed("long" * 50), cut=100))
    with pytest.raises(ModelConnectionError, match="asked 3 times"):
        await say_hello(endpoint)


@asynchronous
@on_both_loops
async def test_nothing_listening_is_a_connection_error_naming_the_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    async with OpenAIModel("m", base_url=url, retry=QUICK) as model:
        with pytest.raises(ModelConnectionError, match="is it running") as caught:
            await model.complete(HELLO)
    assert url in str(caught.value)


@asynchronous
@table(
    "body",
    [
        "<html><body>Welcome to nginx</body></html>",
        '{"choices": [{"message": {"con',
        "",
        '["a list"]',
        b"\xff\xfe\x00",
    ],
)
async def test_an_answer_that_is_no_json_object_is_shown_and_not_repeated(endpoint, canned, body):
    endpoint.gives(canned(body, headers={"content-type": "text/html; charset=hex"}))
    with pytest.raises(ModelResponseError, match="no JSON object") as caught:
        await say_hello(endpoint)
    assert endpoint.url in str(caught.value)
    assert isinstance(body, bytes) or body[:30] in str(caught.value)
    assert len(endpoint.requests) == 1


@asynchronous
@table(
    "body",
    [{}, {"choices": []}, {"choices": [{"message": "hi"}]}, {"choices": [], "error": None}],
)
async def test_json_that_is_no_completion_is_an_error_that_shows_it(endpoint, body):
    endpoint.gives(body)
    with pytest.raises(ModelResponseError, match="answered without choices"):
        await say_hello(endpoint)


@asynchronous
async def test_a_long_answer_is_cut_in_the_error(endpoint, canned):
    endpoint.gives(canned("x" * 100_000, 400))
    with pytest.raises(ModelResponseError) as caught:
        await say_hello(endpoint)
    assert len(str(caught.value)) < 600


@asynchronous
@on_both_loops
async def test_no_answer_in_time_is_a_timeout(endpoint, canned):
    endpoint.gives(canned(hang=True))
    with pytest.raises(ModelTimeoutError, match=r"no answer within 0\.2 s"):
        await say_hello(endpoint, timeout=0.2)
    assert len(endpoint.requests) <= 1  # not asked again; a busy machine may not have read it yet


@asynchronous
@on_both_loops
async def test_a_call_can_be_cancelled(endpoint, canned, completed):
    endpoint.gives(canned(hang=True), completed("after"))
    async with connect(endpoint) as model:
        async with anyio.create_task_group() as group:
            group.start_soon(model.complete, HELLO)
            assert await anyio.to_thread.run_sync(endpoint.hanging.wait, 10)
            group.cancel_scope.cancel()
        assert (await model.complete(HELLO)).text == "after"


@asynchronous
@table("status", [401, 403])
async def test_a_refused_key_names_the_variable_and_hides_the_key(endpoint, canned, status):
    endpoint.gives(canned({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status))
    with pytest.raises(ModelAuthError, match="OPENAI_API_KEY") as caught:
        await say_hello(endpoint)
    assert KEY not in str(caught.value)
    endpoint.gives(canned("a page", headers={"content-type": f"text/{KEY}"}))
    with pytest.raises(ModelResponseError, match="a page") as caught:
        await say_hello(endpoint)
    assert KEY not in str(caught.value)
    assert len(endpoint.requests) == 1


@asynchronous
async def test_the_key_is_in_no_error_repr_or_log(endpoint, canned, completed, caplog):
    plain = "hunter2-hunter2"  # unlike any pattern of a key
    caplog.set_level(logging.DEBUG)
    endpoint.gives(
        canned(f"bad {plain}", 500),
        canned(f"<p>{plain}", 200),
        canned(completed(), 418),
        {"echo": plain, "choices": 1},
    )
    async with connect(endpoint, api_key=plain) as model:
        for _ in range(3):
            with pytest.raises(ModelResponseError) as caught:
                await model.complete(HELLO)
            assert plain not in f"{caught.value!s}{caught.value!r}{caught.value.said}"
        assert plain not in repr(model)
    assert plain not in caplog.text


@asynchronous
async def test_a_schema_is_sent_as_response_format(endpoint, completed):
    endpoint.gives(completed('{"score": 1}'))
    async with connect(endpoint) as model:
        await model.complete(HELLO, schema=SCHEMA)
    sent = endpoint.requests[0]["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["schema"] == SCHEMA


@asynchronous
@table("status", [400, 404, 422])
async def test_a_server_without_response_format_gets_the_schema_in_the_prompt_from_then_on(
    endpoint, canned, completed, status
):
    endpoint.gives()
    endpoint.respond = lambda request: (
        canned({"error": {"message": "This response_format type is unavailable now"}}, status)
        if "response_format" in request
        else canned(completed("{}"))
    )
    async with connect(endpoint) as model:
        for _ in range(2):
            assert (await model.complete(HELLO, schema=SCHEMA)).text == "{}"
    assert ["response_format" in request for request in endpoint.requests] == [True, False, False]
    asked = endpoint.requests[-1]["messages"][-1]
    assert asked["role"] == "user"
    assert asked["content"].startswith("hello")
    assert '"score"' in asked["content"]


@asynchronous
async def test_json_schema_can_be_switched_off(endpoint, completed):
    endpoint.gives(completed("{}"))
    async with connect(endpoint, options=OpenAIOptions(json_schema=False)) as model:
        await model.complete([*HELLO, Message("assistant", "hm")], schema=SCHEMA)
    assert "response_format" not in endpoint.requests[0]
    assert endpoint.requests[0]["messages"][-1]["role"] == "user"


@asynchronous
async def test_max_tokens_becomes_max_completion_tokens_where_it_must(endpoint, canned, completed):
    said = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    endpoint.respond = lambda request: (
        canned({"error": {"message": said}}, 400) if "max_tokens" in request else canned(completed())
    )
    async with connect(endpoint) as model:
        for _ in range(2):
            await model.complete(HELLO, sampling=Sampling(max_tokens=5))
    assert [request.get("max_completion_tokens") for request in endpoint.requests] == [None, 5, 5]


@asynchronous
async def test_a_refused_temperature_is_left_out_with_a_warning(endpoint, canned, completed, caplog):
    said = "'temperature' does not support 0.0 with this model. Only the default is supported."
    endpoint.respond = lambda request: (
        canned({"error": {"message": said}}, 400) if "temperature" in request else canned(completed())
    )
    async with connect(endpoint) as model:
        await model.complete(HELLO, sampling=Sampling(temperature=0.0))
    assert "without temperature" in caplog.text


@asynchronous
async def test_a_wrong_value_is_an_error_not_a_missing_setting(endpoint, canned):
    endpoint.gives(canned({"error": {"message": "max_tokens is too large: 9. Maximum: 5."}}, 400))
    async with connect(endpoint) as model:
        with pytest.raises(ModelResponseError, match="too large"):
            await model.complete(HELLO, sampling=Sampling(max_tokens=9))
    assert len(endpoint.requests) == 1


@asynchronous
async def test_tools_go_out_and_come_back(endpoint, completed):
    called = [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}},
        {"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}},
    ]
    endpoint.gives(completed(None, tool_calls=called, finish_reason="tool_calls"), completed("cold"))
    async with connect(endpoint) as model:
        assert model.supports_tools
        first = await model.complete(HELLO, tools=[WEATHER])
        assert first.tool_calls[0] == ToolCall("c1", "weather", '{"city": "Oslo"}')
        assert first.tool_calls[1] == ToolCall("call_1", "weather", '{"city": "Rome"}')
        told = [Message("assistant", "", first.tool_calls[:1]), Message("tool", "-3 C", tool_call_id="c1")]
        assert (await model.complete([*HELLO, *told], tools=[WEATHER])).text == "cold"
    assert endpoint.requests[0]["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": WEATHER.description,
                "parameters": WEATHER.parameters,
            },
        }
    ]
    assert endpoint.requests[1]["messages"][2:] == [
        {"role": "assistant", "content": "", "tool_calls": called[:1]},
        {"role": "tool", "content": "-3 C", "tool_call_id": "c1"},
    ]


@asynchronous
async def test_a_tool_call_without_a_name_is_an_error(endpoint, completed):
    endpoint.gives(completed(None, tool_calls=[{"id": "c1", "function": {"arguments": "{}"}}]))
    async with connect(endpoint) as model:
        with pytest.raises(ModelResponseError, match="a name in each tool call"):
            await model.complete(HELLO, tools=[WEATHER])


@asynchronous
@table(
    ("status", "said"),
    [
        (400, "some-model does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice'),
        (404, "No endpoints found that support tool use"),
        (500, "Unsupported param: tools"),
    ],
)
async def test_a_server_that_refuses_tools_is_remembered(endpoint, canned, status, said):
    endpoint.gives(canned({"error": {"message": said}}, status))
    async with connect(endpoint) as model:
        with pytest.raises(ModelResponseError):
            await model.complete(HELLO, tools=[WEATHER])
        assert not model.supports_tools


@asynchronous
async def test_another_refusal_does_not_take_the_tools_away(endpoint, canned):
    endpoint.gives(canned({"error": {"message": "Invalid schema for function 'weather'"}}, 400))
    async with connect(endpoint) as model:
        with pytest.raises(ModelResponseError):
            await model.complete(HELLO, tools=[WEATHER])
        assert model.supports_tools


@asynchronous
@on_both_loops
async def test_connections_are_pooled_and_closed(endpoint, completed):
    endpoint.gives(completed())
    model = connect(endpoint)
    for _ in range(3):
        await model.complete(HELLO)
    assert len(endpoint.connections) == 1
    assert endpoint.open == 1
    await model.aclose()
    assert await anyio.to_thread.run_sync(endpoint.wait_until_closed)
    await model.complete(HELLO)
    assert len(endpoint.connections) == 2
    await model.aclose()
    await model.aclose()


@asynchronous
@on_both_loops
async def test_many_tasks_share_a_model(endpoint, completed):
    endpoint.gives(completed())
    async with connect(endpoint) as model, anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(model.complete, HELLO)
    assert len(endpoint.requests) == 20


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_model_can_be_used_in_one_loop_after_another_and_leaves_nothing_open(endpoint, completed, backend):
    endpoint.gives(completed())
    model = connect(endpoint)
    for _ in range(2):
        assert anyio.run(model.complete, HELLO, backend=backend).text == "fine"
        assert endpoint.wait_until_closed()
    assert len(endpoint.connections) == 2


def test_the_environment_is_read_at_construction(monkeypatch, endpoint, completed):
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoint.gives(completed("from there"))
    model = OpenAIModel("m")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert anyio.run(model.complete, HELLO).text == "from there"
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"


def test_this_machine_needs_no_key(endpoint, completed):
    endpoint.gives(completed())
    anyio.run(OpenAIModel("m", base_url=endpoint.url).complete, HELLO)
    assert "authorization" not in endpoint.headers[0]


HIDDEN = {  # what is given, and what an error must not show of it
    "api-key": ({"headers": {"api-key": "azure/0123+4567=="}}, "azure/0123+4567=="),
    "escaped": ({"headers": {"api-key": 'a"b\\c01234567'}}, json.dumps('a"b\\c01234567')[1:-1]),
    "quoted": ({"headers": {"api-key": "azure/0123+4567=="}}, "azure%2F0123%2B4567%3D%3D"),
    "bearer": ({"headers": {"Authorization": "Bearer qqq-0123456789"}}, "qqq-0123456789"),
    "a short one": ({"headers": {"Authorization": "Token hunter2"}}, "hunter2"),
    "basic": ({"headers": {"Authorization": "Basic bWU6b3BlbnNlc2FtZQ=="}}, "bWU6b3BlbnNlc2FtZQ"),
    "password": ({"headers": {"Authorization": "Basic bWU6b3BlbnNlc2FtZQ=="}}, "opensesame"),
    "cookie": ({"headers": {"Cookie": "a=1; session=c00kie0123; b=2"}}, "c00kie0123"),
    "body": ({"extra": {"api_key": "in-the-body-1"}}, "in-the-body-1"),
    "capitals": ({"headers": {"api-key": "open sesame street"}}, "OPEN SESAME STREET"),
    "small letters": ({"headers": {"Authorization": "Bearer OpenSesameStreet"}}, "opensesamestreet"),
    "cut": ({"headers": {"Authorization": "Bearer OpenSesameStreet"}}, "OpenSesa"),
    "cut in the body": ({"extra": {"api_key": "open-sesame-street"}}, "open-sesame-st"),
    "cut and quoted": ({"headers": {"api-key": "open/sesame/street"}}, "open%2fsesame"),
    "cut in capitals": ({"headers": {"api-key": "-sesame-street"}}, "-SESAME-S"),
}


@asynchronous
@table("what", HIDDEN)
@table("status", [200, 400, 401, 500])
async def test_no_error_shows_a_secret_of_the_headers_or_the_body(endpoint, canned, caplog, what, status):
    options, secret = HIDDEN[what]
    endpoint.gives(*[canned(f"you sent <{secret}>, unknown temperature", status)] * 3)
    with pytest.raises(ModelError) as caught:
        await say_hello(endpoint, api_key="", options=OpenAIOptions(**options))
    shown = "".join(traceback.format_exception(caught.value))
    assert secret not in shown + caplog.text
    assert "you sent <" in str(caught.value)


@asynchronous
async def test_an_error_keeps_what_only_begins_as_a_header_does(endpoint, canned):
    headers = {"HTTP-Referer": "https://models.example/app", "Authorization": "Bearer sesame-street"}
    said = "see https://docs.example: Bearer scheme, sesame seeds"
    endpoint.gives(canned(said, 400))
    with pytest.raises(ModelError, match=said):
        await say_hello(endpoint, api_key="", options=OpenAIOptions(headers=headers))


@table("value", ["sk-0123\n", "sk-é0123", "sk-\x00", 5])
def test_a_header_that_cannot_be_sent_is_refused_without_showing_it(value):
    with pytest.raises(ConfigurationError, match="the header X-Key must be") as caught:
        OpenAIModel("m", base_url="http://localhost:1", options=OpenAIOptions(headers={"X-Key": value}))
    assert "0123" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="name of a header"):
        OpenAIModel("m", base_url="http://localhost:1", options=OpenAIOptions(headers={"a b": "c"}))


def test_other_machines_do(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelAuthError, match="set OPENAI_API_KEY"):
        OpenAIModel("m", base_url="https://models.example/v1")
    assert OpenAIModel("m", base_url="https://models.example/v1", api_key="").name == "m"


@table(
    ("settings", "problem"),
    [
        ({"base_url": "user:secret@models.example/v1"}, "must begin with http"),
        ({"timeout": None}, "total timeout"),
        ({"options": AnthropicOptions()}, "options must be OpenAIOptions"),
        ({"options": OpenAIOptions(connect_timeout=None)}, "connect timeout"),
        ({"base_url": "models.example/v1"}, "must begin with http"),
        ({"base_url": "ftp://models.example"}, "must begin with http"),
        ({"base_url": "https://me:secret@models.example/v1"}, "neither credentials"),
        ({"base_url": "https://models.example/v1?key=secret"}, "nor a query"),
        ({"api_key": "two words"}, "characters that a key can't have"),
        ({"timeout": 0}, "timeout must be above 0"),
    ],
)
def test_bad_settings_are_refused_at_construction_without_showing_secrets(settings, problem):
    with pytest.raises(ConfigurationError, match=problem) as caught:
        OpenAIModel("m", **{"api_key": KEY, "base_url": "http://localhost:1", **settings})
    assert "secret" not in str(caught.value)


def test_bad_patience_is_refused():
    for retries in (-1, 1.5, float("nan")):
        with pytest.raises(ConfigurationError, match=r"Retry\.retries"):
            Retry(retries=retries)
    for waits in ({"first_wait": float("nan")}, {"longest_wait": float("nan")}, {"first_wait": -1}):
        with pytest.raises(ConfigurationError, match=next(iter(waits))):
            Retry(**waits)
    with pytest.raises(ConfigurationError, match="first_wait"):
        Retry(first_wait=2, longest_wait=1)


def test_waits_grow_and_stay_within_their_limit():
    waits = Waits(2, first=1.0, longest=5.0)
    for number, full in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (10**6, 5.0)]:
        assert full / 2 <= waits.before(number) <= full


def test_the_room_imports_nothing_heavy_before_it_is_used():
    code = "import sys, jeeves_reflexion.models; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@asynchronous
async def test_what_the_user_adds_to_each_request_stays_even_if_it_is_refused(endpoint, canned):
    endpoint.gives(canned({"error": {"message": "'temperature' is not supported"}}, 400))
    async with connect(endpoint, options=OpenAIOptions(extra={"temperature": 1, "top_k": 3})) as model:
        with pytest.raises(ModelResponseError, match="not supported"):
            await model.complete(HELLO)
    assert [(r["temperature"], r["top_k"]) for r in endpoint.requests] == [(1, 3)]


# httpx leaves its own generators to the collector when unpacking fails, which trio remarks on.
@pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning")
@asynchronous
@on_both_loops
async def test_an_answer_that_cannot_be_unpacked_is_a_response_error(endpoint, canned):
    endpoint.gives(canned("not gzip at all", headers={"content-encoding": "gzip"}))
    with pytest.raises(ModelResponseError, match="can't be unpacked"):
        await say_hello(endpoint)


@asynchronous
async def test_any_text_can_be_sent(endpoint, completed):
    endpoint.gives(completed())
    text = "na\u00efve \u6f22\u5b57 \U0001f600 \ud800 lone half"
    async with connect(endpoint) as model:
        await model.complete([Message("user", text)])
    assert endpoint.requests[0]["messages"][0]["content"] == text
    assert endpoint.headers[0]["content-type"] == "application/json"
