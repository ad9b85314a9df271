"""The scan of a text: which patterns to try, what they find, and the marks that replace it."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from jeeves_reflexion.redaction import checks
from jeeves_reflexion.text import Needles

Check = Callable[[re.Match[str]], bool]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret and how it looks.

    The secret is the named group that matched, or else the whole match. If there are ``needs`` (in lower case), the
    expression is tried only on a text that holds one of them. ``check`` has the last word on a match.
    """

    kind: str
    expression: str
    needs: tuple[str, ...] = ()
    check: Check | None = None


def _read(path: Path) -> Iterator[Pattern]:
    kinds: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    words: dict[str, str] = {}

    def filled(text: str) -> str:
        for name, word in words.items():
            text = text.replace(f"{{{name}}}", word)
        return text

    for name, text in kinds.pop("words").items():
        words[name] = filled(text)
    for kind, rows in kinds.items():
        for row in rows:
            check, _, module = row.get("check", "").partition(":")
            found: Check | None = getattr(checks, check) if check else None
            if check == "stdnum":
                found = partial(checks.stdnum, module)
            yield Pattern(kind, filled(row["expression"]), tuple(row.get("needs", ())), found)


PATTERNS: tuple[Pattern, ...] = tuple(_read(Path(__file__).with_name("patterns.toml")))
_compiled = cache(re.compile)  # compiled on first use
_MARK = re.compile(r"\[REDACTED:[a-z_]{1,40}\]")
_UNNAMED = re.compile(
    r"\S{16}|[0-9](?:[^0-9A-Za-z\n]{0,3}[0-9]){5}|\.[0-9]{1,3}\.[0-9]|::|:[0-9a-fA-F]{1,4}:|-[0-9a-fA-F]{2}-"
)
"""A sign of secrets without a need: a long word, six digits, dots between numbers, colons between hex digits."""
_UNCONDITIONAL = frozenset(at for at, pattern in enumerate(PATTERNS) if not pattern.needs)
_BY_NEED = {
    need: frozenset(at for at, pattern in enumerate(PATTERNS) if need in pattern.needs)
    for need in {need for pattern in PATTERNS for need in pattern.needs}
}
_NEEDS = Needles(_BY_NEED)
_ROUNDS = 8
_SHORTEST = 16
"""No pattern matches a lone word of letters and underscores that is shorter than this."""

_Span = tuple[int, int, str]


def redact(text: str) -> str:
    """Return the text with every secret of a known kind replaced by ``[REDACTED:kind]``.

    Redacting twice changes nothing more: a replacement may bring another secret to light, so the text is scanned again
    until nothing is found. A text without secrets takes one scan, others two or three. A text that still shows secrets
    after ``_ROUNDS`` scans was made to do so, and is hidden as a whole, which keeps the time linear.
    """
    if len(text) < _SHORTEST and (not text or (text.isascii() and text.replace("_", "").isalpha())):
        return text  # a short word, like most names and many values in a record
    for _ in range(_ROUNDS):
        read, places = _as_read(text)
        spans = _apart(sorted(_found(read), key=lambda span: span[:2]), read)
        if not spans:
            return text
        parts, at = [], 0
        for start, end, kind in spans:
            first, last = (start, end) if places is None else (places[start], places[end - 1] + 1)
            parts += [text[at:first], f"[REDACTED:{kind}]"]
            at = last
        text = "".join([*parts, text[at:]])
    return f"[REDACTED:{spans[0][2]}]"


_INVISIBLE = "\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
_HIDDEN = re.compile(f"[{_INVISIBLE}]")
_PLAIN = {
    **dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "),
    **dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2212, 0xFE63), "-"),
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
}


def _as_read(text: str) -> tuple[str, list[int] | None]:
    """Return the text for the patterns, and the original position of each character (None if unchanged).

    Wide letters, rare spaces and rare hyphens become plain ones. Invisible characters are left out, so that they can't
    split a secret.
    """
    if text.isascii():
        return text, None
    plain = text.translate(_PLAIN)
    if not _HIDDEN.search(plain):
        return plain, None
    places = [at for at, character in enumerate(plain) if not _HIDDEN.match(character)]
    return "".join([plain[at] for at in places]), places


def _found(text: str) -> Iterator[_Span]:
    """Yield the start, end and kind of each secret that the patterns find."""
    wanted = {at for need in _NEEDS.held(text.lower()) for at in _BY_NEED[need]}
    if _UNNAMED.search(text):
        wanted |= _UNCONDITIONAL
    for pattern in [PATTERNS[at] for at in sorted(wanted)]:
        for match in _compiled(pattern.expression).finditer(text):
            if pattern.check is None or pattern.check(match):
                name = next((each for each in match.re.groupindex if match[each] is not None), 0)
                yield *match.span(name), pattern.kind


def _apart(found: list[_Span], text: str) -> list[_Span]:
    """Join overlapping spans, with the kind of the widest, and drop those that begin in a mark of redaction."""
    spans: list[_Span] = []
    marks = (each.span() for each in _MARK.finditer(text))
    mark = (-1, -1)
    for start, end, kind in found:
        while mark[1] <= start:
            mark = next(marks, (sys.maxsize, sys.maxsize))
        if mark[0] <= start or start == end:
            continue
        if spans and start < spans[-1][1]:
            first, last, before = spans[-1]
            spans[-1] = (first, max(end, last), kind if end - start > last - first else before)
        else:
            spans.append((start, end, kind))
    return spans
