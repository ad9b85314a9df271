"""Search, Lookup and the page in between: the environment of ReAct on HotpotQA (Yao et al. 2023, ``wikienv.py``).

As there: Search gives the first five sentences of the page of that name, or up to five similar titles; Lookup gives the
sentences of the last page with a keyword, one at each call. As in the runs of Reflexion (Shinn et al. 2023,
``hotpotqa_runs/agents.py``): after a Search that found no page there is nothing to look up in, and an attempt has six
steps (``max_steps``, its Finish included) and prompts of 3,896 tokens at most.
"""

from __future__ import annotations

from jeeves_reflexion import Tool, as_tool

from .pages import Pages, first_titles
from .questions import Page

STEP_LIMIT = 6
"""Steps of an attempt, the one that answers included (``ReactAgent.max_steps`` of the paper's code)."""

CONTEXT_LIMIT = 3896
"""Tokens of a prompt, from which on an attempt of the paper was halted (``ReactAgent.is_halted``)."""

SHOWN_SENTENCES = 5
NO_PAGE = "There is no page to look anything up in: Search for one that exists, such as a similar title."
NO_MORE = "No more results."


class Browser:
    """What one attempt sees of the pages; makes the tools of that attempt."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._page: Page | None = None
        self._keyword = ""
        self._shown = 0

    async def search(self, entity: str) -> str:
        """Find the Wikipedia page of a name and read its first sentences; else see titles that are similar.

        Args:
            entity: the name of a person, place, work or thing.
        """
        self._keyword, self._shown = "", 0
        self._page = self._pages.find(entity)
        if self._page is None:
            return f"Could not find [{entity}]. Similar: {first_titles(self._pages.similar(entity))}"
        return " ".join(sentence.strip() for sentence in self._page.sentences[:SHOWN_SENTENCES])

    async def lookup(self, keyword: str) -> str:
        """See the next sentence with a keyword on the page that was found last.

        Args:
            keyword: a word or phrase to find in it.
        """
        if self._page is None:
            return NO_PAGE
        if keyword != self._keyword:
            self._keyword, self._shown = keyword, 0
        found = [s.strip() for s in self._page.sentences if keyword.casefold() in s.casefold()]
        if self._shown >= len(found):
            return NO_MORE
        self._shown += 1
        return f"(Result {self._shown} / {len(found)}) {found[self._shown - 1]}"

    def tools(self) -> tuple[Tool, Tool]:
        """Return Search and Lookup as tools for a ReAct; Finish is its own."""
        # Each goes on from what the one before left.
        return as_tool(self.search, name="Search", alone=True), as_tool(
            self.lookup, name="Lookup", alone=True
        )
