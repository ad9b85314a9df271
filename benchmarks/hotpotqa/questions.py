"""The questions: the official JSON files of HotpotQA, and JSON lines with a question each.

Both have the fields of the official files (Yang et al. 2018, https://hotpotqa.github.io): ``_id`` (or ``id``),
``question``, ``answer``, ``type``, ``level``, ``supporting_facts`` ``[[title, sentence], ...]`` and ``context``
``[[title, [sentence, ...]], ...]``.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from jeeves_reflexion import Task
from vectorstores import JSON

from .failures import QuestionFileError


@dataclass(frozen=True, slots=True)
class Page:
    """A page of Wikipedia, or its first paragraph: a title and sentences, each as it stands in the text."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(sentence.strip() for sentence in self.sentences)


Paragraphs: TypeAlias = Mapping[str, Sequence[Page]]
"""The paragraphs of each question, by the question's id. Agents get these: there is no answer in them."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer. ``supporting`` are the titles of the paragraphs that the answer rests on."""

    id: str
    text: str
    answer: str
    kind: str
    pages: tuple[Page, ...]
    supporting: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        """The question as a task: the answer is its reference, which evaluators alone see."""
        return Task(self.text, id=self.id, kind=self.kind or None, reference=self.answer)


def load_questions(path: str | Path) -> list[Question]:
    """Return the questions of a file: an official one (a JSON list), or JSON lines.

    Titles and sentences come without HTML entities. Raises :class:`QuestionFileError` naming the file and the place in
    it. Blocking: call it from a worker thread.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionFileError(f"{path} can't be read: {getattr(error, 'strerror', '') or error}") from error
    questions = [_question(row, where) for row, where in _rows(text, path)]
    if not questions:
        raise QuestionFileError(f"{path} holds no question")
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise QuestionFileError(f"{path} holds two questions of the id {question.id!r}")
        seen.add(question.id)
    return questions


def paragraphs_of(questions: Sequence[Question], *, supporting: bool = False) -> dict[str, Sequence[Page]]:
    """Return the paragraphs of each question; with ``supporting`` those alone that its answer rests on."""
    return {
        question.id: tuple(
            page for page in question.pages if not supporting or page.title in question.supporting
        )
        for question in questions
    }


def _rows(text: str, path: Path) -> Iterator[tuple[JSON, str]]:
    if text.lstrip().startswith("["):
        rows: list[JSON] = _json(text, str(path))
        yield from ((row, f"{path}, question {number}") for number, row in enumerate(rows, 1))
        return
    for number, line in enumerate(text.split("\n"), 1):  # a text has other ends of lines
        if line.strip():
            where = f"{path}, line {number}"
            yield _json(line, where), where


def _json(text: str, where: str) -> list[JSON]:
    try:
        found: list[JSON] = json.loads(text)
    except ValueError as error:
        raise QuestionFileError(
            f"{where}: not JSON ({error}); expected an official HotpotQA file or JSON lines with a question each"
        ) from error
    return found


def _question(row: JSON, where: str) -> Question:
    if not isinstance(row, Mapping):
        raise QuestionFileError(f"{where}: a question must be a JSON object, not {type(row).__name__}")
    id = row.get("_id", row.get("id"))
    if not isinstance(id, str) or not id:
        raise QuestionFileError(f"{where}: no _id (or id)")
    text, answer = (_text(row, name, where) for name in ("question", "answer"))
    if not text.strip():
        raise QuestionFileError(f"{where}: the question is empty")
    kind = row.get("type", "")
    return Question(
        id,
        text.strip(),
        answer,
        kind if isinstance(kind, str) else "",
        tuple(_pages(row.get("context", []), where)),
        tuple(dict.fromkeys(_supporting(row.get("supporting_facts", []), where))),
    )


def _text(row: Mapping[str, JSON], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        hint = "; the official test file has no answers: use train or dev" if name == "answer" else ""
        raise QuestionFileError(f"{where}: no {name}{hint}")
    return value


def _pages(context: JSON, where: str) -> Iterator[Page]:
    for each in _list(context, "context", where):
        match each:
            case [str() as title, [*sentences]] if all(isinstance(sentence, str) for sentence in sentences):
                yield Page(
                    html.unescape(title), tuple(html.unescape(str(sentence)) for sentence in sentences)
                )
            case _:
                raise QuestionFileError(f"{where}: context must be a list of [title, [sentence, ...]]")


def _supporting(facts: JSON, where: str) -> Iterator[str]:
    for each in _list(facts, "supporting_facts", where):
        match each:
            case [str() as title, int()]:
                yield html.unescape(title)
            case _:
                raise QuestionFileError(
                    f"{where}: supporting_facts must be a list of [title, sentence number]"
                )


def _list(value: JSON, name: str, where: str) -> list[JSON]:
    if not isinstance(value, list):
        raise QuestionFileError(f"{where}: {name} must be a list, not {type(value).__name__}")
    return value
