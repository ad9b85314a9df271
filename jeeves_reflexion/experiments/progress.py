"""The progress of an experiment, printed as lines, and on a terminal as a count as well."""

from __future__ import annotations

import sys
from typing import TextIO

from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.results import Results, Tried
from jeeves_reflexion.summary import counted


class Watcher:
    """Hears how an experiment goes. The methods do nothing; override those you need."""

    def batch_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """Hear that a trial of an arm begins with ``todo`` unsolved tasks."""

    def tried(self, row: Tried) -> None:
        """Hear that a try is finished."""

    def batch_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """Hear that a trial of an arm is over and its lessons are stored."""

    def said(self, line: str) -> None:
        """Hear, as a line of text, that the run was resumed or stopped, or that held-out tasks were tried."""


class PlainProgress(Watcher):
    """Prints one line per finished trial of an arm, and on a terminal the number of tries in the current trial."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def batch_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """Start counting."""
        self.where, self.todo = f"{arm:<12} seed {seed}", todo
        self.attempted = self.solved = self.lessons = self.recalled = 0

    def tried(self, row: Tried) -> None:
        """Count a try."""
        if row.split == "learning":
            self.attempted += 1
            self.solved += row.passed
            self.lessons += row.lesson is not None
            self.recalled += row.recalled
            if self._stream.isatty():
                counts = f"{self.attempted} of {self.todo} tried, {self.solved} solved"
                print(
                    f"{self.where}  trial {row.number}: {counts}",
                    end="\r",
                    file=self._stream,
                    flush=True,
                )

    def batch_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """Write the line."""
        rows = (row for row in results.rows if (row.arm, row.seed, row.split) == (arm, seed, "learning"))
        solved = sum(row.passed for row in rows)
        self.said(
            f"{self.where}  trial {trial}: {self.solved} of {self.todo} solved, {solved}/{len(results.tasks)} so far,"
            f" {counted(self.lessons, 'lesson')} written, {self.recalled} recalled"
        )

    def said(self, line: str) -> None:
        """Write the line."""
        erase = "\x1b[K" if self._stream.isatty() else ""  # the rest of the count that was printed there
        print(line + erase, file=self._stream, flush=True)
