"""Reads questions from the official JSON files of HotpotQA, or from JSON lines with one question each.

Both have the fields of the official files (Yang et al. 2018, https://hotpotqa.github.io): ``_id`` (or ``id``),
``question``, ``answer``, ``type`` and ``context`` ``[[title, [sentence, ...]], ...]``. Other fields are ignored.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import pydantic

from jeeves_reflexion import ConfigurationError, Task

from ..records import read_rows

_EXPECTED: Final = "a question of HotpotQA (train or dev: the official test file has no answers)"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of Wikipedia, or its first paragraph: a title and unchanged sentences."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(sentence.strip() for sentence in self.sentences)


Paragraphs: TypeAlias = Mapping[str, Sequence[Page]]
"""The paragraphs of each question, by the question's id. Agents get these, not the answers."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer."""

    id: str
    text: str
    answer: str
    kind: str
    pages: tuple[Page, ...]

    @property
    def task(self) -> Task:
        """The question as a task. The answer is its reference, which only evaluators see."""
        return Task(self.text, id=self.id, kind=self.kind or None, reference=self.answer)


class _Row(pydantic.BaseModel):
    id: str = pydantic.Field(min_length=1, validation_alias=pydantic.AliasChoices("_id", "id"))
    question: Annotated[str, pydantic.StringConstraints(pattern=r"\S")]
    answer: str
    type: str = ""
    context: list[tuple[str, list[str]]] = []


def load_questions(path: str | Path) -> list[Question]:
    """Return the questions of an official file (a JSON list), or of JSON lines.

    HTML entities in titles and sentences are decoded. Raises :class:`ConfigurationError`, which names the file and the
    place in it. Blocking: call it from a worker thread.
    """
    seen: set[str] = set()
    questions = []
    for line, row in read_rows(Path(path), _Row, _EXPECTED):
        if row.id in seen:
            raise ConfigurationError(f"{path}, line {line}: another question has the id {row.id!r} already")
        seen.add(row.id)
        pages = (
            Page(html.unescape(title), tuple(map(html.unescape, sentences)))
            for title, sentences in row.context
        )
        questions.append(Question(row.id, row.question.strip(), row.answer, row.type, tuple(pages)))
    return questions


def paragraphs_of(questions: Sequence[Question]) -> dict[str, Sequence[Page]]:
    """Return the paragraphs of each question."""
    return {question.id: question.pages for question in questions}
