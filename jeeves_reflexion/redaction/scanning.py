"""One reading of a text: which patterns are worth trying, where, what they find, and the marks in its place."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

from jeeves_reflexion.redaction.patterns import PATTERNS, Pattern

_MARK = re.compile(r"\[REDACTED:[a-z_]{1,40}\]")
_GATES = {
    "long": re.compile(r"(?<!\S)\S{16,}"),
    "digits": re.compile(r"[0-9](?:[^0-9A-Za-z\n]{0,3}[0-9]){5}"),
    "foreign": re.compile(r"[^\x00-\x7f]"),
    "quads": re.compile(r"\.[0-9]{1,3}\.[0-9]"),
    "colons": re.compile(r"::|:[0-9a-fA-F]{1,4}:|-[0-9a-fA-F]{2}-[0-9a-fA-F]{2}-"),
}
_ROUNDS = 8
_SHORT = 400
"""Characters up to which a text is read as a whole; in a longer one, what a pattern needs tells where to look."""
_AFTER = 160
"""Characters after it that a window holds. A match that reaches the end of its window is matched again without one."""

_Span = tuple[int, int, str]
_Window = tuple[int, int]


def redact(text: str, patterns: Sequence[Pattern] = PATTERNS) -> str:
    """Return the text with every secret of a known kind replaced by ``[REDACTED:kind]``.

    Redacting twice is redacting once: what a replacement brings to light is replaced too, in rounds of one reading
    each. A text without secrets takes one round, others two or three. One that still shows something new after
    ``_ROUNDS`` was made for that, and is hidden as a whole, so that the time stays linear.
    """
    plan = _PLAN if patterns is PATTERNS else _Plan(patterns)
    for _ in range(_ROUNDS):
        read, places = _as_read(text)
        spans = _spans(_Look(read), plan)
        if not spans:
            return text
        if places is not None:
            spans = [(places[start], places[end - 1] + 1, kind) for start, end, kind in spans]
        text = _marked(text, spans)
    return f"[REDACTED:{spans[0][2]}]"


_DISGUISED = re.compile(
    "[\u00a0\u00ad\u034f\u1680\u180e\u2000-\u2012\u202a-\u202f\u205f-\u2064\u2066-\u2069\u2212\u3000\ufe63\ufeff\uff01-\uff5e]"
)
_INVISIBLE = frozenset(
    map(chr, (0xAD, 0x34F, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065)))
) | frozenset(map(chr, (*range(0x2066, 0x206A), 0xFEFF)))
_PLAIN = {
    **dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "),
    **dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2212, 0xFE63), "-"),
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
}


def _as_read(text: str) -> tuple[str, list[int] | None]:
    """The text as patterns read it, and the place in the text of each of its characters, None where that is its own.

    Wide letters, rare spaces and rare hyphens are plain ones; what can't be seen is not there, so that it parts no
    secret.
    """
    if text.isascii() or not _DISGUISED.search(text):
        return text, None
    plain = text.translate(_PLAIN)
    if _INVISIBLE.isdisjoint(plain):
        return plain, None
    places = [at for at, character in enumerate(plain) if character not in _INVISIBLE]
    return "".join([plain[at] for at in places]), places


class _Look:
    """A text, and where in it a need or a gate is met."""

    def __init__(self, text: str) -> None:
        self.text = text
        # The one letter that gets longer in small letters: places in one text are places in the other.
        self.lowered = text.replace("İ", "i").lower()
        self.gates = {name: gate for name, gate in _GATES.items() if gate.search(text)}
        self._whole = len(text) <= _SHORT
        self._of_gates: dict[tuple[str, int], list[_Window]] = {}

    def windows(self, pattern: Pattern) -> list[_Window]:
        """The parts of the text in which the pattern may begin and end, apart from each other."""
        if self._whole:
            return [(0, len(self.text))]
        if not pattern.gate:
            return _merged(sorted(self._around_needs(pattern)), len(self.text))
        key = (pattern.gate, pattern.reach)
        if key not in self._of_gates:
            self._of_gates[key] = _merged(list(self._around_gate(*key)), len(self.text))
        return self._of_gates[key]

    def _around_needs(self, pattern: Pattern) -> Iterator[_Window]:
        if not pattern.needs:
            yield 0, len(self.text)
        for need in pattern.needs:
            at = self.lowered.find(need)
            while at >= 0:
                yield at - pattern.reach, at + _AFTER
                at = self.lowered.find(need, at + 1)

    def _around_gate(self, gate: str, reach: int) -> Iterator[_Window]:
        for match in self.gates[gate].finditer(self.text):
            yield match.start() - reach, match.end() + _AFTER


def _merged(places: list[_Window], length: int) -> list[_Window]:
    """Windows in order, those that touch as one."""
    windows: list[_Window] = []
    for first, last in places:
        start, end = max(first, 0), min(last, length)
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(end, windows[-1][1]))
        else:
            windows.append((start, end))
    return windows


class _Plan:
    """Patterns by what they need, turned about once so that a text is asked once for each."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns = patterns
        self._needs: dict[str, list[tuple[str, int]]] = {}
        self._free: dict[str, list[int]] = {}
        for index, pattern in enumerate(patterns):
            if pattern.needs:
                self._needs.setdefault(pattern.gate, []).extend((need, index) for need in pattern.needs)
            else:
                self._free.setdefault(pattern.gate, []).append(index)

    def tried(self, look: _Look) -> list[Pattern]:
        """The patterns that may find something, in order."""
        lowered = look.lowered
        found: set[int] = set()
        for gate in ("", *look.gates):
            found.update(self._free.get(gate, ()))
            found.update([index for need, index in self._needs.get(gate, ()) if need in lowered])
        return [self.patterns[index] for index in sorted(found)]


_PLAN = _Plan(PATTERNS)


def _spans(look: _Look, plan: _Plan) -> list[_Span]:
    """What is to be hidden, in order and apart from each other."""
    found = [
        (*_hidden(match), pattern.kind)
        for pattern in plan.tried(look)
        for window in look.windows(pattern)
        for match in _matches(pattern, look.text, window)
    ]
    return _apart(found, [mark.span() for mark in _MARK.finditer(look.text)]) if found else []


def _matches(pattern: Pattern, text: str, window: _Window) -> Iterator[re.Match[str]]:
    expression, check = pattern.regex, pattern.check
    for short in expression.finditer(text, *window):
        cut = short.end() == window[1] < len(text)
        match = expression.match(text, short.start()) if cut else short
        if match and (check is None or check(match)):
            yield match


def _hidden(match: re.Match[str]) -> _Window:
    for name in match.re.groupindex:
        if match[name] is not None:
            return match.span(name)
    return match.span()


def _apart(found: list[_Span], marks: list[_Window]) -> list[_Span]:
    """Spans that overlap as one, with the kind of the widest; those that begin in a mark are none."""
    spans: list[_Span] = []
    after = iter([*marks, (sys.maxsize, sys.maxsize)])
    mark = next(after)
    for start, end, kind in sorted(found, key=lambda span: span[:2]):
        while mark[1] <= start:
            mark = next(after)
        if mark[0] <= start or start == end:
            continue
        if spans and start < spans[-1][1]:
            first, last, before = spans[-1]
            spans[-1] = (first, max(end, last), kind if end - start > last - first else before)
        else:
            spans.append((start, end, kind))
    return spans


def _marked(text: str, spans: list[_Span]) -> str:
    parts, at = [], 0
    for start, end, kind in spans:
        parts += [text[at:start], f"[REDACTED:{kind}]"]
        at = end
    return "".join([*parts, text[at:]])
