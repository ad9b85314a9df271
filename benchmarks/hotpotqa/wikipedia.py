"""Wikipedia over HTTP as the pages to search: through its API, cached on disk, one request at a time.

The rules of politeness are those of https://www.mediawiki.org/wiki/API:Etiquette: a user agent that says who asks,
requests in series, ``maxlag``, and waiting where the server says so.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio
import anyio.to_thread
import httpx

from jeeves_reflexion import __version__
from jeeves_reflexion.files import replace_file

from .failures import PagesError
from .pages import SIMILAR, Found, Similar
from .questions import Page

API: Final = "https://en.wikipedia.org/w/api.php"
AGENT: Final = f"jeeves-reflexion/{__version__} (a benchmark of question answering)"
TRIES: Final = 3
LONGEST_WAIT: Final = 60.0
_BUSY: Final = frozenset({429, 503})


class Wikipedia:
    """Finds pages by the API at ``address``; what was asked once is read from ``cache`` from then on.

    ``contact`` (an address where you can be reached) is added to the user agent, as the rules ask; ``delay`` is the
    least time between two requests, ``timeout`` that of each, in seconds. Use it as an async context manager.
    """

    def __init__(
        self,
        cache: Path,
        *,
        contact: str = "",
        address: str = API,
        delay: float = 1.0,
        timeout: float = 20.0,
    ) -> None:
        self._cache = cache
        self._address = address
        self._delay = delay
        agent = f"{AGENT} {contact}".strip()
        self._client = httpx.AsyncClient(
            timeout=timeout, headers={"User-Agent": agent}, follow_redirects=True
        )
        self._turn = anyio.Lock()
        self._last = float("-inf")
        self.requests = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def find(self, name: str) -> Found:
        """Return the page of a name (redirects followed), else the titles that a search for it gives.

        A page that only lists meanings counts as none. Raises :class:`PagesError`.
        """
        if not name.strip():
            return Similar(())
        asked = {
            "prop": "extracts|pageprops",
            "explaintext": "1",
            "ppprop": "disambiguation",
            "redirects": "1",
        }
        answer = await self._ask({**asked, "titles": name})
        page = _page(answer)
        if page is not None:
            return page
        answer = await self._ask({"list": "search", "srsearch": name, "srlimit": str(SIMILAR), "srprop": ""})
        hits = answer.get("query", {}).get("search", [])
        return Similar(tuple(str(hit["title"]) for hit in hits if "title" in hit))

    async def _ask(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        query = {"action": "query", "format": "json", "formatversion": "2", "maxlag": "5", **parameters}
        async with self._turn:
            path = self._path(query)
            kept = await anyio.to_thread.run_sync(_read, path)
            if kept is not None:
                return kept
            answer = await self._fetch(query)
            await anyio.to_thread.run_sync(_keep, path, answer)
            return answer

    async def _fetch(self, query: Mapping[str, str]) -> dict[str, Any]:
        said = ""
        for _ in range(TRIES):
            await anyio.sleep(max(0.0, self._last + self._delay - time.monotonic()))
            try:
                response = await self._client.get(self._address, params=query)
            except httpx.HTTPError as error:
                raise PagesError(f"{self._address}: {type(error).__name__}: {error}") from error
            finally:
                self._last = time.monotonic()
                self.requests += 1
            answer = _answer(response, self._address)
            if answer is not None:
                return answer
            said = f"HTTP {response.status_code}, it asks to wait {response.headers.get('retry-after', 'a while')}"
            await anyio.sleep(_wait(response))
        raise PagesError(f"{self._address} was busy {TRIES} times in a row: {said}; try again later")

    def _path(self, query: Mapping[str, str]) -> Path:
        key = json.dumps([self._address, sorted(query.items())])
        return self._cache / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _answer(response: httpx.Response, address: str) -> dict[str, Any] | None:
    """What the server answered; None where it asks to wait."""
    if response.status_code in _BUSY:
        return None
    if not response.is_success:
        raise PagesError(f"{address} answered HTTP {response.status_code}")
    try:
        answer: Any = response.json()
    except ValueError as error:
        raise PagesError(f"{address} answered with something that is no JSON") from error
    if not isinstance(answer, dict):
        raise PagesError(f"{address} answered with something that is no JSON object")
    if "error" in answer:
        if answer["error"].get("code") == "maxlag":
            return None
        raise PagesError(f"{address} refused: {answer['error'].get('info', 'no reason given')}")
    return answer


def _wait(response: httpx.Response) -> float:
    asked = response.headers.get("retry-after", "")
    return min(float(asked) if asked.isdigit() else 5.0, LONGEST_WAIT)


def _page(answer: Mapping[str, Any]) -> Page | None:
    for page in answer.get("query", {}).get("pages", []):
        text = page.get("extract", "")
        if text.strip() and "disambiguation" not in page.get("pageprops", {}):
            return Page(page["title"], tuple(_sentences(text)))
    return None


def _sentences(text: str) -> list[str]:
    """Split a text as ReAct's ``wikienv.py`` does: at the ends of lines, and after a full stop and a blank."""
    parts = [part.strip() for line in text.splitlines() for part in line.split(". ") if part.strip()]
    return [part if part.endswith((".", "!", "?", "=")) else f"{part}." for part in parts]


def _read(path: Path) -> dict[str, Any] | None:
    """What was kept; a file that can't be read counts as none and is written anew."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _keep(path: Path, answer: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(answer, ensure_ascii=False))
    except OSError as error:
        raise PagesError(f"the cache {path.parent} can't be written: {error}") from error
