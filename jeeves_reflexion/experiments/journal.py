"""The journal of a run: every finished try whole, and every lesson that was stored, as JSON lines to resume from.

A try is on the disk before the next step rests on it. A line that a killed run left unfinished is cut off.
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
    """Which try of an experiment."""

    arm: str
    seed: int
    split: Split
    task_id: str
    trial: int

    def __str__(self) -> str:
        return f"{self.arm}/seed {self.seed}/{self.split}/{self.task_id}/trial {self.trial}"

    def as_json(self) -> dict[str, JSON]:
        """Return the fields of a line that say where it belongs."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished try as the journal has it, with the verdict of a scorer where there was one."""

    trial: Trial
    scored: Evaluation | None = None

    def as_json(self) -> dict[str, JSON]:
        """Return the fields of its line."""
        return {"scored": jsonable(self.scored), "result": trial_json(self.trial)}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Entry:
        """Return what :meth:`as_json` made JSON of."""
        scored = None if data["scored"] is None else rebuilt(Evaluation, data["scored"])
        return cls(rebuilt(Trial, data["result"]), scored)

    def held(self, lessons: dict[str, Lesson]) -> Entry:
        """Return the try as memory holds it: without what a recall left out, and each of ``lessons`` there but once.

        These make most of a try, and an experiment holds all of its tries.
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
    """What a journal holds: the tries that are finished, and the lessons that are stored, by position.

    A stored lesson is told by its id, None where there is none to tell, and by why it was not let in.
    """

    tries: dict[Position, Entry] = field(default_factory=dict)
    stored: dict[Position, tuple[str | None, str]] = field(default_factory=dict)
    lessons: dict[str, Lesson] = field(default_factory=dict)
    """Those that were recalled, by their ids."""

    @property
    def spent(self) -> Usage:
        """What the finished tries used."""
        return sum((usage for entry in self.tries.values() for usage in entry.trial.usage.values()), NO_USAGE)


def try_line(position: Position, entry: Entry) -> dict[str, JSON]:
    """Return the line of a finished try."""
    return {"kind": "try", **position.as_json(), **entry.as_json()}


def stored_line(position: Position, lesson_id: str | None, refused: str) -> dict[str, JSON]:
    """Return the line of a lesson that was stored, or refused."""
    return {"kind": "stored", **position.as_json(), "lesson_id": lesson_id, "refused": refused}


def void_line(positions: Sequence[Position]) -> dict[str, JSON]:
    """Return the line that takes tries back: they are made again when the run is resumed."""
    return {"kind": "void", "places": [position.as_json() for position in positions]}


def lines_of(rows: Iterable[Mapping[str, JSON]]) -> str:
    """Return rows as lines, without secrets."""
    return "".join(json.dumps(redact_json(dict(row)), ensure_ascii=False) + "\n" for row in rows)


def append(path: Path, rows: Sequence[Mapping[str, JSON]], *, sync: bool = True) -> None:
    """Append rows as lines, without secrets; on the disk when it returns if ``sync``. Raises ``OSError``."""
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
            mend(path)  # the next line would go on where this one broke off
        raise
    if new and sync:
        sync_folder(path.parent)


UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a line raises that is none of a run's."""


def mend(path: Path) -> None:
    """Cut off the unfinished last line that a killed writer left. Raises ``OSError``."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        whole = sum(len(line) for line in file if line.endswith(b"\n"))
        if whole < file.tell():
            file.truncate(whole)
            os.fsync(file.fileno())


def read(path: Path) -> Past:
    """Read a journal; raises :class:`ExperimentError` that names the line that can't be read."""
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
            past.tries[_position(row)] = Entry.of(row).held(past.lessons)
        case "stored":
            past.stored[_position(row)] = row["lesson_id"], row["refused"]
        case "void":
            for position in map(_position, row["places"]):
                past.tries.pop(position, None)


def _position(row: Mapping[str, Any]) -> Position:
    return Position(row["arm"], row["seed"], row["split"], row["task_id"], row["trial"])


# -- trials as JSON, so that a run can be resumed


def trial_json(trial: Trial) -> JSON:
    """Return a trial as JSON, without what nothing is resumed from: the value of its attempt, which may be anything,
    and what its recall found and did not give.
    """
    plain = jsonable(trial, exclude={"attempt": {"value"}, "recall": {"left_out"}})
    # As it comes back from a file: one with half of a surrogate pair could not be rebuilt.
    text: JSON = json.loads(json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace"))
    return text


def rebuilt(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return the value of :mod:`jeeves_reflexion.types` that was made JSON of.

    Fields that are missing take their default, unknown ones are left out: the log may be of a neighbouring version.
    Raises ``ValueError`` for data of another kind.
    """
    adapter: pydantic.TypeAdapter[T] = _adapter(cast("Hashable", kind))
    return adapter.validate_python(data)


_adapter: Final = functools.cache(pydantic.TypeAdapter)
