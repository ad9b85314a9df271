"""What a server refuses, and how: which failures are repeated, what a model goes on without, and what it says of it."""

from __future__ import annotations

import time

import anyio
import pytest
from tables import table

from jeeves_reflexion import ReAct, RecordedModel, Session, Task
from jeeves_reflexion.errors import ModelAuthError, ModelError, ModelRequestError, ModelResponseError
from jeeves_reflexion.models import OpenAIModel, OpenAIOptions, Prices, Retry
from jeeves_reflexion.protocols import Message, Sampling, ToolSpec
from jeeves_reflexion.types import NO_USAGE, Usage
from vectorstores import EmbeddingError, HttpEmbedder

asynchronous = pytest.mark.anyio

QUICK = Retry(retries=2, first_wait=0.001, longest_wait=5.0)
HELLO = [Message("system", "be brief"), Message("user", "hello")]
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})


def look() -> str:
    """Look."""
    return "seen"


def connect(endpoint, **settings):
    return OpenAIModel("m", **{"base_url": endpoint.url, "retry": QUICK, **settings})


async def hello(endpoint, messages=HELLO, *, tools=(), sampling=None, **settings):
    async with connect(endpoint, **settings) as model:
        return await model.complete(messages, tools=tools, sampling=sampling)


def error(message, code=None, kind=None):
    return {"error": {"message": message, "type": kind, "code": code}}


# -- what is repeated


@asynchronous
@table(("header", "value"), [("retry-after-ms", "150"), ("Retry-After", "0.15")])
async def test_it_waits_as_long_as_it_is_asked_to(endpoint, canned, completed, header, value):
    other = {"Retry-After": "60"} if header == "retry-after-ms" else {"retry-after-ms": "soon"}
    endpoint.gives(canned("slow down", 429, {header: value, **other}), completed())
    started = time.monotonic()
    assert (await hello(endpoint)).text == "fine"
    assert 0.15 <= time.monotonic() - started < 40


@asynchronous
@table(
    ("status", "told", "repeated"),
    [
        (400, "true", True),
        (503, "false", False),
        (429, "False", False),
        (503, "perhaps", True),
        (400, "no", False),
    ],
)
async def test_the_server_says_whether_to_ask_again(endpoint, canned, completed, status, told, repeated):
    endpoint.gives(canned(error("hm"), status, {"x-should-retry": told}), completed())
    if repeated:
        assert (await hello(endpoint)).text == "fine"
    else:
        with pytest.raises(ModelResponseError, match="hm"):
            await hello(endpoint)
    assert len(endpoint.requests) == 1 + repeated


QUOTA = "You exceeded your current quota, please check your plan and billing details."
LASTING = {
    "quota": (429, error(QUOTA, "insufficient_quota", "insufficient_quota"), True),
    "quota by its type": (429, error(QUOTA, None, "insufficient_quota"), True),
    "too long for ever": (
        429,
        error("Request too large for m on tokens per min: Limit 100, Requested 900"),
        False,
    ),
    "too long in a 500": (500, error("the input length exceeds the context length"), False),
    "too long": (400, error("maximum context length is 100 tokens", "context_length_exceeded"), False),
}


@asynchronous
@table("what", LASTING)
async def test_what_lasts_is_not_repeated(endpoint, canned, what):
    status, body, ends_the_run = LASTING[what]
    endpoint.gives(canned(body, status))
    with pytest.raises(ModelResponseError) as caught:
        await hello(endpoint)
    assert len(endpoint.requests) == 1
    assert (isinstance(caught.value, ModelRequestError), caught.value.status) == (ends_the_run, status)
    assert caught.value.code == (body["error"]["code"] or body["error"]["type"] or "")


@asynchronous
async def test_a_used_up_quota_is_not_repeated_by_an_embedder_either(endpoint, canned):
    endpoint.gives(canned(error(QUOTA, "insufficient_quota"), 429))
    async with HttpEmbedder("m", dim=2, base_url=endpoint.url) as embedder:
        with pytest.raises(EmbeddingError, match="quota"):
            await embedder.embed(["x"])
    assert len(endpoint.requests) == 1


# -- an error in a 200


@asynchronous
@table(
    ("body", "kind", "asked"),
    [
        (error("upstream is down"), ModelResponseError, 1),
        ({"error": "upstream is down"}, ModelResponseError, 1),
        (error("upstream is down", 502), ModelResponseError, 3),
        (error("upstream is down", "429"), ModelResponseError, 3),
        (error("upstream is down", None, "overloaded_error"), ModelResponseError, 3),
        (error("upstream is down", 401), ModelAuthError, 1),
        (error("upstream is down", 404), ModelRequestError, 1),
        ({**error("upstream is down"), "choices": []}, ModelResponseError, 1),
        (
            {"choices": [{"message": {"content": ""}, **error("upstream is down", 502)}]},
            ModelResponseError,
            3,
        ),
    ],
)
async def test_an_error_in_a_200_is_an_error(endpoint, body, kind, asked):
    endpoint.gives(body)
    with pytest.raises(ModelError, match="upstream is down") as caught:
        await hello(endpoint)
    assert type(caught.value) is kind
    assert len(endpoint.requests) == asked


@asynchronous
async def test_an_answer_about_errors_is_none(endpoint, completed):
    endpoint.gives({**completed('Say {"error": "no"}'), "error": None})
    assert (await hello(endpoint)).text == 'Say {"error": "no"}'


# -- redirects


@asynchronous
@table("status", [301, 302, 307, 308])
async def test_a_redirect_on_the_same_host_is_followed(endpoint, canned, completed, status):
    endpoint.gives(canned("", status, {"location": "/v2/chat/completions?a=1"}), completed())
    assert (await hello(endpoint, api_key="sk-test")).text == "fine"
    assert endpoint.paths == ["/v1/chat/completions", "/v2/chat/completions?a=1"]
    assert endpoint.requests[0] == endpoint.requests[1]
    assert endpoint.headers[1]["authorization"] == "Bearer sk-test"


@asynchronous
@table(
    "target",
    [
        "http://elsewhere.example/v1",
        "//elsewhere.example/",
        "ftp://127.0.0.1/",
        "http://127.0.0.1:9/",
        "http://[",
    ],
)
async def test_a_redirect_elsewhere_is_not(endpoint, canned, target):
    endpoint.gives(canned("moved", 307, {"location": target}))
    with pytest.raises(ModelResponseError, match="307: moved"):
        await hello(endpoint, api_key="sk-test")
    assert len(endpoint.requests) == 1


@asynchronous
async def test_redirects_in_a_circle_end(endpoint, canned):
    endpoint.gives(canned("round", 308, {"location": "/v1/chat/completions"}))
    with pytest.raises(ModelResponseError, match="308"):
        await hello(endpoint)
    assert len(endpoint.requests) < 10


# -- what a model goes on without


@asynchronous
@table(
    ("setting", "said"),
    [
        ("max_tokens", "max_tokens is too large: 99. This model supports at most 50 completion tokens"),
        ("temperature", "temperature 9 is not supported: it must be less than 2"),
        ("seed", "system messages are not allowed to exceed 5 lines"),
    ],
)
async def test_a_wrong_value_is_not_taken_for_a_missing_setting(endpoint, canned, setting, said):
    endpoint.gives(canned(error(said), 400))
    with pytest.raises(ModelResponseError, match=said) as caught:
        await hello(endpoint, sampling=Sampling(**{setting: 99}))
    assert isinstance(caught.value, ModelRequestError) is ("exceed" not in said)
    assert len(endpoint.requests) == 1


def refusing(canned, completed, is_refused, said, status=400):
    return lambda request: canned(error(said), status) if is_refused(request) else canned(completed())


@asynchronous
@table(
    ("status", "said"),
    [
        (400, "System role not supported"),
        (400, "This model doesn't support system messages"),
        (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
        (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
    ],
)
async def test_system_messages_go_to_the_user_where_there_is_no_such_role(
    endpoint, canned, completed, caplog, status, said
):
    endpoint.respond = refusing(
        canned, completed, lambda body: body["messages"][0]["role"] == "system", said, status
    )
    caplog.clear()
    async with connect(endpoint) as model:
        for _ in range(2):
            await model.complete([*HELLO, Message("assistant", "hi"), Message("user", "and?")], tools=[TOOL])
        assert model.supports_tools
    assert endpoint.requests[-1]["messages"] == [
        {"role": "user", "content": "be brief\n\nhello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "and?"},
    ]
    assert caplog.text.count("refuses system messages") == 1
    endpoint.requests.clear()


@asynchronous
@table("given", [{}, {"reasoning_effort": "high"}])
async def test_tools_without_reasoning_where_an_endpoint_has_not_both(
    endpoint, canned, completed, caplog, given
):
    said = "Function tools with reasoning_effort are not supported for m. Please use /v1/responses instead."
    endpoint.gives()
    endpoint.respond = refusing(
        canned, completed, lambda body: "tools" in body and body.get("reasoning_effort") != "none", said
    )
    async with connect(endpoint, options=OpenAIOptions(extra=given)) as model:
        for tools in ([TOOL], [TOOL], []):
            assert (await model.complete(HELLO, tools=tools)).text == "fine"
        assert model.supports_tools
    efforts = [request.get("reasoning_effort") for request in endpoint.requests]
    assert efforts == [given.get("reasoning_effort"), "none", "none", given.get("reasoning_effort")]
    assert 'api="responses"' in caplog.text


@asynchronous
async def test_tools_are_not_given_up_without_a_word(endpoint, canned, completed, caplog):
    endpoint.respond = refusing(canned, completed, lambda body: "tools" in body, "m does not support tools")
    async with connect(endpoint) as model:
        with pytest.raises(ModelResponseError):
            await model.complete(HELLO, tools=[TOOL])
        assert not model.supports_tools
    assert "refuses native tools" in caplog.text
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# -- what a filter stops


@asynchronous
@pytest.mark.parametrize("tools", [(), (look,)])
@pytest.mark.parametrize("native", [True, False])
async def test_what_a_filter_stops_is_an_interruption(endpoint, completed, tools, native):
    endpoint.gives(completed("I will", finish_reason="content_filter"))
    async with connect(endpoint, options=OpenAIOptions(tools=native)) as model:
        attempt = await ReAct(model, tools)(Task("x"), Session())
    assert (attempt.output, attempt.interrupted, len(endpoint.requests)) == ("I will", "content_filter", 1)


def test_so_is_what_a_filter_refuses_to_send_and_it_is_recorded_so(endpoint, canned, tmp_path):
    endpoint.gives(canned(error("the prompt triggered a rule", "content_filter"), 400))
    for asked in (connect(endpoint), None):
        model = RecordedModel(tmp_path / "tape", asked, mode="record" if asked else "replay")
        attempt = anyio.run(ReAct(model), Task("x"), Session())
        assert attempt.interrupted == "content_filter"
        assert "the prompt triggered a rule" in attempt.error


# -- what is counted


@asynchronous
@table(
    ("details", "cached", "reasoning"),
    [
        (
            {
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            8,
            2,
        ),
        ({"prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2}, 8, None),
        ({"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": None}, 0, None),
        ({"prompt_tokens_details": {"cached_tokens": "8"}}, None, None),
        ({}, None, None),
    ],
)
async def test_cached_and_reasoning_tokens_are_counted_where_they_are_reported(
    endpoint, completed, details, cached, reasoning
):
    endpoint.gives(completed(usage={"prompt_tokens": 10, "completion_tokens": 4, **details}))
    usage = (await hello(endpoint, prices=Prices(1.0, 2.0, cached_input=0.5))).usage
    assert (usage.cached_tokens, usage.reasoning_tokens) == (cached, reasoning)
    assert usage.cost_usd == pytest.approx((10 - 0.5 * (cached or 0) + 2 * 4) / 1e6)


def test_an_unknown_part_makes_the_sum_unknown():
    known = Usage(1, 10, 4, cached_tokens=8, reasoning_tokens=2)
    assert (known + known).cached_tokens == 16
    assert (known + Usage(1, 10, 4)).cached_tokens is None
    assert (Usage() + known + NO_USAGE) == known
    assert (known + known).beyond(known) == known
    assert (known + Usage(cost_usd=0.5)).cached_tokens == 8
