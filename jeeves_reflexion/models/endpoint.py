"""What the models behind HTTP share: a call that goes on without what the endpoint refuses, and its connections."""

from __future__ import annotations

import copy
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import ClassVar, Final, Self

import httpx

from jeeves_reflexion.errors import ConfigurationError, ModelAuthError, ModelResponseError
from jeeves_reflexion.events import TextStreamed
from jeeves_reflexion.models.ask import expected_tokens, metered
from jeeves_reflexion.models.http import JsonEndpoint, Retry
from jeeves_reflexion.models.prices import Prices
from jeeves_reflexion.models.refusals import WAYS, refused_part, without_system
from jeeves_reflexion.models.streams import AnswerStream, Tell
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.session import current_scope
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import check_whole
from vectorstores.header_secrets import check_headers, secrets_of
from vectorstores.json_http import Timeouts
from vectorstores.service_address import MissingKeyError, address_and_key

logger: Final = logging.getLogger("jeeves_reflexion")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """What is sent beside a conversation; the options of each API add their own.

    ``max_tokens`` bounds the answers to calls that set no bound of their own. ``tool_choice`` (``"auto"``, ``"none"``,
    ``"required"`` or the name of a tool) and ``parallel_tool_calls`` are sent with tools. ``extra`` is added to the
    body of each request (its lists and objects to those that are there), and ``headers`` to its headers, of which no
    value appears in an error. ``connect_timeout`` is in seconds, and so is ``idle_timeout``, the longest silence within
    a streamed answer; without, it may be silent for as long as the request may take.
    """

    max_tokens: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    connect_timeout: float = 10.0
    idle_timeout: float | None = None
    extra: Mapping[str, JSON] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            check_whole(f"{type(self).__name__}.max_tokens", self.max_tokens)


class EndpointModel(ABC):
    """A chat model at an endpoint; :class:`OpenAIModel` and :class:`AnthropicModel` are two.

    Use it as an async context manager, or call :meth:`aclose`, to close its connections; else they are closed
    when the event loop ends.
    """

    _endpoint: JsonEndpoint
    _lacks: frozenset[str] = frozenset()
    """Settings of ``Sampling`` that the API does not have."""
    provider: ClassVar[str]
    """Whose API it is; its variables of the environment begin with this name."""
    _home: ClassVar[str]
    """The provider's own address."""
    _stream: type[AnswerStream]
    """What reads a streamed answer."""

    def __init__(  # noqa: PLR0913 - as the models have them
        self,
        name: str,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float,
        retry: Retry | None,
        prices: Prices | None,
        stream: bool,
        options: EndpointOptions,
    ) -> None:
        _check_name(type(self).__name__, name)
        variable = f"{self.provider.upper()}_API_KEY"
        address = base_url or os.environ.get(f"{self.provider.upper()}_BASE_URL") or self._home
        try:
            check_headers(options.headers)
            self._base, key = address_and_key(address, api_key, variable, options.headers)
        except MissingKeyError as error:
            raise ModelAuthError(str(error)) from error
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        self._name = name
        self._prices = prices
        self._streams = stream
        self._given = options
        self._refused: frozenset[str] = frozenset()
        self._endpoint = JsonEndpoint(
            self._address(),
            headers=self._headers(key),
            secrets=secrets_of({}, options.extra),
            auth_hint=f"check {variable} (or the api_key you passed)"
            if key
            else f"set {variable} or pass api_key",
            timeouts=Timeouts(timeout, options.connect_timeout, options.idle_timeout),
            retry=retry or Retry(),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, base_url={str(self._base).rstrip('/')!r})"

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
        return "tools" not in self._refused

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
            without = self._refused
            sent = without_system(messages) if "system" in self._refused else messages
            body = {"model": self._name, **self._body(sent, tools, schema, sampling)}
            if self._streams:
                body |= {
                    name: value for name, value in self._stream.asks.items() if name not in self._refused
                }
            try:
                # There are servers that stream although nobody asked for it.
                answer = await self._endpoint.post(body, self._read, partial(self._stream, self._teller()))
                return replace(answer, model=answer.model or self._name)
            except ModelResponseError as error:
                refused = refused_part(error, body, sent)
                if (
                    error.handed_on
                    or refused is None
                    or refused in without
                    or (refused in self._given.extra and refused not in WAYS)
                ):
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
        asked = expected_tokens(messages, tools=tools, schema=schema)
        bound = None if sampling is None else sampling.max_tokens
        # Where a cache is written to, that costs more than to read what was sent.
        dearest = replace(self._prices, input=max(self._prices.input, self._prices.cache_write or 0.0))
        return dearest.cost(asked, (self._given.max_tokens if bound is None else bound) or 0)

    def _with_extra(self, body: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return a body with what the options add: lists and objects grow by theirs, other settings become theirs."""
        whole = dict(body)
        for name, more in self._given.extra.items():
            match whole.get(name), more:
                case list() as ours, list():
                    whole[name] = [*ours, *more]
                case dict() as ours, dict():
                    whole[name] = {**ours, **more}
                case _:
                    whole[name] = more
        return whole

    def _teller(self) -> Tell | None:
        """Return what tells a text to whoever listens to the current run; None where nobody does."""
        session, role = current_scope() or (None, None)
        if session is None or role is None or session.listener is None:
            return None

        async def tell(text: str) -> None:
            await session.emit(
                TextStreamed(
                    run_id=session.id, attempt=session.attempt, role=role, model=self._name, text=text
                )
            )

        return tell

    def _bounded(self, sampling: Sampling) -> Sampling:
        for setting in sorted(self._lacks - self._refused):
            if getattr(sampling, setting):
                self._refused |= {setting}
                logger.warning("%s at %s has no setting %s", self._name, self._endpoint.url, setting)
        if sampling.max_tokens is not None:
            return sampling
        return replace(sampling, max_tokens=self._given.max_tokens)

    @abstractmethod
    def _address(self) -> httpx.URL:
        """Return the address at which the model of this name is asked."""

    @abstractmethod
    def _headers(self, key: str) -> dict[str, str]:
        """Return the headers of each request, with the key, if there is one."""

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
