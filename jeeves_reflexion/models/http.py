"""How failed calls of a model's endpoint are repeated, and what they are as errors of this package."""

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


class UnusableAnswerError(Exception):
    """An answer is JSON and not what was asked for; says what it lacks."""


def model_error(failed: RequestError, url: object, auth_hint: str) -> ModelError:
    """Return what a failed request is to a user of models; ``auth_hint`` says what to do where a key is refused.

    :class:`ModelAuthError` for 401 and 403, :class:`ModelRequestError` for 400, 404 and their like, unless it is about
    the texts that were sent, and for a quota that is used up; :class:`ModelTimeoutError`,
    :class:`ModelConnectionError`, and :class:`ModelResponseError` for the rest.
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
