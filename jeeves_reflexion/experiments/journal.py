"""The journal of a run: every finished try in full, and every stored lesson, as JSON lines to resume from.

A try is on disk before any later step depends on it. A last line that a killed run left unfinished is cut off.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import pydantic

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.events import jsonable
from jeeves_reflexion.experiments.plan import Split
from jeeves_reflexion.files import sync_folder
from jeeves_reflexion.redaction import redact_json
from jeeves_reflexion.types import JSON, Evaluation, Lesson, Trial

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
        return {name: getattr(self, name) for name in self.__slots__}


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


@dataclass(slots=True)
class Line:
    """Where a journal holds a try: the first byte of its line, and of the line of its stored lesson if there is one."""

    journal: Path
    start: int
    stored: int | None = None

    def read(self) -> Entry:
        """Read the try, with its lesson as it was stored. Raises :class:`ExperimentError`. Blocks."""
        try:
            with self.journal.open("rb") as file:
                file.seek(self.start)
                entry = Entry.of(json.loads(file.readline()))
                if self.stored is None:
                    return entry
                file.seek(self.stored)
                row = json.loads(file.readline())
                lesson = rebuilt(Lesson, row["lesson"]) if row.get("lesson") else None
                problems = (*entry.trial.problems, row["refused"]) if row["refused"] else entry.trial.problems
        except (OSError, *UNREADABLE) as error:
            raise ExperimentError(
                f"a try can't be read from {self.journal} at byte {self.start}: {error!r}"
            ) from error
        return replace(entry, trial=replace(entry.trial, lesson=lesson, pending=False, problems=problems))


def try_line(position: Position, entry: Entry) -> dict[str, JSON]:
    """Return the line of a finished try. Raises :class:`ExperimentError` if it could not be read back."""
    row = entry.as_json()
    with read_back(position):
        Entry.of(row)
    return {"kind": "try", **position.as_json(), **row}


def stored_line(position: Position, lesson: Lesson | None, refused: str) -> dict[str, JSON]:
    """Return the line of a stored or refused lesson. Raises :class:`ExperimentError` if it could not be read back."""
    plain = cast("dict[str, JSON] | None", jsonable(lesson))
    with read_back(position):
        lesson_id = rebuilt(Lesson, plain).id if plain else None
    return {
        "kind": "stored",
        **position.as_json(),
        "lesson_id": lesson_id,
        "refused": refused,
        "lesson": plain,
    }


@contextlib.contextmanager
def read_back(position: Position) -> Iterator[None]:
    """Refuse what a line would hold before it is written: one line that can't be read would lose the whole run."""
    try:
        yield
    except UNREADABLE as error:
        raise ExperimentError(
            f"{position}: the journal could not be read with such a value: {error}"
        ) from error


def void_line(positions: Sequence[Position]) -> dict[str, JSON]:
    """Return the line that voids tries: a resumed run makes them again."""
    return {"kind": "void", "places": [position.as_json() for position in positions]}


def lines_of(rows: Iterable[Mapping[str, JSON]]) -> str:
    """Return rows as lines, without secrets."""
    return "".join(json.dumps(redact_json(dict(row)), ensure_ascii=False) + "\n" for row in rows)


def append(path: Path, rows: Sequence[Mapping[str, JSON]], *, sync: bool = True) -> int:
    """Append rows as lines, without secrets, and return the place of their first byte.

    With ``sync`` they are on disk on return. Raises ``OSError``.
    """
    data = lines_of(rows).encode("utf-8", "replace")
    new = not path.exists()
    try:
        with open(path, "ab", opener=functools.partial(os.open, mode=0o600)) as file:
            file.write(data)
            file.flush()
            start = file.tell() - len(data)  # only now: other threads append too
            if sync:
                os.fsync(file.fileno())
    except OSError:
        if path.is_file():
            mend(path)  # else the next line would continue the broken one
        raise
    if new and sync:
        sync_folder(path.parent)
    return start


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


def position_of(row: Mapping[str, Any]) -> Position:
    """Return the position of a line. Raises one of :data:`UNREADABLE` for a line that no run writes."""
    position = Position(row["arm"], row["seed"], row["split"], row["task_id"], row["trial"])
    if not isinstance(position.trial, int):
        raise TypeError(f"{position.trial!r} is not the number of a trial")
    (position.arm + position.task_id).encode()  # refuses surrogates, which no file or URL can hold
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
