"""What redaction finds, and what it hides by mistake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.lessons.redaction_corpus import NONE, Labelled

Redact = Callable[[str], str]
_MARK = re.compile(r"(?:\[REDACTED:){1,3}[a-z_]{1,40}\]")  # an older version left marks within marks


@dataclass(frozen=True, slots=True)
class Read:
    """A labelled text as it came back."""

    row: Labelled
    leaked: bool
    """Whether a character of a labelled span survived."""
    beside: int
    """Marks that hide nothing labelled."""
    hits: int
    """Marks that hide something labelled."""


def read(row: Labelled, redact: Redact) -> Read:
    """Redact one text and hold the result against its labels."""
    hidden = _hidden(row.text, redact(row.text))
    leaked = any(not _covered(span, hidden) for span in row.spans)
    hits = [span for span in hidden if any(start < span[1] and end > span[0] for start, end in row.spans)]
    return Read(row, leaked, len(hidden) - len(hits), len(hits))


def _covered(span: tuple[int, int], hidden: Sequence[tuple[int, int]]) -> bool:
    return all(any(start <= at < end for start, end in hidden) for at in range(*span))


def _hidden(text: str, clean: str) -> list[tuple[int, int]]:
    """Where the marks of the clean text stand in the text itself. Raises ``ValueError`` when something else differs."""
    pattern = "(.+?)".join(map(re.escape, _MARK.split(clean)))
    match = re.fullmatch(pattern, text, re.DOTALL)
    if match is None:
        raise ValueError(f"more than marks differs: {clean[:80]!r}")
    return [match.span(number) for number in range(1, match.re.groups + 1)]


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of one half: texts found of those with something to hide, by kind, and the mistakes."""

    kinds: dict[str, tuple[int, int]]
    found: int
    positives: int
    hit: int
    negatives: int
    marks: int
    right_marks: int


def score(rows: Iterable[Labelled], redact: Redact) -> Score:
    """Redact every text of a half and count."""
    done = [read(row, redact) for row in rows]
    positive = [one for one in done if one.row.kind != NONE]
    negative = [one for one in done if one.row.kind == NONE]
    kinds: dict[str, tuple[int, int]] = {}
    for one in positive:
        found, n = kinds.get(one.row.kind, (0, 0))
        kinds[one.row.kind] = (found + (not one.leaked), n + 1)
    return Score(
        kinds=kinds,
        found=sum(not one.leaked for one in positive),
        positives=len(positive),
        hit=sum(one.beside > 0 for one in negative),
        negatives=len(negative),
        marks=sum(one.hits + one.beside for one in done),
        right_marks=sum(one.hits for one in done),
    )
