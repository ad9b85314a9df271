"""Models behind an OpenAI-compatible ``/chat/completions`` endpoint."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Literal, Protocol, Self

from jeeves_reflexion.errors import ConfigurationError, ModelAuthError, ModelResponseError
from jeeves_reflexion.models import chat, responses
from jeeves_reflexion.models.ask import metered
from jeeves_reflexion.models.http import JsonEndpoint, Retry, UnusableAnswerError
from jeeves_reflexion.models.prices import Prices, priced
from jeeves_reflexion.models.refusals import WAYS, refused_part, without_system
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import check_whole
from vectorstores.json_http import check_headers, secrets_of
from vectorstores.service_address import address_of, brings_key, is_loopback, key_headers, parse_base_url

DEFAULT_BASE_URL = "https://api.openai.com/v1"

logger = logging.getLogger("jeeves_reflexion")


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


class OpenAIModel:
    """A chat model at an OpenAI-compatible endpoint.

    ``base_url`` is taken from ``OPENAI_BASE_URL`` unless given, else it is OpenAI's own; ``api_key`` from
    ``OPENAI_API_KEY``, and an endpoint on this machine needs none. ``api_key=""`` sends none. Both variables
    are read here, at construction. ``api`` is ``"chat"`` (``/chat/completions``) or ``"responses"``. An address
    of Azure may end in ``?api-version=...``; without a path, the deployment called ``name`` is asked, and its key
    goes out as Azure wants it. ``timeout`` is the seconds for one request as a whole; ``retry`` says how failed
    ones are repeated. Without ``prices`` the cost of a call is unknown (``None``), and a cost budget can't be kept.

    Use it as an async context manager, or call :meth:`aclose`, to close its connections; else they are closed
    when the event loop ends. Raises :class:`ConfigurationError` for a bad address or setting and
    :class:`ModelAuthError` where a key is needed and there is none.
    """

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
        if not name.strip():
            raise ConfigurationError("OpenAIModel needs the name of a model, such as gpt-4o-mini")
        if api not in _FORMS:
            raise ConfigurationError(f'api must be "chat" or "responses", not {api!r}')
        options = options or OpenAIOptions()
        try:
            base = parse_base_url(base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL)
            check_headers(options.headers)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        key = (os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key).strip()
        if not (key or brings_key(options.headers)) and api_key is None and not is_loopback(base.host):
            raise ModelAuthError(
                f"{base} needs a key: set OPENAI_API_KEY or pass api_key ('' for a server without keys)"
            )
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ConfigurationError(
                "the API key holds characters that a key can't have: was it copied whole?"
            )
        self._name = name
        self._prices = prices
        self._base, self._form = base, _FORMS[api]
        self._options, self._extra = options, options.extra
        self._refused = frozenset() if options.json_schema else frozenset({"response_format", "text"})
        self._endpoint = JsonEndpoint(
            address_of(base, self._form.PATH, name),
            headers=key_headers(base, key, options.headers),
            secrets=secrets_of({}, options.extra),
            auth_hint="check OPENAI_API_KEY (or the api_key you passed)"
            if key
            else "set OPENAI_API_KEY or pass api_key",
            timeout=timeout,
            connect_timeout=options.connect_timeout,
            retry=retry or Retry(),
        )

    def __repr__(self) -> str:
        return f"OpenAIModel({self._name!r}, base_url={str(self._base).rstrip('/')!r})"

    def named(self, name: str) -> OpenAIModel:
        """Return another model at the same endpoint, over the same connections; its prices are unknown."""
        if not name.strip():
            raise ConfigurationError("OpenAIModel needs the name of a model, such as gpt-4o-mini")
        other = copy.copy(self)
        other._name, other._prices = name, None  # noqa: SLF001 - it is one of these
        other._endpoint = self._endpoint.at(address_of(self._base, self._form.PATH, name))  # noqa: SLF001
        return other

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._name

    @property
    def supports_tools(self) -> bool:
        """Whether native tools are offered: as ``options`` say, until the endpoint refuses them."""
        return self._options.tools and "tools" not in self._refused

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

        A setting that the endpoint says it doesn't have (``response_format``, ``max_tokens``, ``temperature``,
        ``stop``, ``seed``) is left out from then on; the schema is asked for in the prompt, ``max_tokens`` becomes
        ``max_completion_tokens``, system messages go to the user's, and where tools exclude reasoning,
        ``reasoning_effort`` is ``"none"``. Each is a warning in the log. Refused *tools* are an error, after which
        ``supports_tools`` is false.
        """
        while True:
            body = self._body(messages, tools, schema, sampling or Sampling())
            try:
                return self._read(await self._endpoint.post(body))
            except ModelResponseError as error:
                refused = refused_part(error, body, messages)
                if refused is None or (refused in self._extra and refused not in WAYS):
                    raise
                self._refused |= {refused}
                way = WAYS.get(refused, f"does without {refused}")
                logger.warning("%s at %s %s: %s", self._name, self._endpoint.url, way, error.said)
                if refused == "tools":
                    raise

    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        schema: Mapping[str, JSON] | None,
        sampling: Sampling,
    ) -> dict[str, JSON]:
        if "system" in self._refused:
            messages = without_system(messages)
        if sampling.max_tokens is None:
            sampling = replace(sampling, max_tokens=self._options.max_tokens)
        for setting in sorted(self._form.LACKS - self._refused):
            if getattr(sampling, setting):
                self._refused |= {setting}
                logger.warning("%s at %s has no setting %s", self._name, self._endpoint.url, setting)
        body = self._form.request(messages, tools, schema, sampling, self._refused - {"tools"})
        return {"model": self._name, **body, **self._extra, **(self._with_tools(tools) if tools else {})}

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
        try:
            answer = self._form.completion(body)
        except UnusableAnswerError as error:
            raise self._endpoint.unusable(str(error), body) from None
        return replace(answer, usage=priced(answer.usage, self._prices), model=answer.model or self._name)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._endpoint.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


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
