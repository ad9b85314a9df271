"""What the answer of a service comes to: an error, whether asking again may help, and after how long."""

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
"""Codes of refusals that last until somebody pays."""
_PASSING: Final = frozenset(
    {"rate_limit_exceeded", "rate_limit_error", "server_error", "api_error", "overloaded_error"}
)
# Services say so with 429 and 500, too; it is no less long a moment later.
TOO_LONG: Final = re.compile(
    r"context.?(?:length|size|window)|prompt is too long|input is too long|request too large for",
    re.IGNORECASE,
)
"""What services say of a text that is too long."""


class RequestError(Exception):
    """A request that came to nothing: the answer was a refusal or garbled, came too late, or nobody could be reached.

    ``status`` is that of a refusal, else 0, ``said`` what it said, and ``code`` the word that it has for it, if any.
    ``passing`` says that the same may fare better later, ``after`` so many seconds if the service said so.
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
        """Return the error with a note behind what it says."""
        self.args = (f"{self} ({note})",)
        return self


def check_answer(
    url: httpx.URL, response: httpx.Response, content: bytes, shown: Callable[[str], str]
) -> None:
    """Raise :class:`RequestError` for an answer, or an event of one, that tells of an error; ``shown`` cleans texts.

    Routers put an error of the service behind them into a 200, with its status as the code. The same may fare better
    later after 408, 409, 429 and 5xx, or as the service says.
    """
    status, headers = response.status_code, response.headers
    # Answers may be long (vectors), and few of them hold the word.
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
    told = headers.get("x-should-retry", "").strip().lower()
    if code in SPENT or TOO_LONG.search(text[: 20 * EXCERPT]):
        passing = False
    elif told in {"true", "false"}:
        passing = told == "true"
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
    """Return the error that an answer or an event of one tells of: its own, or of what it brings."""
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
    """Return the JSON value of an answer, or ``None`` where it is none."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value


def _asked_wait(headers: httpx.Headers) -> float | None:
    """Return the seconds that a service asks to wait, in milliseconds, seconds or until a date; None if unreadable."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(milliseconds / 1000, 0.0)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value is not None:
        with contextlib.suppress(ValueError):
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
    return None if seconds is None else max(seconds, 0.0)


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return None if math.isnan(number) else number


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."
