"""Posts JSON to a model's endpoint: the settings of retries, and errors of this package."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeVar

import httpx

from jeeves_reflexion.errors import (
    ConfigurationError,
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelRequestError,
    ModelResponseError,
    ModelTimeoutError,
)
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import checked_settings, is_number
from vectorstores.json_http import JsonService, Timeouts, repeated
from vectorstores.service_answers import SPENT, RequestError, parsed

if TYPE_CHECKING:
    from jeeves_reflexion.models.streams import AnswerStream

T = TypeVar("T")

_TOO_LARGE: Final = 413
# A refusal that may be due to this one conversation: it is too long, or a filter dislikes it.
_ABOUT_TEXTS: Final = re.compile(
    r"context|exceed|request too large|too long|too many|length|content|polic|safety|moderat", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
@checked_settings
class Retry:
    """How often and how patiently a failed call is repeated.

    The n-th wait is ``first_wait * 2**(n-1)`` seconds, at most ``longest_wait``, times a random factor in
    [0.5, 1]; a ``retry-after-ms`` or ``Retry-After`` of the server replaces it, and ends the call if it asks for more
    than ``longest_wait``.
    """

    retries: int = 4
    first_wait: float = 0.5
    longest_wait: float = 60.0

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ConfigurationError(f"Retry.retries must be at least 0, not {self.retries}")
        if not 0 <= self.first_wait <= self.longest_wait:
            raise ConfigurationError("Retry needs 0 <= first_wait <= longest_wait")

    def wait(self, retry: int) -> float:
        """Return the seconds to wait before the given retry, counted from 1, where the server names none."""
        wait = min(self.first_wait * 2.0 ** min(retry - 1, 1_000), self.longest_wait)
        return wait * random.uniform(0.5, 1.0)  # noqa: S311


class UnusableAnswerError(Exception):
    """An answer is JSON and not what was asked for; says what it lacks."""


class JsonEndpoint:
    """One address that takes JSON objects by POST and answers with JSON objects.

    What ``headers`` say, and ``secrets``, is taken out of every error. ``auth_hint`` says what to do when the endpoint
    refuses the key.
    """

    def __init__(
        self,
        url: httpx.URL,
        *,
        headers: Mapping[str, str],
        secrets: Sequence[str] = (),
        auth_hint: str,
        timeouts: Timeouts,
        retry: Retry,
    ) -> None:
        for name, seconds in timeouts._asdict().items():
            unbounded = name == "idle" and seconds is None
            if not unbounded and (not is_number(seconds) or seconds <= 0):
                raise ConfigurationError(f"the {name} timeout must be above 0 seconds, not {seconds!r}")
        self.url = url
        self._service = JsonService(
            url,
            headers,
            timeouts=timeouts,
            secrets=secrets,
            clean=redact,
        )
        self._auth_hint = auth_hint
        self._retry = retry
        self.aclose = self._service.aclose

    def at(self, url: httpx.URL) -> Self:
        """Return the endpoint at another address of the same host, over the same connections."""
        other = copy.copy(self)
        other.url, other._service = url, self._service.at(url)  # noqa: SLF001 - it is one of these
        return other

    async def post(
        self,
        body: Mapping[str, JSON],
        read: Callable[[Mapping[str, JSON]], T],
        new_stream: Callable[[], AnswerStream],
    ) -> T:
        """Post an object and return what ``read`` makes of the one that answers, or that a stream of events comes to.

        Repeats on 408, 409, 429, 5xx and broken connections, as ``Retry`` says, or where ``x-should-retry`` says so;
        not where a quota is used up or the input is too long, and not once its stream has handed something on. Raises
        :class:`ModelAuthError` (401, 403), :class:`ModelRequestError` (400, 404 and their like, unless it is about the
        texts that were sent), :class:`ModelTimeoutError` (no whole answer in time; not repeated, for the endpoint may
        be at work), :class:`ModelConnectionError` and :class:`ModelResponseError`.
        """
        retry = self._retry
        stream = new_stream()

        async def ask() -> httpx.Response | None:
            nonlocal stream
            stream = new_stream()
            try:
                return await self._service.post(body, stream)
            except RequestError as failed:
                if failed.kind == "late" and stream.ended:
                    return None  # the answer is whole, though its stream stayed open
                failed.handed_on = stream.handed_on
                raise

        try:
            response = await repeated(
                ask, retries=retry.retries, wait=retry.wait, longest_wait=retry.longest_wait
            )
            return self._read(stream.body if stream.ended or response is None else response, read)
        except RequestError as failed:
            error = self._error(failed)
            error.handed_on = failed.handed_on
            raise error from failed.__cause__
        except ModelError as error:
            error.handed_on = stream.handed_on
            raise

    def _read(
        self, answer: Mapping[str, JSON] | httpx.Response, read: Callable[[Mapping[str, JSON]], T]
    ) -> T:
        value = parsed(answer.content) if isinstance(answer, httpx.Response) else answer
        if isinstance(value, Mapping):
            try:
                return read(value)
            except UnusableAnswerError as lack:
                said = self._service.shown(json.dumps(value, ensure_ascii=False))
                message = f"{self.url} answered without {lack}: {said}"
                raise ModelResponseError(message, status=200, said=said) from None
        assert isinstance(answer, httpx.Response)  # noqa: S101 - a stream comes to an object
        kind = self._service.shown(answer.headers.get("content-type", "no content type"))
        said = self._service.shown(answer.text)
        message = f"{self.url} answered with something that is no JSON object ({kind}): {said}"
        raise ModelResponseError(message, status=answer.status_code, said=said)

    def _error(self, failed: RequestError) -> ModelError:
        status, said = failed.status, failed.said
        if failed.kind == "late":
            return ModelTimeoutError(str(failed))
        if failed.kind == "unreachable":
            return ModelConnectionError(str(failed))
        if status in {401, 403}:
            return ModelAuthError(
                f"{self.url} refused the request ({status}): {self._auth_hint}. It said: {said}"
            )
        about_texts = status == _TOO_LARGE or _ABOUT_TEXTS.search(f"{failed.code} {said}")
        refused = 400 <= status < 500 and not failed.passing and not about_texts
        kind = ModelRequestError if refused or failed.code in SPENT else ModelResponseError
        return kind(str(failed), status=status or None, said=said, code=failed.code)
