"""Spans of a sentence that may be an answer: names, years, dates, numbers, titles in quotation marks, descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from .words import word_set

Shape: TypeAlias = Literal["name", "place_pair", "title", "year", "date", "number", "description"]

_MONTHS: Final = word_set(
    "January February March April May June July August September October November December"
)
_MONTH: Final = f"(?:{'|'.join(sorted(_MONTHS))})"
_DATE: Final = re.compile(rf"\b(?:\d{{1,2}} {_MONTH}(?: \d{{4}})?|{_MONTH} \d{{1,2}}(?:, \d{{4}})?)\b")
_YEAR: Final = re.compile(r"\b(?:1[0-9]{3}|20[0-4][0-9])\b")
_NUMBER: Final = re.compile(
    r"\b(?:\d[\d,]*(?:\.\d+)?|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|hundred)\b",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(r"[\"“]([^\"”]{2,80})[\"”]")
_IS_A: Final = re.compile(
    r"\b(?:is|was|are|were) (?:an?|the|one of the) (?P<what>[^,.;()]+?)"
    r"(?= (?:in|that|which|who|of|from|by|on|based|located|best|born|and is|and was|for|at|with|founded|published|"
    r"written|directed|formed|released|known)\b|[,.;()]|$)"
)
_TOKEN: Final = re.compile(r"\w+(?:[.'\u2019&-]\w+)*\.?|[^\w\s]")
_LINKS: Final = word_set("of the de von van der la le du di & for")
# Words that begin a sentence with a capital letter without being a name.
_OPENERS: Final = word_set(
    """the a an in on at it he she they his her its their this that these those as after before since when while for
    from by with and but or to there both during under over between other some many most all several one two three first
    i we you if also however although though because among along founded born"""
)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a sentence, what it looks like, and where it begins in it."""

    text: str
    shape: Shape
    start: int


def spans(sentence: str) -> list[Span]:
    """Return the spans of a sentence; some overlap, since it is not known yet which one is wanted."""
    found = [Span(m[0], "date", m.start()) for m in _DATE.finditer(sentence)]
    found += [Span(m[0], "year", m.start()) for m in _YEAR.finditer(sentence)]
    found += [Span(m[0], "number", m.start()) for m in _NUMBER.finditer(sentence)]
    found += [Span(m[1].strip(), "title", m.start(1)) for m in _TITLE.finditer(sentence)]
    if described := _IS_A.search(sentence):
        found.append(Span(described["what"].strip(), "description", described.start("what")))
    return [*found, *_names(sentence)]


def names(sentence: str) -> list[str]:
    """Return the names in a text, quoted titles among them, each once, in order."""
    found = sorted(
        (span for span in spans(sentence) if span.shape in {"name", "title"}), key=lambda span: span.start
    )
    return list(dict.fromkeys(span.text for span in found))


def _names(sentence: str) -> Iterator[Span]:
    """Runs of capitalised words; and a run, a comma and another run, as places are written."""
    runs = list(_runs(sentence))
    yield from runs
    for first, second in pairwise(runs):
        between = sentence[first.start + len(first.text) : second.start]
        if between == ", ":
            yield Span(f"{first.text}, {second.text}", "place_pair", first.start)


def _runs(sentence: str) -> Iterator[Span]:
    run: list[re.Match[str]] = []
    for token in _TOKEN.finditer(sentence):
        text = token[0]
        capital = _capital(text)
        if capital or (run and text.lower() in _LINKS):
            run.append(token)
        # A full stop that belongs to no initial ends the run, too.
        if (capital and text.endswith(".") and not _initial(text)) or run[-1:] != [token]:
            yield from _span(sentence, run)
            run = []
    yield from _span(sentence, run)


def _span(sentence: str, run: list[re.Match[str]]) -> Iterator[Span]:
    while run and run[-1][0].lower() in _LINKS:
        run = run[:-1]
    while run and run[0][0].lower() in _OPENERS:
        run = run[1:]
    if run:
        start, end = run[0].start(), run[-1].end()
        text = sentence[start:end]
        yield Span(text if _initial(run[-1][0]) else text.rstrip("."), "name", start)


def _capital(word: str) -> bool:
    mixed = word[0].isdigit() and any(character.isupper() for character in word)
    return word not in _MONTHS and (word[0].isupper() or mixed)


def _initial(word: str) -> bool:
    return (len(word) == 2 and word[1] == ".") or word in {"Jr.", "Sr.", "St.", "Dr.", "Mr.", "Mrs."}
