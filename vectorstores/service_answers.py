"""Reads a service's answer: whether it is an error, whether a retry may help, and after how long."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final, Literal, Self

import httpx

EXCERPT: Final = 300
"""How many characters of an unusable answer an error shows."""

_RETRIED: Final = frozenset({408, 409, 429})
SPENT: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Codes of refusals that last until somebody pays the bill."""
_PASSING: Final = frozenset(
    {"rate_limit_exceeded", "rate_limit_error", "server_error", "api_error", "overloaded_error"}
)
# Services report this with 429 and 500 too, although a retry can't help.
TOO_LONG: Final = re.compile(
    r"context.?(?:length|size|window)|prompt is too long|input is too long|request too large for",
    re.IGNORECASE,
)
"""Matches what services say about a text that is too long."""


class RequestError(Exception):
    """A request failed: it was refused, the answer was garbled or too late, or the service was unreachable.

    ``status`` is the status of a refusal, else 0, ``said`` its text, and ``code`` the service's name for the error, if
    any. ``passing`` says that a retry may succeed, ``after`` how many seconds the service asks to wait.
    """

    def __init__(
        self,
        message: str,
        kind: Literal["refused", "garbled", "late", "unreachable"],
        *,
        status: int = 0,
        said: str = "",
        code: str = "",
        passing: bool = False,
        after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.said = said
        self.code = code
        self.passing = passing
        self.after = after

    def noted(self, note: str) -> Self:
        """Return the error with a note added to its message."""
        self.args = (f"{self} ({note})",)
        return self


def check_answer(
    url: httpx.URL, response: httpx.Response, content: bytes, shown: Callable[[str], str]
) -> None:
    """Raise :class:`RequestError` for an answer, or an event of one, that reports an error; ``shown`` cleans texts.

    Routers report an error of the service behind them with status 200 and its status as the code. A retry may help
    after 408, 409, 429 and 5xx, or if the service says so.
    """
    status, headers = response.status_code, response.headers
    # Answers may be long (vectors), and few contain the word.
    value = parsed(content) if b'"error"' in content or not response.is_success else None
    error = _error_in(value)
    if response.is_success and not error:
        return
    codes = [error.get("code"), error.get("type")] if isinstance(error, dict) else []
    if response.is_success:
        status = next((int(str(code)) for code in codes if re.fullmatch(r"[45]\d\d", str(code))), status)
    code = next((code for code in codes if isinstance(code, str) and not code.isdecimal()), "")
    text = content.decode(errors="replace")
    passing = status in _RETRIED or status >= 500 or (status == 200 and code in _PASSING)
    should_retry = headers.get("x-should-retry", "").strip().lower()
    if code in SPENT or TOO_LONG.search(text[: 20 * EXCERPT]):
        passing = False
    elif should_retry in {"true", "false"}:
        passing = should_retry == "true"
    said = shown(text)
    raise RequestError(
        f"{url} answered {'with an error' if status == 200 else status}: {said}",
        "refused",
        status=status,
        said=said,
        code=shown(code),
        passing=passing,
        after=_asked_wait(headers),
    )


def _error_in(value: object) -> object:
    """Return the error in an answer or an event, at the top or nested in it; None if there is none."""
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    return (
        value.get("error")
        or _error_in(value.get("response"))
        or (_error_in(choices[0]) if isinstance(choices, list) and choices else None)
        or (value if value.get("type") == "error" else None)
    )


def parsed(content: bytes) -> object:
    """Return the JSON value of an answer, or ``None`` if it is not JSON."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value


def _asked_wait(headers: httpx.Headers) -> float | None:
    """Return the seconds that a service asks to wait, by milliseconds, seconds or a date; None if it can't be read."""
    value = headers.get("retry-after", "")
    for text, unit in ((headers.get("retry-after-ms", ""), 1000), (value, 1)):
        with contextlib.suppress(ValueError):
            number = float(text)
            if not math.isnan(number):
                return max(number / unit, 0.0)
    with contextlib.suppress(ValueError):
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return None


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."
