"""Models behind an OpenAI-compatible ``/chat/completions`` endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

import httpx

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models import chat, responses
from jeeves_reflexion.models.endpoint import EndpointModel, auth_hint, checked_address
from jeeves_reflexion.models.http import JsonEndpoint, Retry
from jeeves_reflexion.models.prices import Prices, priced
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import check_whole
from vectorstores.json_http import secrets_of
from vectorstores.service_address import address_of, key_headers

DEFAULT_BASE_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """What an endpoint can do, and what it wants beside the standard.

    ``tools`` and ``json_schema`` say whether to try native tools and ``response_format``; where the endpoint
    refuses either, the model remembers and goes on without. ``extra`` is added to the body of each request,
    and ``headers`` to its headers, of which no value appears in an error; ``connect_timeout`` is in seconds.
    ``max_tokens`` bounds the answers to calls that set no bound of their own. ``tool_choice`` (``"auto"``,
    ``"none"``, ``"required"`` or the name of a tool) and ``parallel_tool_calls`` are sent with tools.
    """

    tools: bool = True
    json_schema: bool = True
    connect_timeout: float = 10.0
    extra: Mapping[str, JSON] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_tokens: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            check_whole("OpenAIOptions.max_tokens", self.max_tokens)


class _Form(Protocol):
    """The form of an API: the modules ``chat`` and ``responses``."""

    @property
    def PATH(self) -> str: ...  # noqa: N802 - a module's constant

    @property
    def LACKS(self) -> frozenset[str]: ...  # noqa: N802 - as above

    def request(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        schema: Mapping[str, JSON] | None,
        sampling: Sampling,
        refused: frozenset[str],
    ) -> dict[str, JSON]: ...

    def completion(self, body: Mapping[str, JSON]) -> Completion: ...

    def named_tool(self, name: str) -> JSON: ...


_FORMS: Final[Mapping[str, _Form]] = {"chat": chat, "responses": responses}


class OpenAIModel(EndpointModel):
    """A chat model at an OpenAI-compatible endpoint.

    ``base_url`` is taken from ``OPENAI_BASE_URL`` unless given, else it is OpenAI's own; ``api_key`` from
    ``OPENAI_API_KEY``, and an endpoint on this machine needs none. ``api_key=""`` sends none. Both variables
    are read here, at construction. ``api`` is ``"chat"`` (``/chat/completions``) or ``"responses"``. An address
    of Azure may end in ``?api-version=...``; without a path, the deployment called ``name`` is asked, and its key
    goes out as Azure wants it. ``timeout`` is the seconds for one request as a whole; ``retry`` says how failed
    ones are repeated. Without ``prices`` the cost of a call is unknown (``None``), and a cost budget can't be kept.

    Raises :class:`ConfigurationError` for a bad address or setting and
    :class:`ModelAuthError` where a key is needed and there is none.
    """

    provider = "openai"

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
        options: OpenAIOptions | None = None,
    ) -> None:
        if api not in _FORMS:
            raise ConfigurationError(f'api must be "chat" or "responses", not {api!r}')
        options = options or OpenAIOptions()
        address = base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        variable = "OPENAI_API_KEY"
        given = (api_key, os.environ.get(variable, ""), variable)
        base, key = checked_address("OpenAIModel", name, address, options.headers, given)
        super().__init__(
            name,
            prices=prices,
            extra=options.extra,
            tools=options.tools,
            max_tokens=options.max_tokens,
            refused=frozenset() if options.json_schema else frozenset({"response_format", "text"}),
        )
        self._base, self._form, self._options = base, _FORMS[api], options
        self._lacks = self._form.LACKS
        self._endpoint = JsonEndpoint(
            self._address(),
            headers=key_headers(base, key, options.headers),
            secrets=secrets_of({}, options.extra),
            auth_hint=auth_hint(variable, key),
            timeout=timeout,
            connect_timeout=options.connect_timeout,
            retry=retry or Retry(),
        )

    def __repr__(self) -> str:
        return f"OpenAIModel({self._name!r}, base_url={str(self._base).rstrip('/')!r})"

    def _address(self) -> httpx.URL:
        return address_of(self._base, self._form.PATH, self._name)

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        schema: Mapping[str, JSON] | None,
        sampling: Sampling,
    ) -> dict[str, JSON]:
        body = self._form.request(messages, tools, schema, sampling, self._refused - {"tools"})
        return {**body, **self._extra, **(self._with_tools(tools) if tools else {})}

    def _with_tools(self, tools: Sequence[ToolSpec]) -> dict[str, JSON]:
        choice = self._options.tool_choice
        if choice in {tool.name for tool in tools}:
            chosen = self._form.named_tool(str(choice))
        else:
            chosen = choice if choice in {"auto", "none", "required"} else None
        parallel = self._options.parallel_tool_calls
        settings: dict[str, JSON] = {"tool_choice": chosen, "parallel_tool_calls": parallel}
        for name in [name for name, value in settings.items() if value is None or name in self._refused]:
            del settings[name]
        if "reasoning_effort" in self._refused:
            settings["reasoning_effort"] = "none"
        return settings

    def _read(self, body: Mapping[str, JSON]) -> Completion:
        answer = self._form.completion(body)
        return replace(answer, usage=priced(answer.usage, self._prices))
