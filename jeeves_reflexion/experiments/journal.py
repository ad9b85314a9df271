"""The journal of a run: every finished try in full, and every stored lesson, as JSON lines to resume from.

A try is on disk before any later step depends on it. A last line that a killed run left unfinished is cut off.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import pydantic

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.events import jsonable
from jeeves_reflexion.experiments.results import Split
from jeeves_reflexion.files import sync_folder
from jeeves_reflexion.redaction import redact_json
from jeeves_reflexion.types import JSON, NO_USAGE, Evaluation, Lesson, RecalledLesson, Trial, Usage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Position:
    """Names one try of an experiment."""

    arm: str
    seed: int
    split: Split
    task_id: str
    trial: int

    def __str__(self) -> str:
        return f"{self.arm}/seed {self.seed}/{self.split}/{self.task_id}/trial {self.trial}"

    def as_json(self) -> dict[str, JSON]:
        """Return the position as fields of a line."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished try as the journal holds it, with the verdict of the scorer if there was one."""

    trial: Trial
    scored: Evaluation | None = None

    def as_json(self) -> dict[str, JSON]:
        """Return the try as fields of a line."""
        return {"scored": jsonable(self.scored), "result": trial_json(self.trial)}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Entry:
        """Return the entry that :meth:`as_json` wrote."""
        scored = None if data["scored"] is None else rebuilt(Evaluation, data["scored"])
        return cls(rebuilt(Trial, data["result"]), scored)

    def held(self, lessons: dict[str, Lesson]) -> Entry:
        """Return the try as it is held in memory: without the candidates left out, and with ``lessons`` shared.

        An experiment holds all of its tries, and these make up most of a try.
        """
        recall = self.trial.recall
        if recall is None:
            return self

        def shared(item: RecalledLesson) -> RecalledLesson:
            known = lessons.get(item.lesson.id)
            if known is None or known.text != item.lesson.text:
                known = lessons[item.lesson.id] = item.lesson
            return replace(item, lesson=known)

        offered, withheld = (tuple(map(shared, items)) for items in (recall.offered, recall.withheld))
        slim = replace(recall, offered=offered, withheld=withheld, left_out=())
        return replace(self, trial=replace(self.trial, recall=slim))


@dataclass(slots=True)
class Past:
    """The contents of a journal: the finished tries and the stored lessons, by position.

    A stored lesson is given by its id, or None if it has none, and by the reason if it was refused.
    """

    tries: dict[Position, Entry] = field(default_factory=dict)
    stored: dict[Position, tuple[str | None, str]] = field(default_factory=dict)
    lessons: dict[str, Lesson] = field(default_factory=dict)
    """The recalled lessons by id, shared by all tries."""

    @property
    def spent(self) -> Usage:
        """The usage of the finished tries."""
        return sum((usage for entry in self.tries.values() for usage in entry.trial.usage.values()), NO_USAGE)


def try_line(position: Position, entry: Entry) -> dict[str, JSON]:
    """Return the line of a finished try."""
    return {"kind": "try", **position.as_json(), **entry.as_json()}


def stored_line(position: Position, lesson_id: str | None, refused: str) -> dict[str, JSON]:
    """Return the line of a stored or refused lesson."""
    return {"kind": "stored", **position.as_json(), "lesson_id": lesson_id, "refused": refused}


def void_line(positions: Sequence[Position]) -> dict[str, JSON]:
    """Return the line that voids tries: a resumed run makes them again."""
    return {"kind": "void", "places": [position.as_json() for position in positions]}


def lines_of(rows: Iterable[Mapping[str, JSON]]) -> str:
    """Return rows as lines, without secrets."""
    return "".join(json.dumps(redact_json(dict(row)), ensure_ascii=False) + "\n" for row in rows)


def append(path: Path, rows: Sequence[Mapping[str, JSON]], *, sync: bool = True) -> None:
    """Append rows as lines, without secrets; with ``sync`` they are on disk on return. Raises ``OSError``."""
    text = lines_of(rows)
    new = not path.exists()
    try:
        with open(path, "ab", opener=functools.partial(os.open, mode=0o600)) as file:
            file.write(text.encode("utf-8", "replace"))
            if sync:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        if path.is_file():
            mend(path)  # else the next line would continue the broken one
        raise
    if new and sync:
        sync_folder(path.parent)


UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The errors raised on reading a line that no run wrote."""


def mend(path: Path) -> None:
    """Cut off an unfinished last line, which a killed process left. Raises ``OSError``."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        whole = sum(len(line) for line in file if line.endswith(b"\n"))
        if whole < file.tell():
            file.truncate(whole)
            os.fsync(file.fileno())


def read(path: Path) -> Past:
    """Read a journal. Raises :class:`ExperimentError` with the number of the first line that can't be read."""
    past, number = Past(), 1
    try:
        with path.open("rb") as file:
            for line in file:
                _take(past, json.loads(line))
                number += 1
    except OSError as error:
        raise ExperimentError(f"the journal {path} can't be read: {error}") from error
    except UNREADABLE as error:
        raise ExperimentError(
            f"the journal {path} can't be read: line {number}: {type(error).__name__}: {error}"
        ) from error
    return past


def _take(past: Past, row: dict[str, Any]) -> None:
    match row["kind"]:
        case "try":
            past.tries[position_of(row)] = Entry.of(row).held(past.lessons)
        case "stored":
            past.stored[position_of(row)] = row["lesson_id"], row["refused"]
        case "void":
            for position in map(position_of, row["places"]):
                past.tries.pop(position, None)


def position_of(row: Mapping[str, Any]) -> Position:
    """Return the position of a line. Raises one of :data:`UNREADABLE` for a line that no run writes."""
    position = Position(row["arm"], row["seed"], row["split"], row["task_id"], row["trial"])
    if not isinstance(position.trial, int):
        raise TypeError(f"{position.trial!r} is not the number of a trial")
    (
        position.arm.encode(),
        position.task_id.encode(),
    )  # neither a file nor a URL holds half of a surrogate pair
    return position


# -- trials as JSON, so that a run can be resumed


def trial_json(trial: Trial) -> JSON:
    """Return a trial as JSON, without what a resumed run does not need: its attempt's value, which may be any object,
    and the candidates that its recall left out.
    """
    plain = jsonable(trial, exclude={"attempt": {"value"}, "recall": {"left_out"}})
    # Encode as the file will: a text with half of a surrogate pair could not be read back.
    text: JSON = json.loads(json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace"))
    return text


def rebuilt(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return a value of :mod:`jeeves_reflexion.types` from its JSON.

    Missing fields take their defaults and unknown fields are ignored, since another version may have written the log.
    Raises ``ValueError`` for data of another kind.
    """
    adapter: pydantic.TypeAdapter[T] = _adapter(cast("Hashable", kind))
    return adapter.validate_python(data)


_adapter: Final = functools.cache(pydantic.TypeAdapter)
