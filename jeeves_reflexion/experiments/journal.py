"""The journal of a run: every finished try whole, and every lesson that was stored, as JSON lines to resume from.

A line is on the disk before the next step rests on it. A line that a killed run left unfinished is cut off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.results import Split
from jeeves_reflexion.experiments.values import plain, rebuilt
from jeeves_reflexion.files import sync_folder
from jeeves_reflexion.redaction import redact_json
from jeeves_reflexion.types import JSON, NO_USAGE, Evaluation, Trial, Usage


@dataclass(frozen=True, slots=True)
class Place:
    """Where in an experiment a try is made."""

    arm: str
    seed: int
    split: Split
    task_id: str
    trial: int

    def __str__(self) -> str:
        return f"{self.arm}/seed {self.seed}/{self.split}/{self.task_id}/trial {self.trial}"

    def as_json(self) -> dict[str, JSON]:
        """Return the fields of a line that say where it belongs."""
        return {
            "arm": self.arm,
            "seed": self.seed,
            "split": self.split,
            "task_id": self.task_id,
            "trial": self.trial,
        }


@dataclass(frozen=True, slots=True)
class Kept:
    """A finished try as the journal has it, with the verdict of a scorer where there was one."""

    trial: Trial
    scored: Evaluation | None = None


@dataclass(slots=True)
class Past:
    """What a journal holds: the tries that are finished, and the lessons that are stored, by place.

    A stored lesson is told by its id; by None where there is none to tell, or why it was not let in.
    """

    tries: dict[Place, Kept] = field(default_factory=dict)
    stored: dict[Place, str | None] = field(default_factory=dict)
    refused: dict[Place, str] = field(default_factory=dict)

    @property
    def spent(self) -> Usage:
        """What the finished tries used."""
        return sum((sum(kept.trial.usage.values(), NO_USAGE) for kept in self.tries.values()), NO_USAGE)


def try_line(place: Place, kept: Kept) -> dict[str, JSON]:
    """Return the line of a finished try."""
    scored = None if kept.scored is None else plain(kept.scored)
    return {"kind": "try", **place.as_json(), "scored": scored, "result": plain(kept.trial)}


def stored_line(place: Place, lesson_id: str | None, refused: str = "") -> dict[str, JSON]:
    """Return the line of a lesson that was stored, or refused."""
    return {"kind": "stored", **place.as_json(), "lesson_id": lesson_id, "refused": refused}


def void_line(places: Sequence[Place]) -> dict[str, JSON]:
    """Return the line that takes tries back: they are made again when the run is resumed."""
    return {"kind": "void", "places": [place.as_json() for place in places]}


def append(path: Path, rows: Sequence[Mapping[str, JSON]], *, sync: bool = True) -> None:
    """Append rows as lines, without secrets; on the disk when it returns if ``sync``. Raises ``OSError``."""
    text = "".join(json.dumps(redact_json(dict(row)), ensure_ascii=False) + "\n" for row in rows)
    new = not path.exists()
    with open(path, "ab", opener=_for_this_user) as file:
        file.write(text.encode("utf-8", "replace"))
        if sync:
            file.flush()
            os.fsync(file.fileno())
    if new and sync:
        sync_folder(path.parent)


def _for_this_user(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a line raises that is none of a run's."""


def mend(path: Path) -> bool:
    """Cut off the unfinished last line that a killed writer left; say whether there was one. Raises ``OSError``."""
    if not path.exists():
        return False
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end == len(data):
        return False
    with path.open("r+b") as file:
        file.truncate(end)
        os.fsync(file.fileno())
    return True


def read(path: Path) -> Past:
    """Read a journal; raises :class:`ExperimentError` that names the line that can't be read."""
    past = Past()
    try:
        lines = path.read_bytes().splitlines() if path.exists() else []
    except OSError as error:
        raise ExperimentError(f"the journal {path} can't be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            _take(past, json.loads(line))
        except UNREADABLE as error:
            raise ExperimentError(
                f"the journal {path} can't be read: line {number}: {type(error).__name__}: {error}"
            ) from error
    return past


def _take(past: Past, row: dict[str, Any]) -> None:
    match row["kind"]:
        case "try":
            scored = None if row["scored"] is None else rebuilt(Evaluation, row["scored"])
            past.tries[_place(row)] = Kept(rebuilt(Trial, row["result"]), scored)
        case "stored":
            past.stored[_place(row)] = row["lesson_id"]
            if row["refused"]:
                past.refused[_place(row)] = row["refused"]
        case "void":
            for place in map(_place, row["places"]):
                past.tries.pop(place, None)


def _place(row: Mapping[str, Any]) -> Place:
    return Place(row["arm"], row["seed"], row["split"], row["task_id"], row["trial"])
