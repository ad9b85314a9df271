"""Failed calls of an endpoint: how often they are repeated, which error they become, and what was refused.

A part of a request that the endpoint does not support can be left out: :func:`refused_part` finds out which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from jeeves_reflexion.protocols import Message
from jeeves_reflexion.types import JSON
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


# -- what an endpoint does not support --------------------------------------------------------------------------------

_COMPLAINT: Final = re.compile(
    r"support|unrecogni[sz]ed|unknown|unexpected|unavailable|not (?:permitted|allowed|available)"
    r"|extra (?:inputs|fields)|requires|deprecated|may only be",
    re.IGNORECASE,
)
# The setting is supported and its value is wrong: to leave it out would hide the mistake.
_WRONG_VALUE: Final = re.compile(
    r"too (?:large|big|high|small|low|long|many)|at (?:most|least)|exceed|out of range|(?:less|greater|more) than",
    re.IGNORECASE,
)
_NO_SYSTEM: Final = re.compile(
    r"\b(?:system|developer)['\"` ]*(?:role|messages?|instructions?|prompts?)\b.{0,40}"
    r"(?:not|n't|un)\W*(?:support|enabled|allowed)"
    r"|(?:not|n't) support\w*\W+(?:the )?\W*(?:system|developer)\b",
    re.IGNORECASE,
)
_INCLUDED: Final = re.compile(r"encrypted.content|\binclude\b", re.IGNORECASE)
_SCHEMA: Final = re.compile(r"response_format|json_schema|text\.format")
_TOOLS: Final = re.compile(r"\btools?\b|\btool_choice\b", re.IGNORECASE)
_SETTINGS: Final = (
    "max_tokens",
    "max_output_tokens",
    "temperature",
    "seed",
    "stop",
    "stream_options",
    "tool_choice",
    "parallel_tool_calls",
)
_OF_EVERY_MESSAGE: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "type"})
_REFUSED: Final = frozenset({400, 404, 422})
# Some servers answer 500 or 501 if their template has no place for tools or a system message.
_IN_TEMPLATE: Final = _REFUSED | {500, 501}

WAYS: Final[Mapping[str, str]] = {
    "tools": "refuses native tools, which it is not offered any more, so that agents use a text form",
    "system": "refuses system messages, which now begin the user's",
    "reasoning_effort": 'takes tools with reasoning_effort="none" alone; OpenAIModel(api="responses") has both',
}
"""How a model goes on without a refused part, if it does more than leave out a setting."""


def refused_part(
    error: ModelResponseError, body: Mapping[str, JSON], messages: Sequence[Message]
) -> str | None:
    """Return the part of a request that the endpoint says it doesn't support; None if its error says something else.

    It is ``"tools"``, ``"system"`` (messages), ``"response_format"``, a setting, or a field of assistant messages.
    """
    said, status = error.said, error.status
    refused, wrong_value = status in _REFUSED, bool(_WRONG_VALUE.search(said))
    complains = bool(_COMPLAINT.search(said))
    if refused and "tools" in body and "reasoning_effort" in said and _TOOLS.search(said):
        return None if body.get("reasoning_effort") == "none" else "reasoning_effort"
    has_system = any(each.role == "system" for each in messages)
    if status in _IN_TEMPLATE and has_system and _NO_SYSTEM.search(said) and not wrong_value:
        return "system"
    if refused and "include" in body and _INCLUDED.search(said):
        return "include"
    schema = {"response_format", "text"} & body.keys()
    if refused and schema and _SCHEMA.search(said):
        return schema.pop()
    if refused and complains and not wrong_value:
        past = body.get("messages", ())
        turns = [turn for turn in past if isinstance(turn, Mapping)] if isinstance(past, Sequence) else []
        # Other fields of a message are sent back only because they came with it.
        came_with = {name for turn in turns for name in turn} - _OF_EVERY_MESSAGE
        sent = [*(name for name in _SETTINGS if name in body), *came_with]
        named = next((name for name in sent if re.search(rf"\b{re.escape(name)}\b", said)), None)
        if named is not None and (named != "tool_choice" or "requires" not in said):
            return named
    # A conversation that has called tools already can't go on without them.
    begun = any(message.tool_calls for message in messages)
    no_tools = status in _IN_TEMPLATE and _TOOLS.search(said) and complains
    return "tools" if "tools" in body and not begun and no_tools else None


def without_system(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation with its system messages moved to the beginning of the first user message."""
    system = [message.content for message in messages if message.role == "system"]
    rest = [message for message in messages if message.role != "system"]
    at = next((place for place, message in enumerate(rest) if message.role == "user"), None)
    if at is None:
        return [Message("user", "\n\n".join(system)), *rest] if system else rest
    rest[at] = Message("user", "\n\n".join([*system, rest[at].content]))
    return rest
