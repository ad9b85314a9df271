"""How failed calls of a model's endpoint are repeated, and which error of this package they become."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from jeeves_reflexion.errors import (
    ConfigurationError,
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelRequestError,
    ModelResponseError,
    ModelTimeoutError,
)
from jeeves_reflexion.values import checked_settings
from vectorstores.service_answers import SPENT, RequestError

_TOO_LARGE: Final = 413
# Refusals that may concern this conversation alone: it is too long, or a filter objects to it.
_ABOUT_TEXTS: Final = re.compile(
    r"context|exceed|request too large|too long|too many|length|content|polic|safety|moderat", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
@checked_settings
class Retry:
    """How often a failed call is repeated, and after how long.

    The n-th wait is ``first_wait * 2**(n-1)`` seconds, at most ``longest_wait``, times a random factor in [0.5, 1].
    The server's ``retry-after-ms`` or ``Retry-After`` header replaces it; the call fails if the header asks for more
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


class UnusableAnswerError(Exception):
    """An answer is JSON but unusable; the message says what it lacks."""


def model_error(failed: RequestError, url: object, auth_hint: str) -> ModelError:
    """Return the error to raise for a failed request; ``auth_hint`` says what to do about a refused key.

    It is a :class:`ModelAuthError` for 401 and 403, and a :class:`ModelRequestError` for a used-up quota and for 400,
    404 and the like, unless they concern the texts that were sent. The rest become :class:`ModelTimeoutError`,
    :class:`ModelConnectionError` or :class:`ModelResponseError`.
    """
    status, said = failed.status, failed.said
    if failed.kind == "late":
        return ModelTimeoutError(str(failed))
    if failed.kind == "unreachable":
        return ModelConnectionError(str(failed))
    if status in {401, 403}:
        return ModelAuthError(f"{url} refused the request ({status}): {auth_hint}. It said: {said}")
    about_texts = status == _TOO_LARGE or _ABOUT_TEXTS.search(f"{failed.code} {said}")
    refused = 400 <= status < 500 and not failed.passing and not about_texts
    kind = ModelRequestError if refused or failed.code in SPENT else ModelResponseError
    return kind(str(failed), status=status or None, said=said, code=failed.code)
