"""Progress of an experiment: what whoever watches it is told, as lines, and as a count where these go to a terminal."""

from __future__ import annotations

import sys
from typing import TextIO

from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.results import Results, Tried
from jeeves_reflexion.summary import counted


class Watcher:
    """What an experiment tells while it runs; every method may be overridden, none must be."""

    def batch_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """A trial of an arm begins with ``todo`` tasks left to solve."""

    def tried(self, row: Tried) -> None:
        """A task was tried."""

    def batch_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """A trial of an arm is over and its lessons are stored."""

    def said(self, line: str) -> None:
        """Something else happened: the run is resumed, or stopped, or held-out tasks were tried."""


class PlainProgress(Watcher):
    """One line per finished trial of an arm; on a terminal, a count of the tries of the one under way as well."""

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
            self.solved += row.trial.passed
            self.lessons += row.trial.reflection is not None
            self.recalled += len(row.trial.recall.offered) if row.trial.recall else 0
            if self._stream.isatty():
                counts = f"{self.attempted} of {self.todo} tried, {self.solved} solved"
                print(
                    f"{self.where}  trial {row.trial.number}: {counts}",
                    end="\r",
                    file=self._stream,
                    flush=True,
                )

    def batch_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """Write the line."""
        rows = (row for row in results.rows if (row.arm, row.seed, row.split) == (arm, seed, "learning"))
        solved = sum(row.trial.passed for row in rows)
        self.said(
            f"{self.where}  trial {trial}: {self.solved} of {self.todo} solved, {solved}/{len(results.tasks)} so far,"
            f" {counted(self.lessons, 'lesson')} written, {self.recalled} recalled"
        )

    def said(self, line: str) -> None:
        """Write the line."""
        rest = "\x1b[K" if self._stream.isatty() else ""  # of the count that stood there
        print(line + rest, file=self._stream, flush=True)
