"""The base of models behind HTTP: it makes the calls, and repeats them without settings that the endpoint refuses."""

from __future__ import annotations

import copy
import json
import logging
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import ClassVar, Final, Self

import httpx

from jeeves_reflexion.errors import ConfigurationError, ModelAuthError, ModelError, ModelResponseError
from jeeves_reflexion.models.ask import expected_tokens, metered
from jeeves_reflexion.models.formats import ModelCall, TextStream
from jeeves_reflexion.models.http import (
    WAYS,
    Retry,
    UnusableAnswerError,
    model_error,
    refused_part,
    without_system,
)
from jeeves_reflexion.models.prices import Prices
from jeeves_reflexion.models.wrapped import Closable
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import check_whole, is_number
from vectorstores.header_secrets import check_headers, secrets_of
from vectorstores.json_http import JsonService, Timeouts, Waits
from vectorstores.service_address import MissingKeyError, address_and_key
from vectorstores.service_answers import RequestError

logger: Final = logging.getLogger("jeeves_reflexion")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """Settings for every request; each API adds its own.

    ``max_tokens`` bounds the answers to calls that set no bound of their own. ``tool_choice`` (``"auto"``, ``"none"``,
    ``"required"`` or the name of a tool) and ``parallel_tool_calls`` are sent with tools. ``extra`` is merged into the
    body of each request, lists and objects included, and ``headers`` into its headers; errors never show their values.
    ``connect_timeout`` and ``idle_timeout`` are in seconds. ``idle_timeout`` is the longest silence within a streamed
    answer; None allows silence for as long as the request may take.
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
            most = check_whole(f"{type(self).__name__}.max_tokens", self.max_tokens)
            object.__setattr__(self, "max_tokens", most)


class EndpointModel(Closable):
    """A chat model at an endpoint: the base of :class:`OpenAIModel` and :class:`AnthropicModel`.

    Use it as an async context manager, or call :meth:`aclose`, to close its connections. Otherwise they close when the
    event loop ends.
    """

    provider: ClassVar[str]
    """Whose API it is; the environment variables begin with this name."""
    _home: ClassVar[str]
    """The provider's own address."""
    _options: ClassVar[type[EndpointOptions]]
    _stream: type[TextStream]
    """The reader of streamed answers."""
    _lacks: frozenset[str] = frozenset()
    """Settings of ``Sampling`` that the API does not have."""

    def __init__(  # noqa: PLR0913 - what a user sets most often, by name
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retry: Retry | None = None,
        prices: Prices | None = None,
        stream: bool = False,
        options: EndpointOptions | None = None,
    ) -> None:
        options = self._options() if options is None else options
        if not isinstance(options, self._options):
            raise ConfigurationError(
                f"options must be {self._options.__name__}, not {type(options).__name__}"
            )
        timeouts = Timeouts(timeout, options.connect_timeout, options.idle_timeout)
        for label, seconds in timeouts._asdict().items():
            unbounded = label == "idle" and seconds is None
            if not unbounded and (not is_number(seconds) or seconds <= 0):
                raise ConfigurationError(f"the {label} timeout must be above 0 seconds, not {seconds!r}")
        variable = f"{self.provider.upper()}_API_KEY"
        address = base_url or os.environ.get(f"{self.provider.upper()}_BASE_URL") or self._home
        try:
            check_headers(options.headers)
            self._base, key = address_and_key(address, api_key, variable, options.headers)
        except MissingKeyError as error:
            raise ModelAuthError(str(error)) from error
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        self._name, self._prices = self._checked_name(name), prices
        self._streams = stream
        self._given = options
        self._refused: frozenset[str] = frozenset()
        self._auth_hint = (
            f"check {variable} (or the api_key you passed)" if key else f"set {variable} or pass api_key"
        )
        self._service = JsonService(
            self._address(),
            self._headers(key),
            timeouts=timeouts,
            waits=Waits(*astuple(retry or Retry())),
            secrets=secrets_of({}, options.extra),
            clean=redact,
        )

    def _checked_name(self, name: str) -> str:
        if not name.strip():
            raise ConfigurationError(f"{type(self).__name__} needs the name of a model, such as gpt-4o-mini")
        return name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, base_url={str(self._base).rstrip('/')!r})"

    def named(self, name: str) -> Self:
        """Return another model at the same endpoint. It shares the connections, and its prices are unknown."""
        other = copy.copy(self)
        other._name, other._prices = self._checked_name(name), None  # noqa: SLF001 - it is one of these
        other._service = self._service.at(other._address())  # noqa: SLF001 - as above
        return other

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._name

    @property
    def supports_tools(self) -> bool:
        """Whether native tools are offered. False as soon as the endpoint has refused them."""
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

        A setting that the endpoint says it doesn't support (``response_format``, ``max_tokens``, ``temperature``,
        ``stop``, ``seed``) is left out from then on, with a warning in the log. Then a schema is requested in the
        prompt, ``max_tokens`` becomes ``max_completion_tokens``, and system messages move into the user's. If tools
        exclude reasoning, ``reasoning_effort`` becomes ``"none"``. Refused *tools* are an error, after which
        ``supports_tools`` is false.
        """
        sampling = sampling or Sampling()
        if sampling.max_tokens is None:
            sampling = replace(sampling, max_tokens=self._given.max_tokens)
        for setting in sorted(self._lacks - self._refused):
            if getattr(sampling, setting):
                self._refused |= {setting}
                logger.warning("%s at %s has no setting %s", self._name, self._service.url, setting)
        while True:
            without = self._refused
            sent = without_system(messages) if "system" in without else messages
            body = {"model": self._name, **self._body(ModelCall(sent, tools, schema, sampling, without))}
            if self._streams:
                body |= {name: value for name, value in self._stream.asks.items() if name not in without}
            try:
                answer = await self._post(body)
                return replace(answer, model=answer.model or self._name)
            except ModelResponseError as error:
                refused = refused_part(error, body, sent)
                given = refused in self._given.extra and refused not in WAYS
                if error.handed_on or refused is None or refused in without or given:
                    raise
                self._refused |= {refused}
                way = WAYS.get(refused, f"does without {refused}")
                logger.warning("%s at %s %s: %s", self._name, self._service.url, way, error.said)
                if refused == "tools":
                    raise

    async def _post(self, body: Mapping[str, JSON]) -> Completion:
        # Some servers stream without being asked to.
        stream = self._stream(self._name)
        answer: Mapping[str, JSON] = {}
        error: ModelError
        try:
            answer = await self._service.post(body, stream)
            return self._read(answer)
        except RequestError as failed:
            error, cause = model_error(failed, self._service.url, self._auth_hint), failed.__cause__
        except UnusableAnswerError as lack:
            excerpt = self._service.shown(json.dumps(answer, ensure_ascii=False))
            message = f"{self._service.url} answered without {lack}: {excerpt}"
            error, cause = ModelResponseError(message, status=200, said=excerpt), None
        error.handed_on = stream.handed_on
        raise error from cause

    def expected_cost(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> float:
        """Return what a call may cost in US dollars: its texts, and the longest answer if that is bounded.

        The tokens of texts are estimated, rather too many than too few. Returns 0 without prices.
        """
        if self._prices is None:
            return 0.0
        asked = expected_tokens(messages, tools=tools, schema=schema)
        bound = None if sampling is None else sampling.max_tokens
        # Input that is written to a cache may cost more than other input.
        dearest = replace(self._prices, input=max(self._prices.input, self._prices.cache_write or 0.0))
        return dearest.cost(asked, (self._given.max_tokens if bound is None else bound) or 0)

    def _with_extra(self, body: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return a body with the options' ``extra``: it extends lists and objects, and replaces other values."""
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

    @abstractmethod
    def _address(self) -> httpx.URL:
        """Return the address to which requests for this model go."""

    @abstractmethod
    def _headers(self, key: str) -> dict[str, str]:
        """Return the headers of each request, with the key if there is one."""

    @abstractmethod
    def _body(self, call: ModelCall) -> dict[str, JSON]:
        """Return the body of a request, without the model's name and without settings that were refused."""

    @abstractmethod
    def _read(self, body: Mapping[str, JSON]) -> Completion:
        """Read an answer and its cost. Raises :class:`UnusableAnswerError`."""

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._service.aclose()
