"""The offline agent: searches by the names that it meets, and answers with a span of what it read. No model.

It sees what ReAct sees, through the same environment and step limit: the question, observations, and its lessons. What
it lacks, lessons can tell: which kind of answer a wording wants, that a page names another one that must be read too,
and which of its answers were wrong.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from jeeves_reflexion import Attempt, ConfigurationError, Session, Step, Task
from jeeves_reflexion.events import StepTaken
from vectorstores import JSON

from .environment import STEP_LIMIT, Browser
from .failures import PagesError
from .lesson_words import Advice, read_lessons
from .pages import PagesFor, folded
from .questions import Page
from .reader import choose
from .spans import names
from .words import words

LESSONS_BLOCK = "reflexion_lessons"
USED = "lessons_used"
READ = "pages_read"
FIRST_PAGES = 2
"""Pages that are read of those that the question names, before others."""

NAMED = 0.75
"""From this share of a title's words on a page on, that page names the title."""

TITLES = "titles_seen"


@dataclass(slots=True)
class _Reading:
    """What one attempt has done and read so far."""

    session: Session
    browser: Browser
    room: int
    steps: list[Step] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    titles: list[str] = field(default_factory=list)

    async def search(self, name: str, thought: str) -> Page | None:
        """Search once, if there is a step left for it."""
        if self.room < 1 or folded(name) in self.tried:
            return None
        self.room -= 1
        self.tried.add(folded(name))
        await self.add(Step(thought, f"Search[{name}]", await self.browser.search(name)))
        self.titles += [title for title in self.browser.similar if title not in self.titles]
        page = self.browser.page
        if page is not None and page not in self.pages:
            self.pages.append(page)
        return page

    async def add(self, step: Step) -> None:
        self.steps.append(step)
        await self.session.emit(
            StepTaken(run_id=self.session.id, attempt=self.session.attempt, number=len(self.steps), step=step)
        )


class ExtractiveAgent:
    """Answers from what it reads in at most ``step_limit`` steps, the answer included.

    ``seed`` draws the random part of its choices, anew for each attempt. ``Attempt.metadata`` says which pages it read
    and which lessons it could use.
    """

    name = "extractive"
    retry_safe = True

    def __init__(self, pages: PagesFor, *, seed: int = 0, step_limit: int = STEP_LIMIT) -> None:
        if step_limit < 2:
            raise ConfigurationError(f"step_limit must be at least 2, not {step_limit}")
        self._pages = pages
        self._seed = seed
        self._step_limit = step_limit

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Answer once; where pages can't be looked up, the steps up to there are the attempt."""
        advice = read_lessons(task.prompt, _lessons_in(session.blocks.get(LESSONS_BLOCK, "")))
        reading = _Reading(session, Browser(self._pages(task.id)), self._step_limit - 1)
        answer = ""
        error: str | None = None
        try:
            await _read(task.prompt, advice, reading)
        except PagesError as failure:
            error = f"{type(failure).__name__}: {failure}"
        else:
            choice = choose(task.prompt, reading.pages, advice, self._draw(task, session))
            answer = choice.answer
            await reading.add(Step(choice.why, f"Finish[{answer}]"))
        used: list[JSON] = list(advice.used)
        read: list[JSON] = [page.title for page in reading.pages]
        seen: list[JSON] = list(reading.titles)
        return Attempt(
            answer, tuple(reading.steps), error=error, metadata={USED: used, READ: read, TITLES: seen}
        )

    def _draw(self, task: Task, session: Session) -> random.Random:
        drawn = f"{self._seed}:{task.id}:{session.attempt}".encode()
        return random.Random(hashlib.sha256(drawn).digest())


async def _read(question: str, advice: Advice, reading: _Reading) -> None:
    """Read pages of the names in the question, then those that lessons name, then those that these pages point to."""
    for name in [*names(question), question]:
        if len(reading.pages) >= (1 if advice.pages else FIRST_PAGES):
            break
        await _open(name, reading)
    for name in advice.pages:
        await reading.search(name, "A lesson says to read it.")
    while (further := _next(question, reading)) is not None:
        await reading.search(further, "What I read points to this page.")


async def _open(name: str, reading: _Reading) -> None:
    """Search a name, and the most similar title that shares a word with it where there is no such page."""
    if await reading.search(name, "The question names it.") is not None:
        return
    similar = reading.browser.similar
    title = next((title for title in similar if words(title) & words(name)), None)
    if title is not None:
        await reading.search(title, f"There is no page {name}: this one is similar.")


def _next(question: str, reading: _Reading) -> str | None:
    """What to search next: a known title that a page names, else a name on a page, else the question itself."""
    if reading.room < 1:
        return None
    asked = words(question)
    known = words(" ".join(page.text for page in reading.pages))
    share = {title: len(words(title) & known) / max(len(words(title)), 1) for title in reading.titles}
    named = sorted((title for title in share if share[title] >= NAMED), key=lambda title: -share[title])
    mentioned = [
        name
        for _, name in sorted(_mentioned(asked, reading.pages), key=lambda item: -item[0])
        if " " in name and not words(name) <= asked
    ]
    possible = [*named, *mentioned, question, *reading.titles]
    return next((name for name in possible if folded(name) not in reading.tried), None)


def _mentioned(asked: set[str], pages: list[Page]) -> Iterator[tuple[int, str]]:
    """Names on pages, with the number of the question's words in their sentences."""
    for page in pages:
        for sentence in page.sentences:
            yield from ((len(words(sentence) & asked), name) for name in names(sentence))


def _lessons_in(block: str) -> list[str]:
    """The sentences of a block of bullets."""
    return [line.removeprefix("- ") for line in block.splitlines() if line.strip()]
