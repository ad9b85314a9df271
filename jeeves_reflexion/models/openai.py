"""Models at OpenAI-compatible endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import httpx

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models import chat, responses
from jeeves_reflexion.models.endpoint import EndpointModel, EndpointOptions
from jeeves_reflexion.models.formats import ModelCall, TextStream
from jeeves_reflexion.models.http import Retry
from jeeves_reflexion.models.prices import Prices, priced
from jeeves_reflexion.protocols import Completion
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
    request: Callable[[ModelCall], dict[str, JSON]]
    completion: Callable[[Mapping[str, JSON]], Completion]
    stream: type[TextStream]
    lacks: frozenset[str] = frozenset()


_FORMS: Final[Mapping[str, _Form]] = {
    "chat": _Form("/chat/completions", chat.request, chat.completion, chat.ChatStream),
    "responses": _Form(
        "/responses",
        responses.request,
        responses.completion,
        responses.ResponsesStream,
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

    def _body(self, call: ModelCall) -> dict[str, JSON]:
        # Refused tools are left out by the caller, who has another form for them.
        refused = call.refused - {"tools"}
        body = self._with_extra(self._form.request(call._replace(refused=refused)))
        if not call.tools:
            return body
        wanted = self._given.tool_choice
        chosen: JSON = wanted if wanted in {"auto", "none", "required"} else None
        if wanted in {tool.name for tool in call.tools}:
            named: dict[str, JSON] = (
                {"name": wanted} if self._form.path == "/responses" else {"function": {"name": wanted}}
            )
            chosen = {"type": "function", **named}
        settings = {"tool_choice": chosen, "parallel_tool_calls": self._given.parallel_tool_calls}
        body |= {name: each for name, each in settings.items() if each is not None and name not in refused}
        if "reasoning_effort" in refused:
            body["reasoning_effort"] = "none"
        return body

    def _read(self, body: Mapping[str, JSON]) -> Completion:
        answer = self._form.completion(body)
        return replace(answer, usage=priced(answer.usage, self._prices))
