"""AnthropicModel against a real server: what it sends and reads, and how a server can fail."""

from __future__ import annotations

import anyio
import pytest
from tables import table

from jeeves_reflexion import ReAct, RecordedModel, Session, Task
from jeeves_reflexion.errors import (
    ConfigurationError,
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelRequestError,
    ModelResponseError,
)
from jeeves_reflexion.models import AnthropicModel, AnthropicOptions, Prices, Retry, open_model
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolCall, ToolSpec

asynchronous = pytest.mark.anyio
on_both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

KEY = "sk-ant-verysecret0123456789abcdef"
HELLO = [Message("system", "be brief"), Message("user", "hello")]
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
THOUGHTS = [
    {"type": "thinking", "thinking": "I look.", "signature": "EqQBCkYIBBgCKkAb0123456789abcdefghijkl+/=="},
    {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix0123456789abcdef"},
]
USE = {"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "look", "input": {}}


def look() -> str:
    """Look."""
    return "seen"


def said(*blocks, **more):
    usage = {"input_tokens": 10, "output_tokens": 4}
    content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]
    return {"model": "served", "content": content, "stop_reason": "end_turn", "usage": usage, **more}


def refused(message, kind="invalid_request_error"):
    return {"type": "error", "error": {"type": kind, "message": message}}


def connect(endpoint, **settings):
    retry = Retry(retries=2, first_wait=0.001, longest_wait=0.3)
    return AnthropicModel("claude", **{"base_url": endpoint.url, "api_key": KEY, "retry": retry, **settings})


async def hello(endpoint, messages=HELLO, *, tools=(), schema=None, sampling=None, **settings):
    async with connect(endpoint, **settings) as model:
        return await model.complete(messages, tools=tools, schema=schema, sampling=sampling)


@asynchronous
@on_both_loops
async def test_it_sends_the_conversation_and_reads_text_usage_and_cost(endpoint):
    endpoint.gives(said("hi ", "there"))
    told = [
        *HELLO,
        Message(
            "assistant", "I look.", (ToolCall("a", "look", '{"at": 1}'), ToolCall("b", "look", "not JSON"))
        ),
        Message("tool", "seen", tool_call_id="a"),
        Message("tool", "", tool_call_id="b"),
        Message("user", "and?"),
        Message("assistant", " "),
        Message("user", "well?"),
    ]
    sampling = Sampling(temperature=0.5, max_tokens=9, stop=("END",))
    answer = await hello(endpoint, told, tools=[TOOL], sampling=sampling, prices=Prices(1.0, 2.0))
    assert (answer.text, answer.model, answer.finish_reason, answer.opaque) == (
        "hi there",
        "served",
        "stop",
        {},
    )
    assert (answer.usage.tokens, answer.usage.cached_tokens, answer.usage.reasoning_tokens) == (
        14,
        None,
        None,
    )
    assert answer.usage.cost_usd == pytest.approx(18e-6)
    assert endpoint.paths == ["/v1/messages"]
    headers = endpoint.headers[0]
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers
    assert endpoint.requests == [
        {
            "model": "claude",
            "max_tokens": 9,
            "system": [{"type": "text", "text": "be brief"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hello"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "a", "name": "look", "input": {"at": 1}},
                        {"type": "tool_use", "id": "b", "name": "look", "input": {"arguments": "not JSON"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "a", "content": "seen"},
                        {"type": "tool_result", "tool_use_id": "b", "content": ""},
                        {"type": "text", "text": "and?"},
                        {"type": "text", "text": "well?"},
                    ],
                },
            ],
            "temperature": 0.5,
            "stop_sequences": ["END"],
            "tools": [{"name": "look", "description": "Looks.", "input_schema": TOOL.parameters}],
        }
    ]


def test_thinking_goes_back_unchanged_live_and_played(endpoint, tmp_path):
    blocks = [*THOUGHTS, {"type": "text", "text": "Looking."}, USE]
    endpoint.gives(said(*blocks, stop_reason="tool_use"), said("seen it"))
    live = RecordedModel(tmp_path / "tape", connect(endpoint), mode="record")
    attempt = anyio.run(ReAct(live, [look]), Task("x"), Session())
    assert (attempt.output, attempt.steps[0].thought) == ("seen it", "Looking.")
    assert endpoint.requests[1]["messages"][-2:] == [
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": USE["id"], "content": "seen"}]},
    ]
    played = anyio.run(ReAct(RecordedModel(tmp_path / "tape"), [look]), Task("x"), Session())
    assert played.steps == attempt.steps
    assert "I look." not in repr(attempt)


@asynchronous
async def test_the_cache_is_asked_for_and_counted(endpoint):
    usage = {
        "input_tokens": 2,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 3,
        "output_tokens": 4,
    }
    endpoint.gives(said("hi", usage=usage))
    prices = Prices(1.0, 2.0, cached_input=0.1, cache_write=1.25)
    answer = await hello(endpoint, options=AnthropicOptions(cache=True), prices=prices)
    mark = {"cache_control": {"type": "ephemeral"}}
    assert endpoint.requests[0]["system"] == [{"type": "text", "text": "be brief", **mark}]
    assert endpoint.requests[0]["messages"][-1]["content"] == [{"type": "text", "text": "hello", **mark}]
    assert (answer.usage.input_tokens, answer.usage.cached_tokens) == (10, 5)
    assert answer.usage.cost_usd == pytest.approx((2 + 5 * 0.1 + 3 * 1.25 + 4 * 2) / 1e6)


@asynchronous
@table(
    ("usage", "unreported"),
    [
        (None, 1),
        ({}, 1),
        ({"input_tokens": "2", "output_tokens": 3}, 1),
        ({"input_tokens": 2, "output_tokens": 3}, 0),
    ],
)
async def test_usage_that_is_not_reported_is_unknown(endpoint, usage, unreported):
    endpoint.gives(said("hi", usage=usage))
    answer = await hello(endpoint, prices=Prices(1.0, 1.0))
    assert answer.usage.unreported == unreported
    assert (answer.usage.cost_usd is None) == bool(unreported)


@asynchronous
@table(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        ("required", None, {"type": "any"}),
        ("look", False, {"type": "tool", "name": "look", "disable_parallel_tool_use": True}),
        ("another", True, {"type": "auto", "disable_parallel_tool_use": False}),
        ("none", False, {"type": "none"}),
    ],
)
async def test_tool_choice_goes_with_tools_alone(endpoint, choice, parallel, sent):
    endpoint.gives(said("hi"))
    options = AnthropicOptions(tool_choice=choice, parallel_tool_calls=parallel)
    for tools in ([], [TOOL]):
        await hello(endpoint, tools=tools, options=options)
    assert "tool_choice" not in endpoint.requests[0]
    assert endpoint.requests[1].get("tool_choice") == sent


@asynchronous
@table(
    ("reason", "read"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "refusal"),
        (None, "stop"),
    ],
)
async def test_how_an_answer_ends(endpoint, reason, read):
    endpoint.gives(said("hi", stop_reason=reason))
    assert (await hello(endpoint)).finish_reason == read


@asynchronous
async def test_a_refusal_is_an_interruption(endpoint):
    endpoint.gives(said(stop_reason="refusal"))
    async with connect(endpoint) as model:
        attempt = await ReAct(model, [look])(Task("x"), Session())
    assert (attempt.output, attempt.interrupted) == ("", "refusal")


@asynchronous
async def test_a_schema_is_asked_for_in_the_prompt_and_a_seed_is_not_sent(endpoint, caplog):
    endpoint.gives(said("{}"))
    await hello(endpoint, schema={"type": "object", "required": ["score"]}, sampling=Sampling(seed=3))
    (asked,) = endpoint.requests[0]["messages"][-1]["content"]
    assert '"score"' in asked["text"]
    assert "seed" not in endpoint.requests[0]
    assert "has no setting seed" in caplog.text
    assert endpoint.requests[0]["max_tokens"] == AnthropicOptions().max_tokens


@asynchronous
async def test_a_temperature_that_thinking_excludes_is_left_out(endpoint, canned, caplog):
    complaint = "`temperature` may only be set to 1 when thinking is enabled."
    endpoint.respond = lambda body: (
        canned(refused(complaint), 400) if "temperature" in body else canned(said("hi"))
    )
    options = AnthropicOptions(extra={"thinking": {"type": "enabled", "budget_tokens": 1024}})
    assert (await hello(endpoint, sampling=Sampling(temperature=0.0), options=options)).text == "hi"
    assert endpoint.requests[-1]["thinking"]["budget_tokens"] == 1024
    assert "without temperature" in caplog.text


FAILURES = {
    "page": (200, "<html>hi</html>", ModelResponseError, "no JSON object", 1),
    "cut": (200, '{"content": [', ModelResponseError, "no JSON object", 1),
    "no content": (200, {"id": "1"}, ModelResponseError, "without a list 'content'", 1),
    "odd content": (200, {"content": ["hi"]}, ModelResponseError, "without a list 'content'", 1),
    "call without a name": (200, said({**USE, "name": ""}), ModelResponseError, "id, name and input", 1),
    "error in a 200": (200, refused("busy", "overloaded_error"), ModelResponseError, "busy", 3),
    "overloaded": (529, refused("busy", "overloaded_error"), ModelResponseError, "busy", 3),
    "too many": (429, refused("slow down", "rate_limit_error"), ModelResponseError, "slow down", 3),
    "broken": (500, refused("oops", "api_error"), ModelResponseError, "oops", 3),
    "key": (
        401,
        refused(f"invalid x-api-key {KEY}", "authentication_error"),
        ModelAuthError,
        "ANTHROPIC_API_KEY",
        1,
    ),
    "no such model": (
        404,
        refused("model: claude", "not_found_error"),
        ModelRequestError,
        "model: claude",
        1,
    ),
    "too long": (
        400,
        refused("prompt is too long: 210000 tokens > 200000 maximum"),
        ModelResponseError,
        "too long",
        1,
    ),
    "no credit": (400, refused("Your credit balance is too low"), ModelRequestError, "credit", 1),
}


@asynchronous
@table("what", FAILURES)
async def test_failures(endpoint, canned, what):
    status, body, kind, told, asked = FAILURES[what]
    endpoint.gives(canned(body, status))
    with pytest.raises(ModelError, match=told) as caught:
        await hello(endpoint)
    assert type(caught.value) is kind
    assert len(endpoint.requests) == asked
    assert KEY not in str(caught.value)


@asynchronous
async def test_a_connection_that_is_cut_is_a_connection_error(endpoint, canned):
    endpoint.gives(canned(said("long" * 50), cut=100))
    with pytest.raises(ModelConnectionError, match="asked 3 times"):
        await hello(endpoint)


@asynchronous
async def test_no_error_shows_a_header(endpoint, canned):
    endpoint.gives(canned("you sent opensesame-street", 400))
    with pytest.raises(ModelError) as caught:
        await hello(endpoint, options=AnthropicOptions(headers={"X-Team": "opensesame-street"}))
    assert "opensesame" not in str(caught.value)


@asynchronous
async def test_what_another_model_said_is_sent_as_text_and_calls(endpoint):
    endpoint.gives(said("hi"))
    foreign = Completion("I look.", opaque={"chat": {"reasoning_content": "hm"}}).message()
    await hello(endpoint, [*HELLO, foreign, Message("user", "and?")])
    assert endpoint.requests[0]["messages"][1]["content"] == [{"type": "text", "text": "I look."}]


@asynchronous
async def test_what_the_api_would_refuse_of_an_answer_does_not_go_back(endpoint):
    deep = ToolCall("a", "look", "[" * 2000)
    endpoint.gives(said("\n\n", USE, stop_reason="tool_use"), said("hi"))
    answer = await hello(endpoint)
    turns = [*HELLO, answer.message(), Message("tool", "seen", tool_call_id=USE["id"])]
    await hello(endpoint, [*turns, Message("assistant", "", (deep,)), Message("user", "and?")])
    sent = [each["content"] for each in endpoint.requests[1]["messages"] if each["role"] == "assistant"]
    assert sent == [[USE], [{**USE, "id": "a", "input": {"arguments": deep.arguments}}]]


@table("path", ["", "/", "/v1", "/v1/"])
def test_the_address_may_or_may_not_hold_the_version(endpoint, path):
    endpoint.gives(said("hi"))
    model = AnthropicModel("claude", base_url=endpoint.url.removesuffix("/v1") + path)
    assert anyio.run(model.complete, HELLO).text == "hi"
    assert endpoint.paths[-1] == "/v1/messages"
    assert "x-api-key" not in endpoint.headers[-1]


@asynchronous
async def test_it_is_opened_by_name_and_makes_others(endpoint, monkeypatch):
    with pytest.raises(ModelAuthError, match="set ANTHROPIC_API_KEY"):
        open_model("anthropic:claude-x")
    with pytest.raises(ConfigurationError, match="has no name"):
        open_model("anthropic: ")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", endpoint.url)
    endpoint.gives(said("hi"))
    model = open_model("anthropic:claude-x", timeout=5)
    assert isinstance(model, ChatModel)
    assert isinstance(model, AnthropicModel)
    assert KEY not in repr(model)
    async with model:
        await model.named("claude-y").complete(HELLO)
    assert endpoint.requests[0]["model"] == "claude-y"


@table("settings", [{"base_url": "models.example"}, {"api_key": "two words"}, {"timeout": 0}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(ConfigurationError):
        AnthropicModel("claude", **{"base_url": "http://localhost:1", "api_key": KEY, **settings})
    with pytest.raises(ConfigurationError, match="max_tokens"):
        AnthropicOptions(max_tokens=0)
