"""The Responses API, Azure's addresses, and what is sent with tools."""

from __future__ import annotations

import anyio
import pytest
from tables import table

from jeeves_reflexion import ReAct, RecordedModel, Session, Task
from jeeves_reflexion.errors import ConfigurationError, ModelError, ModelResponseError
from jeeves_reflexion.models import OpenAIModel, OpenAIOptions, Prices, Retry, chat_request, read_chat
from jeeves_reflexion.protocols import Message, Sampling, ToolCall, ToolSpec
from vectorstores import HttpEmbedder

asynchronous = pytest.mark.anyio

HELLO = [Message("system", "be brief"), Message("user", "hello")]
SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}}
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
KEY = "sk-verysecret0123456789abcdef"

MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "fine", "annotations": []}],
}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAAAB0123456789abcdefghijklmnopqrs",
}
CALLED = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"}


def look() -> str:
    """Look."""
    return "seen"


def answer(*items, **more):
    usage = {
        "input_tokens": 10,
        "output_tokens": 4,
        "input_tokens_details": {"cached_tokens": 8},
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    return {
        "model": "served",
        "status": "completed",
        "error": None,
        "output": list(items),
        "usage": usage,
        **more,
    }


def connect(endpoint, **settings):
    return OpenAIModel("m", **{"base_url": endpoint.url, "retry": Retry(0), "api": "responses", **settings})


# -- responses


@asynchronous
async def test_a_conversation_in_the_form_of_responses(endpoint):
    endpoint.gives(answer(MESSAGE))
    told = [
        *HELLO,
        Message("assistant", "I look.", (ToolCall("c1", "look", "{}"),)),
        Message("tool", "seen", tool_call_id="c1"),
    ]
    async with connect(endpoint, prices=Prices(1.0, 2.0)) as model:
        said = await model.complete(
            told, tools=[TOOL], schema=SCHEMA, sampling=Sampling(temperature=0.5, max_tokens=9)
        )
    assert (said.text, said.model, said.finish_reason, said.opaque) == ("fine", "served", "stop", {})
    assert (said.usage.tokens, said.usage.cached_tokens, said.usage.reasoning_tokens) == (14, 8, 2)
    assert said.usage.cost_usd == pytest.approx(18e-6)
    assert endpoint.paths == ["/v1/responses"]
    assert endpoint.requests == [
        {
            "model": "m",
            "input": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": "I look."},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "seen"},
            ],
            "temperature": 0.5,
            "max_output_tokens": 9,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "text": {"format": {"type": "json_schema", "name": "reply", "schema": SCHEMA}},
            "tools": [
                {
                    "type": "function",
                    "name": "look",
                    "description": "Looks.",
                    "parameters": TOOL.parameters,
                    "strict": False,
                }
            ],
        }
    ]


def test_its_items_go_back_unchanged_live_and_played(endpoint, tmp_path):
    endpoint.gives(answer(REASONING, CALLED), answer(MESSAGE))
    live = anyio.run(
        ReAct(RecordedModel(tmp_path / "tape", connect(endpoint), mode="record"), [look]),
        Task("x"),
        Session(),
    )
    assert live.output == "fine"
    assert endpoint.requests[1]["input"][-3:] == [
        REASONING,
        CALLED,
        {"type": "function_call_output", "call_id": "call_1", "output": "seen"},
    ]
    played = anyio.run(ReAct(RecordedModel(tmp_path / "tape"), [look]), Task("x"), Session())
    assert played.steps == live.steps


@asynchronous
@table(
    ("body", "text", "reason"),
    [
        (answer(CALLED), "", "tool_calls"),
        (answer(MESSAGE, incomplete_details={"reason": "max_output_tokens"}), "fine", "length"),
        (answer(incomplete_details={"reason": "content_filter"}), "", "content_filter"),
        (answer({**MESSAGE, "content": [{"type": "refusal", "refusal": "no"}]}), "no", "stop"),
        (answer({"type": "web_search_call", "id": "ws"}, MESSAGE, usage=None), "fine", "stop"),
    ],
)
async def test_how_an_answer_ends(endpoint, body, text, reason):
    endpoint.gives(body)
    async with connect(endpoint) as model:
        said = await model.complete(HELLO)
    assert (said.text, said.finish_reason, said.usage.unreported) == (text, reason, 0 if body["usage"] else 1)


@asynchronous
@table(
    ("body", "said"),
    [
        ({}, "without a list 'output'"),
        ({"output": "hi"}, "without a list 'output'"),
        ({"output": ["hi"]}, "without a list 'output'"),
        (answer({**CALLED, "call_id": None}), "call_id, name and arguments"),
        (answer(status="failed", error={"code": "server_error", "message": "it broke"}), "it broke"),
    ],
)
async def test_what_is_no_answer_is_an_error(endpoint, body, said):
    endpoint.gives(body)
    async with connect(endpoint) as model:
        with pytest.raises(ModelResponseError, match=said):
            await model.complete(HELLO)


@asynchronous
async def test_what_the_model_or_the_api_has_not_is_left_out_with_a_warning(endpoint, canned, caplog):
    refusals = {
        "include": "Encrypted content is not supported with this model.",
        "text": "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model.",
        "temperature": "Unsupported parameter: 'temperature' is not supported with this model.",
    }

    def respond(request):
        named = next((name for name in refusals if name in request), None)
        return canned({"error": {"message": refusals[named]}}, 400) if named else canned(answer(MESSAGE))

    endpoint.respond = respond
    sampling = Sampling(temperature=0.0, stop=("END",), seed=3)
    async with connect(endpoint) as model:
        for _ in range(2):
            assert (await model.complete(HELLO, schema=SCHEMA, sampling=sampling)).text == "fine"
    assert len(endpoint.requests) == 5
    assert endpoint.requests[-1].keys() == {"model", "input", "store"}
    assert '"score"' in endpoint.requests[-1]["input"][-1]["content"]
    for name in (*refusals, "stop", "seed"):
        assert caplog.text.count(f" {name}") >= 1


def test_an_api_that_there_is_not_is_refused(endpoint):
    with pytest.raises(ConfigurationError, match="api must be"):
        connect(endpoint, api="completions")


# -- what is sent with tools, and bounds of answers


@asynchronous
@table("api", ["chat", "responses"])
@table(("choice", "parallel"), [("look", False), ("required", True), ("another", None), (None, None)])
async def test_tool_choice_and_parallel_calls_go_with_tools_alone(endpoint, completed, api, choice, parallel):
    endpoint.gives(completed() if api == "chat" else answer(MESSAGE))
    options = OpenAIOptions(tool_choice=choice, parallel_tool_calls=parallel)
    async with connect(endpoint, api=api, options=options) as model:
        await model.complete(HELLO)
        await model.complete(HELLO, tools=[TOOL])
    named = {
        "chat": {"type": "function", "function": {"name": "look"}},
        "responses": {"type": "function", "name": "look"},
    }
    without, sent = endpoint.requests
    assert not {"tool_choice", "parallel_tool_calls"} & without.keys()
    assert sent.get("tool_choice") == {"look": named[api], "required": "required"}.get(choice)
    assert sent.get("parallel_tool_calls") is parallel


@asynchronous
@table(("api", "setting"), [("chat", "max_tokens"), ("responses", "max_output_tokens")])
async def test_a_bound_of_the_model_is_for_calls_without_one(endpoint, completed, api, setting):
    endpoint.gives(completed() if api == "chat" else answer(MESSAGE))
    async with connect(endpoint, api=api, options=OpenAIOptions(max_tokens=50)) as model:
        await model.complete(HELLO)
        await model.complete(HELLO, sampling=Sampling(max_tokens=7))
    assert [request[setting] for request in endpoint.requests] == [50, 7]


@asynchronous
@table("api", ["chat", "responses"])
async def test_what_is_added_to_a_body_takes_nothing_away(endpoint, completed, api):
    endpoint.gives(completed() if api == "chat" else answer(MESSAGE))
    more = {
        "tools": [{"type": "web_search"}],
        "text": {"verbosity": "low"},
        "include": ["sources"],
        "top_p": 1,
    }
    async with connect(endpoint, api=api, options=OpenAIOptions(extra=more)) as model:
        await model.complete(HELLO, tools=[TOOL], schema=SCHEMA)
    (body,) = endpoint.requests
    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search"]
    assert (body["text"]["verbosity"], body["top_p"], body["include"][-1]) == ("low", 1, "sources")
    if api == "responses":
        assert body["text"]["format"]["schema"] == SCHEMA
        assert body["include"] == ["reasoning.encrypted_content", "sources"]


@asynchronous
async def test_what_is_refused_again_is_an_error(endpoint, canned):
    refusal = "Function tools with reasoning_effort are not supported for m in /v1/chat/completions."
    endpoint.gives(*[canned({"error": {"message": refusal}}, 400)] * 3, canned("", 401))
    extra = {"tools": [{"type": "web_search"}]}
    async with connect(endpoint, api="chat", options=OpenAIOptions(extra=extra)) as model:
        with pytest.raises(ModelResponseError, match="reasoning_effort"):
            await model.complete(HELLO)
    assert len(endpoint.requests) == 2


@table("bound", [0, -1, 1.5, True])
def test_a_bound_is_a_whole_number(bound):
    with pytest.raises(ConfigurationError, match="max_tokens"):
        OpenAIOptions(max_tokens=bound)


# -- Azure


def azure(endpoint, path=""):
    return endpoint.url.removesuffix("/v1") + path + "?api-version=2024-10-21"


@asynchronous
@table(
    ("path", "asked"),
    [
        ("", "/openai/deployments/m/chat/completions"),
        ("/", "/openai/deployments/m/chat/completions"),
        ("/openai/deployments/mine/", "/openai/deployments/mine/chat/completions"),
        ("/openai/v1", "/openai/v1/chat/completions"),
    ],
)
async def test_an_address_of_azure(endpoint, completed, path, asked):
    endpoint.gives(completed())
    async with connect(endpoint, api="chat", base_url=azure(endpoint, path), api_key=KEY) as model:
        await model.complete(HELLO)
    assert endpoint.paths == [f"{asked}?api-version=2024-10-21"]
    assert endpoint.headers[0]["api-key"] == KEY
    assert "authorization" not in endpoint.headers[0]


@asynchronous
async def test_a_path_stays_as_it_is_written(endpoint, completed):
    endpoint.gives(completed())
    async with connect(endpoint, api="chat", base_url=f"{endpoint.url}/\u00fc/a%2Fb") as model:
        await model.complete(HELLO)
    assert endpoint.paths == ["/v1/%C3%BC/a%2Fb/chat/completions"]


@asynchronous
async def test_another_name_there_is_another_deployment(endpoint, completed):
    endpoint.gives(completed())
    async with connect(endpoint, api="chat", base_url=azure(endpoint)) as model:
        other = model.named("o/4")
        await other.complete(HELLO)
        await model.complete(HELLO)
    assert [path.split("/")[3] for path in endpoint.paths] == ["o%2F4", "m"]


@asynchronous
async def test_a_token_is_a_bearers_and_a_given_header_goes_before_the_key(endpoint, completed):
    endpoint.gives(completed())
    for settings, name, value in (
        ({"api_key": "eyJhbGciOi.eyJhdWQi.c2ln"}, "authorization", "Bearer eyJhbGciOi.eyJhdWQi.c2ln"),
        (
            {"api_key": KEY, "options": OpenAIOptions(headers={"API-Key": "mine-0123"})},
            "api-key",
            "mine-0123",
        ),
    ):
        async with connect(endpoint, api="chat", base_url=azure(endpoint), **settings) as model:
            await model.complete(HELLO)
        assert endpoint.headers[-1][name] == value


@asynchronous
async def test_a_header_is_sent_once(endpoint, completed):
    endpoint.gives(completed())
    given = {"Content-Type": "application/json", "USER-AGENT": "mine"}
    async with connect(endpoint, api="chat", options=OpenAIOptions(headers=given)) as model:
        await model.complete(HELLO)
    sent = endpoint.headers[0]
    assert (sent["content-type"], sent["user-agent"]) == ("application/json", "mine")


@asynchronous
async def test_an_embedder_there(endpoint, canned):
    endpoint.gives(canned({"data": [{"index": 0, "embedding": [0.6, 0.8]}]}))
    async with HttpEmbedder("small", dim=2, base_url=azure(endpoint), api_key=KEY) as embedder:
        await embedder.embed(["x"])
    assert endpoint.paths == ["/openai/deployments/small/embeddings?api-version=2024-10-21"]
    assert endpoint.headers[0]["api-key"] == KEY


@asynchronous
async def test_its_key_is_in_no_error(endpoint, canned):
    endpoint.gives(canned(f"the key {KEY} is wrong", 401))
    async with connect(endpoint, base_url=azure(endpoint), api_key=KEY) as model:
        with pytest.raises(ModelError) as caught:
            await model.complete(HELLO)
    assert KEY not in str(caught.value) + repr(model)


def test_a_key_may_come_in_a_header(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    options = OpenAIOptions(headers={"api-key": KEY})
    model = OpenAIModel("m", base_url="https://r.openai.azure.com?api-version=1", options=options)
    assert repr(model) == "OpenAIModel('m', base_url='https://r.openai.azure.com?api-version=1')"


# -- a client of one's own


def test_a_client_of_ones_own_is_asked_and_read_in_the_form_of_chat(completed):
    told = [
        *HELLO,
        Message("assistant", "", (ToolCall("c1", "look", "{}"),)),
        Message("tool", "a mug", tool_call_id="c1"),
    ]
    body = chat_request(told, tools=[TOOL], schema=SCHEMA, sampling=Sampling(max_tokens=5))
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body.keys() == {"messages", "tools", "response_format", "max_tokens"}
    answer = read_chat(completed("fine", reasoning_content="hm"))
    assert (answer.text, answer.usage.tokens, answer.opaque["chat"]["reasoning_content"]) == (
        "fine",
        15,
        "hm",
    )
    with pytest.raises(ModelResponseError, match="without choices"):
        read_chat({"choices": []})
