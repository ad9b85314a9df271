"""Models at OpenAI-compatible endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import httpx

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models import chat, responses
from jeeves_reflexion.models.endpoint import EndpointModel, EndpointOptions
from jeeves_reflexion.models.http import Retry
from jeeves_reflexion.models.prices import Prices, priced
from jeeves_reflexion.models.streams import ChatStream, ResponsesStream, TextStream
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.types import JSON
from vectorstores.service_address import address_of, key_headers


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIOptions(EndpointOptions):
    """Settings for every request; see :class:`EndpointOptions` for most of them.

    ``tools`` and ``json_schema`` say whether to try native tools and ``response_format``. If the endpoint refuses
    either, the model goes on without it.
    """

    tools: bool = True
    json_schema: bool = True


class _Form(NamedTuple):
    """One of OpenAI's APIs: its path, and how it writes requests and reads answers."""

    path: str
    request: Callable[..., dict[str, JSON]]
    completion: Callable[[Mapping[str, JSON]], Completion]
    named_tool: Callable[[str], JSON]
    stream: type[TextStream]
    lacks: frozenset[str] = frozenset()


_FORMS: Final[Mapping[str, _Form]] = {
    "chat": _Form("/chat/completions", chat.request, chat.completion, chat.named_tool, ChatStream),
    "responses": _Form(
        "/responses",
        responses.request,
        responses.completion,
        responses.named_tool,
        ResponsesStream,
        frozenset({"stop", "seed"}),
    ),
}


class OpenAIModel(EndpointModel):
    """A chat model at an OpenAI-compatible endpoint.

    ``base_url`` defaults to ``OPENAI_BASE_URL``, then to OpenAI's own address; ``api_key`` defaults to
    ``OPENAI_API_KEY``. Both variables are read at construction. An endpoint on this machine needs no key, and
    ``api_key=""`` sends none. ``api`` is ``"chat"`` (``/chat/completions``) or ``"responses"``. An Azure address may
    end in ``?api-version=...``; without a path it means the deployment called ``name``, and the key is sent as
    Azure expects it. ``timeout`` is in seconds and bounds a whole request; ``retry`` says how failures are repeated.
    ``stream=True`` streams answers, as some servers require, and listeners of a run receive the text as it arrives
    (:class:`~jeeves_reflexion.events.TextStreamed`). Without ``prices`` the cost of a call is unknown (``None``), and a
    cost budget can't be kept.

    Raises :class:`ConfigurationError` for a bad address or setting, and :class:`ModelAuthError` if a required key is
    missing.
    """

    provider, _home = "openai", "https://api.openai.com/v1"
    _options = OpenAIOptions

    def __init__(  # noqa: PLR0913 - what a user sets most often, by name
        self,
        name: str,
        *,
        api: Literal["chat", "responses"] = "chat",
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retry: Retry | None = None,
        prices: Prices | None = None,
        stream: bool = False,
        options: OpenAIOptions | None = None,
    ) -> None:
        if api not in _FORMS:
            raise ConfigurationError(f'api must be "chat" or "responses", not {api!r}')
        options = options or OpenAIOptions()
        self._form = _FORMS[api]
        self._lacks, self._stream = self._form.lacks, self._form.stream
        super().__init__(
            name,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            retry=retry,
            prices=prices,
            stream=stream,
            options=options,
        )
        if not options.tools:
            self._refused |= {"tools"}
        if not options.json_schema:
            self._refused |= {"response_format", "text"}

    def _address(self) -> httpx.URL:
        return address_of(self._base, self._form.path, self._name)

    def _headers(self, key: str) -> dict[str, str]:
        return key_headers(self._base, key, self._given.headers)

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        schema: Mapping[str, JSON] | None,
        sampling: Sampling,
    ) -> dict[str, JSON]:
        body = self._form.request(messages, tools, schema, sampling, self._refused - {"tools"})
        return {**self._with_extra(body), **(self._with_tools(tools) if tools else {})}

    def _with_tools(self, tools: Sequence[ToolSpec]) -> dict[str, JSON]:
        choice = self._given.tool_choice
        if choice in {tool.name for tool in tools}:
            chosen = self._form.named_tool(str(choice))
        else:
            chosen = choice if choice in {"auto", "none", "required"} else None
        parallel = self._given.parallel_tool_calls
        settings: dict[str, JSON] = {"tool_choice": chosen, "parallel_tool_calls": parallel}
        for name in [name for name, value in settings.items() if value is None or name in self._refused]:
            del settings[name]
        if "reasoning_effort" in self._refused:
            settings["reasoning_effort"] = "none"
        return settings

    def _read(self, body: Mapping[str, JSON]) -> Completion:
        answer = self._form.completion(body)
        return replace(answer, usage=priced(answer.usage, self._prices))
