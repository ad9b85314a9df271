"""What the models behind HTTP share: a call that goes on without what the endpoint refuses, and its connections."""

from __future__ import annotations

import copy
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import httpx

from jeeves_reflexion.errors import ConfigurationError, ModelAuthError, ModelResponseError
from jeeves_reflexion.models.ask import metered
from jeeves_reflexion.models.http import JsonEndpoint, UnusableAnswerError
from jeeves_reflexion.models.prices import Prices
from jeeves_reflexion.models.refusals import WAYS, refused_part, without_system
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.types import JSON
from vectorstores.json_http import check_headers
from vectorstores.service_address import brings_key, is_loopback, parse_base_url

# Of the densest texts that are usual; English has four and more.
_BYTES_PER_TOKEN: Final = 3

logger: Final = logging.getLogger("jeeves_reflexion")


class EndpointModel(ABC):
    """A chat model at an endpoint; :class:`OpenAIModel` and :class:`AnthropicModel` are two.

    Use it as an async context manager, or call :meth:`aclose`, to close its connections; else they are closed
    when the event loop ends.
    """

    _endpoint: JsonEndpoint
    _lacks: frozenset[str] = frozenset()
    """Settings of ``Sampling`` that the API does not have."""

    def __init__(
        self,
        name: str,
        *,
        prices: Prices | None,
        extra: Mapping[str, JSON],
        tools: bool,
        max_tokens: int | None,
        refused: frozenset[str] = frozenset(),
    ) -> None:
        self._name = name
        self._prices = prices
        self._extra = extra
        self._tools = tools
        self._max_tokens = max_tokens
        self._refused = refused

    def named(self, name: str) -> Self:
        """Return another model at the same endpoint, over the same connections; its prices are unknown."""
        _check_name(type(self).__name__, name)
        other = copy.copy(self)
        other._name, other._prices = name, None  # noqa: SLF001 - it is one of these
        other._endpoint = self._endpoint.at(other._address())  # noqa: SLF001 - as above
        return other

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._name

    @property
    def supports_tools(self) -> bool:
        """Whether native tools are offered: as the options say, until the endpoint refuses them."""
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
        sampling = self._bounded(sampling or Sampling())
        while True:
            sent = without_system(messages) if "system" in self._refused else messages
            body = {"model": self._name, **self._body(sent, tools, schema, sampling)}
            try:
                return self._answer(await self._endpoint.post(body))
            except ModelResponseError as error:
                refused = refused_part(error, body, sent)
                if refused is None or (refused in self._extra and refused not in WAYS):
                    raise
                self._refused |= {refused}
                way = WAYS.get(refused, f"does without {refused}")
                logger.warning("%s at %s %s: %s", self._name, self._endpoint.url, way, error.said)
                if refused == "tools":
                    raise

    def expected_cost(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> float:
        """Return what a call may cost in US dollars: its texts, and the longest answer where that is bounded.

        Tokens of texts are estimated, rather too many than too few. 0 without prices.
        """
        if self._prices is None:
            return 0.0
        sent = [message.content for message in messages]
        sent += [json.dumps(message.opaque, default=str) for message in messages if message.opaque]
        sent += [json.dumps([tool.description, tool.parameters], default=str) for tool in tools]
        sent.append(json.dumps(schema or {}, default=str))
        asked = sum(len(text.encode("utf-8", "replace")) for text in sent) // _BYTES_PER_TOKEN
        bound = None if sampling is None else sampling.max_tokens
        return self._prices.cost(asked, (self._max_tokens if bound is None else bound) or 0)

    def _bounded(self, sampling: Sampling) -> Sampling:
        for setting in sorted(self._lacks - self._refused):
            if getattr(sampling, setting):
                self._refused |= {setting}
                logger.warning("%s at %s has no setting %s", self._name, self._endpoint.url, setting)
        return sampling if sampling.max_tokens is not None else replace(sampling, max_tokens=self._max_tokens)

    def _answer(self, body: Mapping[str, JSON]) -> Completion:
        try:
            answer = self._read(body)
        except UnusableAnswerError as error:
            raise self._endpoint.unusable(str(error), body) from None
        return replace(answer, model=answer.model or self._name)

    @abstractmethod
    def _address(self) -> httpx.URL:
        """Return the address at which the model of this name is asked."""

    @abstractmethod
    def _body(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        schema: Mapping[str, JSON] | None,
        sampling: Sampling,
    ) -> dict[str, JSON]:
        """Write a request, without the model's name and without what was refused."""

    @abstractmethod
    def _read(self, body: Mapping[str, JSON]) -> Completion:
        """Read an answer with its cost; raises :class:`UnusableAnswerError`."""

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._endpoint.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _check_name(kind: str, name: str) -> None:
    if not name.strip():
        raise ConfigurationError(f"{kind} needs the name of a model, such as gpt-4o-mini")


def checked_address(
    kind: str, name: str, base_url: str, headers: Mapping[str, str], key: tuple[str | None, str, str]
) -> tuple[httpx.URL, str]:
    """Return the base address and the key of a model, checked.

    ``key`` is what was passed, what the environment has, and the variable's name. Raises :class:`ConfigurationError`
    and :class:`ModelAuthError`.
    """
    _check_name(kind, name)
    try:
        base = parse_base_url(base_url)
        check_headers(headers)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    given, of_environment, variable = key
    found = (of_environment if given is None else given).strip()
    if not (found or brings_key(headers)) and given is None and not is_loopback(base.host):
        raise ModelAuthError(
            f"{base} needs a key: set {variable} or pass api_key ('' for a server without keys)"
        )
    if not found.isascii() or not found.isprintable() or " " in found:
        raise ConfigurationError("the API key holds characters that a key can't have: was it copied whole?")
    return base, found


def auth_hint(variable: str, key: str) -> str:
    """Return what to do where an endpoint refuses the key."""
    return f"check {variable} (or the api_key you passed)" if key else f"set {variable} or pass api_key"
