"""Finding lessons by the words of their tasks: BM25 (Robertson, Zaragoza 2009, "The Probabilistic Relevance
Framework") beside the search by meaning, for names, codes and numbers that an embedding blurs.

The index lives in this process and follows the store. What was written in this process through a shelf of the same
store is told, and costs no reading; what others wrote is read at most ``MAX_AGE`` seconds later, and what a database
let others see out of its order after ``REREAD`` seconds at the latest, when all is read again.
What it finds is looked up in the store, so a lesson that is gone or retired meanwhile is never recalled.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Final

import anyio.to_thread

from jeeves_reflexion.lessons.records import MOST_FACES, RECALLED
from vectorstores.base import Chunk, VectorStore
from vectorstores.filters import parse

K1: Final = 1.2
B: Final = 0.75
MAX_AGE = 1.0
REREAD = 600.0
_PAGE: Final = 500
# Rows get their places when they are inserted and are seen when their transaction commits: a place that a long one
# took may show up behind those that were read already.
_PAGES_AGAIN: Final = 3
_WORD: Final = re.compile(r"\w+(?:[.'-]\w+)*")
# Lucene's list. Among short tasks such words can be rare, and then outweigh what the task is about.
COMMON: Final = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is",
    "it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there",
    "these", "they", "this", "to", "was", "will", "with",
})  # fmt: skip


_RECALLED: Final = parse(RECALLED)


class WordIndex:
    """An inverted index of short texts that grows and shrinks, scored by BM25. Not for several threads at once.

    The words of :data:`COMMON` are left out.
    """

    def __init__(self, *, k1: float = K1, b: float = B) -> None:
        self._k1, self._b = k1, b
        self._postings: dict[str, dict[str, int]] = defaultdict(dict)
        self._words: dict[str, tuple[str, ...]] = {}
        self._lengths: dict[str, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, id: str) -> bool:
        return id in self._words

    def put(self, id: str, text: str) -> None:
        """Take up a text, in place of what was there under this id."""
        self.remove(id)
        words = Counter(words_of(text))
        self._words[id] = tuple(words)
        self._lengths[id] = words.total()
        self._total += words.total()
        for word, count in words.items():
            self._postings[word][id] = count

    def remove(self, id: str) -> None:
        """Leave a text out from now on."""
        words = self._words.pop(id, None)
        if words is None:
            return
        self._total -= self._lengths.pop(id)
        for word in words:
            postings = self._postings[word]
            del postings[id]
            if not postings:
                del self._postings[word]

    def search(self, text: str, *, k: int) -> list[tuple[str, float]]:
        """Return the ``k`` texts that share the most telling words, best first, with their scores above 0."""
        n = len(self._words)
        mean = self._total / n if n else 0.0
        scores: dict[str, float] = defaultdict(float)
        for word in set(words_of(text)):
            postings = self._postings.get(word, {})
            # The variant that is never negative (Lucene's), so that a word of half the texts still counts for a little.
            rarity = math.log1p((n - len(postings) + 0.5) / (len(postings) + 0.5))
            for id, count in postings.items():
                length = self._lengths[id] / mean
                scores[id] += (
                    rarity * count * (self._k1 + 1) / (count + self._k1 * (1 - self._b + self._b * length))
                )
        return heapq.nlargest(k, scores.items(), key=lambda item: item[1])


class WordSearch:
    """Keeps a :class:`WordIndex` of the recalled faces of a store's namespace, and asks it."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._index = WordIndex()
        self._lock = threading.Lock()
        self._pages: deque[str | None] = deque([None], maxlen=_PAGES_AGAIN)
        self._read_at = -math.inf
        self._began_at = -math.inf
        self._news: deque[tuple[Chunk, ...] | str] = deque()

    def written(self, chunks: Sequence[Chunk]) -> None:
        """Know chunks that were just stored from the next search on, without reading them again."""
        if self._began:
            self._news.append(tuple(chunks))

    def deleted(self, ids: Sequence[str]) -> None:
        """Know from the next search on that chunks are gone."""
        if self._began:
            self._news.extend(ids)

    @property
    def _began(self) -> bool:
        """Whether there is an index: what is written before it is begun will be read."""
        return self._began_at > -math.inf

    async def search(self, text: str, *, k: int) -> dict[str, float]:
        """Return BM25 scores of at most ``k`` lessons, by their ids."""
        if time.monotonic() - self._read_at > MAX_AGE:
            await self._catch_up()
        return dict(await anyio.to_thread.run_sync(self._search, text, k))

    def _search(self, text: str, k: int) -> list[tuple[str, float]]:
        with self._lock:
            while self._news:
                self._hear(self._news.popleft())
            best: dict[str, float] = {}
            for face, score in self._index.search(
                text, k=MOST_FACES * k
            ):  # the best face of a lesson comes first
                best.setdefault(face.rpartition(":")[0], score)
            return list(itertools.islice(best.items(), k))

    def _hear(self, news: tuple[Chunk, ...] | str) -> None:
        if isinstance(news, str):
            self._index.remove(news)
            return
        for chunk in news:
            if _RECALLED.matches(chunk.metadata):
                self._put(chunk)
            else:
                self._index.remove(_face(chunk))

    async def _catch_up(self) -> None:
        """Read what was written since, the last pages again."""
        now = time.monotonic()
        if now - self._began_at > REREAD:
            self._pages.clear()
            self._began_at = now
        after = self._pages.popleft() if self._pages else None
        self._pages.clear()
        while True:
            self._pages.append(after)
            page = await self._store.scan(filter=RECALLED, after=after, limit=_PAGE)
            await anyio.to_thread.run_sync(self._take, page.chunks)
            if page.next is None:
                break
            after = page.next
        self._read_at = time.monotonic()

    def _take(self, chunks: Iterable[Chunk]) -> None:
        with self._lock:
            for chunk in chunks:
                self._put(chunk)

    def _put(self, chunk: Chunk) -> None:
        self._index.put(_face(chunk), chunk.content if chunk.embed_text is None else chunk.embed_text)


def _face(chunk: Chunk) -> str:
    """Return the id of a lesson's face; a chunk that another program wrote is one by itself."""
    return f"{chunk.metadata.get('lesson_id', chunk.id)}:{chunk.metadata.get('face', 0)}"


def words_of(text: str) -> list[str]:
    """Return the words of a text that are looked for, in order."""
    return [word for word in _WORD.findall(text.casefold()) if word not in COMMON]
