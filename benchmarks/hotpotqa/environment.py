"""Search, Lookup and the current page: the environment of ReAct on HotpotQA (Yao et al. 2023, ``wikienv.py``).

Search gives the first five sentences of the named page, or up to five similar titles. Lookup gives the sentences of the
last page that contain a keyword, one per call. As in the runs of Reflexion (Shinn et al. 2023,
``hotpotqa_runs/agents.py``), a Search that finds no page closes the last one, and an attempt has six steps
(``max_steps``, including its Finish) and prompts of at most 3,896 tokens.
"""

from __future__ import annotations

from jeeves_reflexion import Tool, as_tool

from .pages import Pages, first_titles
from .questions import Page

STEP_LIMIT = 6
"""Steps of an attempt, including the one that answers (``ReactAgent.max_steps`` in the paper's code)."""

CONTEXT_LIMIT = 3896
"""Tokens of a prompt beyond which the paper's code halts an attempt (``ReactAgent.is_halted``)."""

SHOWN_SENTENCES = 5
NO_PAGE = "There is no page to look anything up in: Search for one that exists, such as a similar title."
NO_MORE = "No more results."


class Browser:
    """One attempt's view of the pages; makes the tools of that attempt."""

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
        """Return Search and Lookup as tools for ReAct, which has its own Finish."""
        # One call at a time, because each continues from the state that the last one left.
        search = as_tool(self.search, name="Search", alone=True)
        return search, as_tool(self.lookup, name="Lookup", alone=True)
