"""Where Search looks: a question's own paragraphs, or an index of all paragraphs by words (BM25)."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .questions import Page, Paragraphs

SIMILAR = 5
"""Titles offered where there is no page of the name, as in ReAct's ``wikienv.py`` (Yao et al. 2023)."""

_TITLE_WEIGHT = 3
_K1, _B = 1.2, 0.75
_WORD = re.compile(r"\w+(?:[.'-]\w+)*")
# Lucene's list. Among short texts such words can be rare, and then outweigh what a name is about.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they"
        " this to was will with",
    )
)


@dataclass(frozen=True, slots=True)
class Similar:
    """There is no page of that name; these titles are near it, best first."""

    titles: tuple[str, ...]


class WordIndex:
    """Texts by the words that they share with a query: BM25 (Robertson, Zaragoza 2009)."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        counts = {name: Counter(_words_of(text)) for name, text in texts.items()}
        self._lengths = {name: count.total() for name, count in counts.items()}
        self._mean = sum(self._lengths.values()) / len(counts) if counts else 0.0
        self._postings: dict[str, dict[str, int]] = defaultdict(dict)
        for name, count in counts.items():
            for word, times in count.items():
                self._postings[word][name] = times

    def search(self, text: str, *, k: int) -> list[str]:
        """Return the names of the ``k`` texts that share the most telling words, best first."""
        n, scores = len(self._lengths), defaultdict[str, float](float)
        for word in set(_words_of(text)):
            postings = self._postings.get(word, {})
            # The variant that is never negative (Lucene's), so that a word of half the texts counts for a little.
            rarity = math.log1p((n - len(postings) + 0.5) / (len(postings) + 0.5))
            for name, times in postings.items():
                length = self._lengths[name] / self._mean
                scores[name] += rarity * times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * length))
        return heapq.nlargest(k, scores, key=lambda name: scores[name])


def _words_of(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.casefold()) if word not in _COMMON]


class WordPages:
    """Pages in memory; where none has the name, BM25 over titles and texts says which are similar."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._pages = by_name(pages)
        self._index = WordIndex(
            {name: " ".join([page.title] * _TITLE_WEIGHT + [page.text]) for name, page in self._pages.items()}
        )

    def __len__(self) -> int:
        return len(self._pages)

    def find(self, name: str) -> Page | Similar:
        """Return the page, or the titles that share the most telling words with the name."""
        if page := self._pages.get(folded(name)):
            return page
        return Similar(tuple(self._pages[found].title for found in self._index.search(name, k=SIMILAR)))


PagesFor: TypeAlias = Callable[[str], WordPages]
"""Returns the pages that the task of an id may be answered from."""


def own_pages(paragraphs: Paragraphs) -> PagesFor:
    """Give each question its own paragraphs; an index is made anew for each attempt, which ten paragraphs allow."""
    return lambda task_id: WordPages(paragraphs[task_id])


def shared_pages(pages: WordPages) -> PagesFor:
    """Give all questions the same pages."""
    return lambda _: pages


def all_pages(paragraphs: Paragraphs) -> list[Page]:
    """Return the paragraphs of all questions, each title once."""
    return list(by_name(page for pages in paragraphs.values() for page in pages).values())


def by_name(pages: Iterable[Page]) -> dict[str, Page]:
    """Return pages by their folded titles; paragraphs of one title are the same."""
    found: dict[str, Page] = {}
    for page in pages:
        found.setdefault(folded(page.title), page)
    return found


def folded(name: str) -> str:
    """Return a name as titles are compared: small letters, single blanks, no quotation marks around it."""
    return " ".join(name.casefold().replace("_", " ").split()).strip("\"' ")


def first_titles(found: Sequence[str]) -> str:
    """Write similar titles as ReAct's environment does."""
    return "[" + ", ".join(f"'{title}'" for title in found) + "]"
