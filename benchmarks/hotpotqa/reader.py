"""Picks an answer from pages that were read: sentences by the words they share with the question, then spans in them.

Rules alone, no model. What kind of answer a wording wants is not known here; advice may say it.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .lesson_words import Advice, is_refused
from .pages import folded
from .questions import Page
from .scorer import normalize_answer
from .spans import Shape, Span, names, spans
from .wording import Kind, wording_of
from .words import words

NOISE: Final = 0.25
"""Scale of the random part of a span's score: a second attempt without memory is not the first again."""

_WORD: Final = re.compile(r"\w+")
_YEAR: Final = re.compile(r"\b(?:1[0-9]{3}|20[0-4][0-9])\b")
_BEFORE_PLACE: Final = re.compile(r"\b(?:in|at|from|near|of|to|into)\s+(?:the\s+)?$", re.IGNORECASE)
_PLACE_WORDS: Final = re.compile(
    r"\b(?:Airport|Stadium|Museum|County|City|Island|Park|Hall|Street|University|Palace|River|Arena|Center|Centre)\b"
)
_NATION: Final = re.compile(r"\b(?:an?|the) (?:\w+ )?(?P<nation>[A-Z][\w-]+)")
_EARLIER: Final = re.compile(r"\b(?:first|older|oldest|earlier|before)\b", re.IGNORECASE)
_LATER: Final = re.compile(r"\b(?:later|younger|youngest|last|newer|recent)\b", re.IGNORECASE)
_PAIR_WORDS: Final = 4
_IN_QUESTION: Final = 3.0
_SPAN_IN_PAGE: Final = 0.15
_NEAR: Final = 0.6
_HEAD: Final = 0.8
_BEYOND: Final = 0.8
_TITLED: Final = 0.5
_PRIOR: Final[Mapping[Shape, float]] = MappingProxyType(
    {
        "name": 0.4,
        "title": 0.2,
        "place_pair": 0.3,
        "year": -0.4,
        "date": -0.4,
        "number": -0.8,
        "description": -0.4,
    }
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span that may be the answer, the sentence that it stands in, and that sentence's page."""

    span: Span
    sentence: str
    page: str


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer and where it comes from; ``answer`` is empty where nothing was left to choose."""

    answer: str
    why: str


def choose(question: str, pages: Sequence[Page], advice: Advice, rng: random.Random) -> Choice:
    """Return the likeliest answer that no lesson refuses; of the advised kind, where there is one of it."""
    if advice.kind == "yes_no":
        return _closed(question, pages, advice)
    if advice.kind == "option":
        options = _options(question, pages, advice)
        if options:
            return options
    candidates = [each for each in _candidates(pages) if not is_refused(each.span.text, advice)]
    fits = _FITS.get(advice.kind) if advice.kind else None
    if fits is not None:
        candidates = [each for each in candidates if fits(each)] or candidates
    if not candidates:
        return Choice("", "I read nothing that could be the answer")
    score = _Scores(question, pages)
    scored = [(score.of(each) + NOISE * _gumbel(rng), number, each) for number, each in enumerate(candidates)]
    best = max(scored, key=lambda item: (item[0], -item[1]))[2]
    return Choice(best.span.text, f"{best.page} says: {best.sentence}")


class _Scores:
    """How well sentences and spans go with a question, over the pages that were read."""

    def __init__(self, question: str, pages: Sequence[Page]) -> None:
        self._asked = words(question)
        self._names = {folded(name) for name in names(question)}
        sentences = [s for page in pages for s in page.sentences]
        held = Counter(word for s in sentences for word in words(s) & self._asked)
        self._weights = {word: math.log1p(len(sentences) / (1 + held[word])) for word in self._asked}
        self._total = sum(self._weights.values()) or 1.0
        self._pages = {page.title: self._share(words(f"{page.title} {page.text}")) for page in pages}
        self._head = wording_of(question).split()[-1]
        self._titles = {folded(bare(page.title)): page for page in pages}
        about = {page.title for page in _about(question, pages)}
        self._beyond = {page.title for page in pages} - about if about else set()
        self._often = Counter(normalize_answer(span.text) for s in sentences for span in spans(s))

    def of(self, candidate: Candidate) -> float:
        span, sentence = candidate.span, candidate.sentence
        score = 2.0 * self._share(words(sentence)) + self._pages[candidate.page]
        score += _NEAR * self._nearness(span, sentence) + _PRIOR[span.shape]
        score += _HEAD * self._is_head(span.text)
        score += _SPAN_IN_PAGE * math.log1p(self._often[normalize_answer(span.text)])
        if folded(span.text) in self._names or self._repeats(span.text):
            score -= _IN_QUESTION
        if candidate.page in self._beyond:
            score += _BEYOND
        return score

    def _is_head(self, text: str) -> float:
        """Whether a span says that it is one of what the question asks for, or its page says so."""
        if self._head in text.casefold().split():
            return 1.0
        page = self._titles.get(folded(text))
        if page is None or not page.sentences:
            return 0.0
        return 1.0 if self._head in words(page.sentences[0]) else _TITLED

    def _repeats(self, text: str) -> bool:
        """Whether at least half of a span's words are the question's own."""
        own = words(text)
        return bool(own) and 2 * len(own & self._asked) >= len(own)

    def _share(self, found: set[str]) -> float:
        return sum(self._weights[word] for word in found & self._asked) / self._total

    def _nearness(self, span: Span, sentence: str) -> float:
        """1 beside a word of the question, less with each word between."""
        here = len(_WORD.findall(sentence[: span.start]))
        length = len(_WORD.findall(span.text))
        gaps = [
            min(abs(place - here), abs(place - (here + length - 1)))
            for place, word in enumerate(_WORD.findall(sentence))
            if word.casefold() in self._asked and not here <= place < here + length
        ]
        return 1.0 / min(gaps) if gaps else 0.0


def _candidates(pages: Iterable[Page]) -> list[Candidate]:
    found = [
        Candidate(span, sentence.strip(), page.title)
        for page in pages
        for sentence in page.sentences
        for span in spans(sentence.strip())
    ]
    return [each for each in found if each.span.shape != "place_pair" or _is_place(each)]


def _is_person(candidate: Candidate) -> bool:
    parts = candidate.span.text.split()
    return (
        candidate.span.shape == "name"
        and 2 <= len(parts) <= 4
        and all(part[0].isupper() and not any(c.isdigit() for c in part) for part in parts)
        and not _PLACE_WORDS.search(candidate.span.text)
        and not _BEFORE_PLACE.search(candidate.sentence[: candidate.span.start])
    )


def _is_place(candidate: Candidate) -> bool:
    span = candidate.span
    if span.shape not in {"name", "place_pair"}:
        return False
    before = candidate.sentence[: span.start]
    if span.shape == "place_pair":
        return bool(_BEFORE_PLACE.search(before)) and len(span.text.split()) <= _PAIR_WORDS
    return bool(_BEFORE_PLACE.search(before) or _PLACE_WORDS.search(span.text) or before.endswith(", "))


_FITS: Final[Mapping[Kind, Callable[[Candidate], bool]]] = MappingProxyType(
    {
        "year": lambda c: c.span.shape == "year",
        "date": lambda c: c.span.shape == "date",
        "number": lambda c: c.span.shape == "number" and not _YEAR.fullmatch(c.span.text),
        "person": _is_person,
        "place": _is_place,
        "name": lambda c: c.span.shape in {"name", "title"},
        "description": lambda c: c.span.shape == "description",
    }
)


def _closed(question: str, pages: Sequence[Page], advice: Advice) -> Choice:
    """Yes where the pages that the question names bear it out, else no; the other one if that was wrong."""
    about = _about(question, pages)
    if "same" in question.casefold():
        nations = {match["nation"] for page in about if (match := _NATION.search(page.text))}
        answer, why = ("yes", "they share it") if len(nations) == 1 else ("no", f"I found {sorted(nations)}")
    else:
        asked = words(question) - {word for page in about for word in words(page.title)}
        asked -= {word for name in names(question) for word in words(name)} - _nations(question)
        lacking = {word for page in about for word in asked if not _mentions(page, word)}
        answer, why = (
            ("no", f"not all pages say {sorted(lacking)}") if lacking else ("yes", "all pages say so")
        )
    if is_refused(answer, advice):
        answer = "no" if answer == "yes" else "yes"
    return Choice(answer, why)


def _nations(question: str) -> set[str]:
    """Names of one word at the end of a question are what it asks about, such as "American"."""
    return {name.casefold() for name in names(question)[2:] if " " not in name}


def _mentions(page: Page, word: str) -> bool:
    stem = word.removesuffix("s")
    return stem in page.text.casefold()


def _options(question: str, pages: Sequence[Page], advice: Advice) -> Choice | None:
    """The one of two pages that the question asks for: by the earliest year on it, or by the words that it shares."""
    about = [page for page in _about(question, pages) if not is_refused(bare(page.title), advice)]
    if not about:
        return None
    early, late = _EARLIER.search(question), _LATER.search(question)
    if early or late:
        years = {page.title: min(map(int, _YEAR.findall(page.text)), default=9999) for page in about}
        order = sorted(about, key=lambda page: years[page.title], reverse=bool(late and not early))
        return Choice(bare(order[0].title), f"the years are {years}")
    asked = words(question)
    best = max(about, key=lambda page: len(words(page.text) & (asked - words(page.title))))
    return Choice(bare(best.title), f"{best.title} shares most words with the question")


def _about(question: str, pages: Sequence[Page]) -> list[Page]:
    """The pages whose titles the question names."""
    text = folded(question)
    return [page for page in pages if folded(bare(page.title)) in text]


def bare(title: str) -> str:
    """A title without what tells it apart, as in "Creed (band)"."""
    return re.sub(r"\s*\([^)]*\)$", "", title)


def _gumbel(rng: random.Random) -> float:
    return -math.log(-math.log(rng.uniform(1e-12, 1.0 - 1e-12)))
