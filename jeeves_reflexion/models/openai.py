"""Models behind an OpenAI-compatible ``/chat/completions`` endpoint."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from jeeves_reflexion.errors import ConfigurationError, ModelAuthError, ModelResponseError
from jeeves_reflexion.models import chat
from jeeves_reflexion.models.ask import metered
from jeeves_reflexion.models.http import JsonEndpoint, Retry, UnusableAnswerError
from jeeves_reflexion.models.prices import Prices, priced
from jeeves_reflexion.models.refusals import WAYS, refused_part, without_system
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.types import JSON
from vectorstores.json_http import check_headers, is_loopback, parse_base_url, secrets_of

DEFAULT_BASE_URL = "https://api.openai.com/v1"

logger = logging.getLogger("jeeves_reflexion")


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
        return self._tools and "tools" not in self._refused

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
        body = chat.request(messages, tools, schema, sampling, self._refused - {"tools"})
        effort = {"reasoning_effort": "none"} if tools and "reasoning_effort" in self._refused else {}
        return {"model": self._name, **body, **self._extra, **effort}

    def _read(self, body: Mapping[str, JSON]) -> Completion:
        try:
            answer = chat.completion(body)
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
