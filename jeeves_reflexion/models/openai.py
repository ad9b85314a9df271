"""Models behind an OpenAI-compatible ``/chat/completions`` endpoint."""

from __future__ import annotations

import copy
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from jeeves_reflexion.errors import ConfigurationError, ModelAuthError, ModelResponseError
from jeeves_reflexion.models.ask import metered
from jeeves_reflexion.models.http import JsonEndpoint, Retry
from jeeves_reflexion.models.thoughts import spoken
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolCall, ToolSpec
from jeeves_reflexion.types import JSON, Usage
from vectorstores.json_http import check_headers, is_loopback, parse_base_url, secrets_of

DEFAULT_BASE_URL = "https://api.openai.com/v1"

logger = logging.getLogger("jeeves_reflexion")


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model costs, in US dollars per million tokens."""

    input: float
    output: float

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of a call in US dollars."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """What an endpoint can do, and what it wants beside the standard.

    ``tools`` and ``json_schema`` say whether to try native tools and ``response_format``; where the endpoint
    refuses either, the model remembers and goes on without. ``extra`` is added to the body of each request,
    and ``headers`` to its headers, of which no value appears in an error; ``connect_timeout`` is in seconds.
    """

    tools: bool = True
    json_schema: bool = True
    connect_timeout: float = 10.0
    extra: Mapping[str, JSON] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class OpenAIModel:
    """A chat model at an OpenAI-compatible endpoint.

    ``base_url`` is taken from ``OPENAI_BASE_URL`` unless given, else it is OpenAI's own; ``api_key`` from
    ``OPENAI_API_KEY``, and an endpoint on this machine needs none. ``api_key=""`` sends none. Both variables
    are read here, at construction. ``timeout`` is the seconds for one request as a whole; ``retry`` says how
    failed ones are repeated. Without ``prices`` the cost of a call is unknown (``None``), and a cost budget
    can't be kept.

    Use it as an async context manager, or call :meth:`aclose`, to close its connections; else they are closed
    when the event loop ends. Raises :class:`ConfigurationError` for a bad address or setting and
    :class:`ModelAuthError` where a key is needed and there is none.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retry: Retry | None = None,
        prices: Prices | None = None,
        options: OpenAIOptions | None = None,
    ) -> None:
        if not name.strip():
            raise ConfigurationError("OpenAIModel needs the name of a model, such as gpt-4o-mini")
        options = options or OpenAIOptions()
        try:
            base = parse_base_url(base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL)
            check_headers(options.headers)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        key = (os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key).strip()
        if not key and api_key is None and not is_loopback(base.host):
            raise ModelAuthError(
                f"{base} needs a key: set OPENAI_API_KEY or pass api_key ('' for a server without keys)"
            )
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ConfigurationError(
                "the API key holds characters that a key can't have: was it copied whole?"
            )
        self._name = name
        self._prices = prices
        self._extra = options.extra
        self._tools = options.tools
        self._refused: frozenset[str] = frozenset() if options.json_schema else frozenset({"response_format"})
        self._endpoint = JsonEndpoint(
            base.copy_with(path=base.path.rstrip("/") + "/chat/completions"),
            headers={**options.headers, **({"Authorization": f"Bearer {key}"} if key else {})},
            secrets=secrets_of({}, options.extra),
            auth_hint="check OPENAI_API_KEY (or the api_key you passed)"
            if key
            else "set OPENAI_API_KEY or pass api_key",
            timeout=timeout,
            connect_timeout=options.connect_timeout,
            retry=retry or Retry(),
        )

    def __repr__(self) -> str:
        base = str(self._endpoint.url).removesuffix("/chat/completions")
        return f"OpenAIModel({self._name!r}, base_url={base!r})"

    def named(self, name: str) -> OpenAIModel:
        """Return another model at the same endpoint, over the same connections; its prices are unknown."""
        if not name.strip():
            raise ConfigurationError("OpenAIModel needs the name of a model, such as gpt-4o-mini")
        other = copy.copy(self)
        other._name, other._prices = name, None  # noqa: SLF001 - it is one of these
        return other

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._name

    @property
    def supports_tools(self) -> bool:
        """Whether native tools are offered: as ``options`` say, until the endpoint refuses them."""
        return self._tools

    @metered
    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Answer a conversation. Raises ``ModelError``.

        A setting that the endpoint says it doesn't have (``response_format``, ``max_tokens``,
        ``temperature``, ``stop``, ``seed``) is left out from then on; the schema is asked for in the prompt,
        and ``max_tokens`` becomes ``max_completion_tokens``. Each is a warning in the log. Refused *tools* are
        an error, after which ``supports_tools`` is false.
        """
        while True:
            body = self._body(messages, tools, schema, sampling or Sampling())
            try:
                return self._completion(await self._endpoint.post(body))
            except ModelResponseError as error:
                if (
                    self._tools
                    and "tools" in body
                    and not _mid_conversation(messages)
                    and _refuses_tools(error)
                ):
                    self._tools = False
                refused = _refused_setting(error, body)
                if refused is None or refused in self._extra:
                    raise
                self._refused |= {refused}
                logger.warning(
                    "%s at %s does without %s: %s", self._name, self._endpoint.url, refused, error.said
                )

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        schema: Mapping[str, JSON] | None,
        sampling: Sampling,
    ) -> dict[str, JSON]:
        settings: dict[str, JSON] = {
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "max_completion_tokens": sampling.max_tokens if "max_tokens" in self._refused else None,
            "stop": list(sampling.stop) or None,
            "seed": sampling.seed,
        }
        if schema is not None and "response_format" in self._refused:
            messages = _with_schema(messages, schema)
        elif schema is not None:
            form: JSON = {"name": "reply", "schema": schema}
            settings["response_format"] = {"type": "json_schema", "json_schema": form}
        if tools:
            settings["tools"] = [{"type": "function", "function": _as_function(tool)} for tool in tools]
        kept = {
            key: value for key, value in settings.items() if value is not None and key not in self._refused
        }
        return {"model": self._name, "messages": [self._as_wire(m) for m in messages], **kept, **self._extra}

    def _as_wire(self, message: Message) -> JSON:
        given = message.opaque.get(_FORM) if message.role == "assistant" else None
        if not isinstance(given, Mapping):
            return _as_wire(message)
        return {
            **{name: value for name, value in given.items() if name not in self._refused},
            "role": "assistant",
        }

    def _completion(self, body: Mapping[str, JSON]) -> Completion:
        match body:
            case {"choices": [{"message": dict() as message, **choice}, *_]}:
                pass
            case _:
                raise self._endpoint.unusable("choices[0].message", body)
        calls = tuple(_call(item, number) for number, item in enumerate(message.get("tool_calls") or ()))
        if None in calls:
            raise self._endpoint.unusable("a name in each tool call", body)
        text = _text(message.get("content")) or _text(message.get("refusal"))
        known = tuple(call for call in calls if call is not None)
        named, reason = body.get("model"), choice.get("finish_reason")
        return Completion(
            text,
            tool_calls=known,
            usage=self._usage(body.get("usage")),
            model=named if isinstance(named, str) and named else self._name,
            finish_reason=reason if isinstance(reason, str) else "stop",
            opaque=_opaque(message, text, known),
        )

    def _usage(self, reported: JSON) -> Usage:
        match reported:
            case {"prompt_tokens": int() as asked, "completion_tokens": int() as said} if (
                asked >= 0 and said >= 0
            ):
                cost = None if self._prices is None else self._prices.cost(asked, said)
                return Usage(calls=1, input_tokens=asked, output_tokens=said, cost_usd=cost)
        return Usage(calls=1, unreported=1, cost_usd=None)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._endpoint.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


_COMPLAINT = re.compile(
    r"support|unrecogni[sz]ed|unknown|unexpected|unavailable|not (?:permitted|allowed|available)"
    r"|extra (?:inputs|fields)|requires",
    re.IGNORECASE,
)
_SETTINGS = ("max_tokens", "temperature", "seed", "stop")
_FORM = "chat"
_OF_EVERY_MESSAGE = frozenset({"role", "content", "tool_calls"})


def _refused_setting(error: ModelResponseError, body: Mapping[str, JSON]) -> str | None:
    """Name the setting of a request that the endpoint says it doesn't have, if that is its complaint."""
    if error.status not in {400, 404, 422}:
        return None
    if "response_format" in body and re.search(r"response_format|json_schema", error.said):
        return "response_format"
    if not _COMPLAINT.search(error.said):
        return None
    names = [*(name for name in _SETTINGS if name in body), *_came_with(body)]
    return next((name for name in names if re.search(rf"\b{re.escape(name)}\b", error.said)), None)


def _came_with(body: Mapping[str, JSON]) -> set[str]:
    """Return the names of what goes back to the endpoint only because it came with an assistant message."""
    messages = body["messages"]
    assert isinstance(messages, list)  # noqa: S101 - of our own making
    return {name for message in messages for name in message} - _OF_EVERY_MESSAGE - {"tool_call_id"}


def _refuses_tools(error: ModelResponseError) -> bool:
    # 500 and 501 too: there are servers that answer so when their template has no place for tools.
    says_tools = re.search(r"\btools?\b|\btool_choice\b", error.said, re.IGNORECASE)
    return error.status in {400, 404, 422, 500, 501} and bool(says_tools and _COMPLAINT.search(error.said))


def _mid_conversation(messages: Sequence[Message]) -> bool:
    return any(message.tool_calls for message in messages)


def _with_schema(messages: Sequence[Message], schema: Mapping[str, JSON]) -> list[Message]:
    form = "Answer with JSON alone, of this JSON Schema:\n" + json.dumps(schema, ensure_ascii=False)
    if messages and messages[-1].role == "user":
        return [*messages[:-1], Message("user", f"{messages[-1].content}\n\n{form}")]
    return [*messages, Message("user", form)]


def _as_function(tool: ToolSpec) -> JSON:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _as_wire(message: Message) -> dict[str, JSON]:
    wire: dict[str, JSON] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _opaque(message: Mapping[str, JSON], text: str, calls: Sequence[ToolCall]) -> dict[str, JSON]:
    """Return the message as it came under the name of its form; empty where it says no more than what was read of it.

    Calls without an id get ours, since the tool's result names it.
    """
    whole = {name: value for name, value in message.items() if name != "tool_calls" or value}
    told = [name for name, value in message.items() if value not in (None, "", [], {})]
    as_read = _as_wire(Message("assistant", text, tuple(calls)))
    if calls:
        came = message["tool_calls"]
        assert isinstance(came, list)  # noqa: S101 - the calls were read of it
        whole["tool_calls"] = [_completed(item, call) for item, call in zip(came, calls, strict=True)]
    told = [name for name in told if name != "role"]
    if spoken(text) == text and all(whole[name] == as_read.get(name) for name in told):
        return {}
    return {_FORM: whole}


def _completed(item: Mapping[str, Any], call: ToolCall) -> JSON:
    function = {**item["function"], "arguments": call.arguments}
    return {**item, "id": call.id, "type": item.get("type", "function"), "function": function}


def _text(content: JSON) -> str:
    """Read a message's content: a text, or a list of parts of which the texts count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(
            _text(part.get("text")) if isinstance(part, Mapping) else _text(part) for part in content
        )
    return ""


def _call(item: JSON, number: int) -> ToolCall | None:
    match item:
        case {"function": {"name": str() as name, **rest}, **call} if name:
            arguments = rest.get("arguments")
            text = (
                arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
            )
            given = call.get("id")
            return ToolCall(given if isinstance(given, str) and given else f"call_{number}", name, text)
    return None


def open_model(
    spec: str, *, base_url: str | None = None, api_key: str | None = None, timeout: float = 60.0
) -> ChatModel:
    """Return the model that ``NAME`` or ``openai:NAME`` stands for, at any OpenAI-compatible endpoint.

    Other colons belong to the name (``llama3:8b``). See :class:`OpenAIModel`
    for the rest; raises :class:`~jeeves_reflexion.errors.ConfigurationError` for an empty name or a bad
    address, and :class:`~jeeves_reflexion.errors.ModelAuthError` without a key.
    """
    name = spec.strip().removeprefix("openai:").strip()
    if not name:
        raise ConfigurationError(
            f"the model {spec!r} has no name: write NAME or openai:NAME, such as gpt-4o-mini"
        )
    return OpenAIModel(name, base_url=base_url, api_key=api_key, timeout=timeout)
