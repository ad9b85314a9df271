"""What a journal holds, read while it grows: the finished tries without their texts, and the stored lessons."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.journal import UNREADABLE, Entry, Line, Position, position_of
from jeeves_reflexion.experiments.results import Tried
from jeeves_reflexion.types import Task


@dataclass(slots=True)
class Past:
    """The finished tries of a journal, and the ids of the stored lessons (None for a refused one), by position.

    A journal has no prompts: the tasks of the tries have ids alone.
    """

    journal: Path
    tries: dict[Position, Tried] = field(default_factory=dict)
    stored: dict[Position, str | None] = field(default_factory=dict)
    size: int = 0
    """The number of bytes that were read."""
    lines: int = 0

    def refresh(self) -> None:
        """Read the lines added since the last time, without one that is still being written. Blocks.

        Raises :class:`ExperimentError` with the number of the first line that can't be read.
        """
        try:
            with self.journal.open("rb") as file:
                file.seek(self.size)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    row = json.loads(line)
                    match row["kind"]:
                        case "try":
                            at, entry = position_of(row), Entry.of(row)
                            arm, task = cast("ArmName", at.arm), Task(f"task {at.task_id}", id=at.task_id)
                            place = Line(self.journal, self.size)
                            self.tries[at] = Tried(
                                arm, at.seed, task, entry.trial, at.split, entry.scored, line=place
                            )
                        case "stored":
                            self.stored[position_of(row)] = row["lesson_id"]
                            self.note_stored(position_of(row), self.size)
                        case "void":
                            for position in map(position_of, row["places"]):
                                self.tries.pop(position, None)
                    self.size += len(line)
                    self.lines += 1
        except OSError as error:
            raise ExperimentError(f"the journal {self.journal} can't be read: {error}") from error
        except UNREADABLE as error:
            raise ExperimentError(
                f"the journal {self.journal} can't be read: line {self.lines + 1}: {type(error).__name__}: {error}"
            ) from error

    def note_stored(self, position: Position, stored: int | None) -> None:
        """Note the place of the line that stored a try's lesson; None if the lesson is to be stored again."""
        if (row := self.tries.get(position)) is not None and isinstance(row.source, Line):
            row.source.stored = stored
