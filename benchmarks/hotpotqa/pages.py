"""The pages that Search looks through: the paragraphs of a question, found by name or by similar words."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Sequence

from .questions import Page

SIMILAR = 5
"""Titles offered if no page has the name, as in ReAct's ``wikienv.py`` (Yao et al. 2023)."""

_TITLE_WEIGHT = 3
_WORD = re.compile(r"\w+(?:[.'-]\w+)*")


class Pages:
    """The pages for a question; of paragraphs with the same title, the first counts."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._pages: dict[str, Page] = {}
        for page in pages:
            self._pages.setdefault(folded(page.title), page)

    def find(self, name: str) -> Page | None:
        """Return the page with that name, or None."""
        return self._pages.get(folded(name))

    def similar(self, name: str) -> list[str]:
        """Return the titles of the pages that share the rarest words with a name, best first; titles count more."""
        wanted = _words_of(name)
        titles = {page.title: _words_of(page.title) for page in self._pages.values()}
        texts = {page.title: _words_of(page.text) | titles[page.title] for page in self._pages.values()}

        def shared(title: str) -> float:
            return math.fsum(
                (_TITLE_WEIGHT if word in titles[title] else 1)
                * math.log1p(len(texts) / sum(word in text for text in texts.values()))
                for word in wanted & texts[title]
            )

        return heapq.nlargest(SIMILAR, filter(shared, titles), key=shared)


def _words_of(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def folded(name: str) -> str:
    """Normalize a name for comparison: lower case, single blanks, no quotation marks around it."""
    return " ".join(name.casefold().replace("_", " ").split()).strip("\"' ")


def first_titles(found: Sequence[str]) -> str:
    """Format similar titles as ReAct's environment does."""
    return "[" + ", ".join(f"'{title}'" for title in found) + "]"
