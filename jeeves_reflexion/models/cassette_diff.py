"""What an unknown request has in common with a recorded one, and where they differ, in a few lines for a person."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from jeeves_reflexion.models.cassette import Exchange, Request

_LINES: Final = 12
_WIDTH: Final = 160
_WORD: Final = re.compile(r"\w+")


def nearest(asked: Request, exchanges: Iterable[Exchange]) -> Exchange | None:
    """Return the recorded exchange whose request has most words in common with ``asked``; the first of equals."""
    words = _words(asked)
    best: tuple[float, Exchange] | None = None
    for exchange in exchanges:
        if exchange.request is None:
            continue
        other = _words(exchange.request)
        share = 2 * (words & other).total() / max(words.total() + other.total(), 1)
        if best is None or share > best[0]:
            best = share, exchange
    return best[1] if best else None


def difference(recorded: Request, asked: Request) -> str:
    """Return the lines that differ, at most 12, each cut around its first difference."""
    before, after = _as_lines(recorded), _as_lines(asked)
    lines: list[str] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        pairs = max(b - a, d - c)
        for place in range(pairs):
            old = before[a + place] if a + place < b else None
            new = after[c + place] if c + place < d else None
            start = _first_difference(old or "", new or "") if old is not None and new is not None else 0
            lines += [
                f"{sign} {_cut(text, start)}" for sign, text in (("-", old), ("+", new)) if text is not None
            ]
    more = len(lines) - _LINES
    return "\n".join([*lines[:_LINES], *([f"... and {more} more lines"] if more > 0 else [])])


def _words(request: Request) -> Counter[str]:
    return Counter(_WORD.findall("\n".join(_as_lines(request))))


def _as_lines(request: Request) -> list[str]:
    """A request as a person reads it: a line for each setting, then the messages line by line."""
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"
        for name, value in sorted(request.items())
        if name != "messages"
    ]
    for number, message in enumerate(request.get("messages", ()), 1):
        label = f"[{number} {message.get('role', '?')}]"
        lines += [f"{label} {line}" for line in str(message.get("content", "")).split("\n")]
        lines += [
            f"{label} {name}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"
            for name, value in sorted(message.items())
            if name not in {"role", "content"}
        ]
    return lines


def _first_difference(one: str, other: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _cut(text: str, start: int) -> str:
    first = max(start - _WIDTH // 2, 0)
    part = text[first : first + _WIDTH]
    return f"{'...' if first else ''}{part}{'...' if first + _WIDTH < len(text) else ''}"
