"""Progress of an experiment: what whoever watches it is told, a live table for a person, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.results import Results, Tried


class Watcher:
    """What an experiment tells while it runs; every method may be overridden, none must be."""

    def prepared(self, what: str, done: int, total: int) -> None:
        """Some of what the experiment needs is ready, before its first batch."""

    def resumed(self, skipped: str) -> None:
        """The run goes on where it was; ``skipped`` says what is not done again."""

    def batch_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """A trial of an arm begins with ``todo`` tasks left to solve."""

    def tried(self, row: Tried) -> None:
        """A task was tried."""

    def batch_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """A trial of an arm is over and its lessons are stored."""

    def held_out_finished(self, arm: ArmName, seed: int, solved: int, n: int) -> None:
        """An arm tried the ``n`` held-out tasks with what it had learned."""

    def interrupted(self, where: str) -> None:
        """The experiment ends before its time."""

    def close(self) -> None:
        """The experiment is over, in whatever way."""


def progress_for(stream: TextIO | None = None) -> Watcher:
    """Return the live table where the stream is a terminal, else plain lines."""
    stream = stream or sys.stderr
    return RichProgress(Console(file=stream)) if stream.isatty() else PlainProgress(stream)


class _Counting(Watcher):
    """Counts what happens in the batch under way."""

    todo = attempted = solved = lessons = recalled = 0

    def batch_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """Start counting."""
        self.todo = todo
        self.attempted = self.solved = self.lessons = self.recalled = 0

    def tried(self, row: Tried) -> None:
        """Count a try."""
        self.attempted += 1
        self.solved += row.trial.passed
        self.lessons += row.trial.reflection is not None
        self.recalled += len(row.trial.recall.offered) if row.trial.recall else 0


class PlainProgress(_Counting):
    """One line per finished trial of an arm."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def prepared(self, what: str, done: int, total: int) -> None:
        """Write a line at each quarter."""
        if done == total or done * 4 // total > (done - 1) * 4 // total:
            self._print(f"{what}: {done} of {total}")

    def resumed(self, skipped: str) -> None:
        """Say what is skipped."""
        self._print(f"resumed: {skipped}")

    def batch_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """Write the line."""
        self._print(
            f"{arm:<12} seed {seed}  trial {trial}: {self.solved} of {self.todo} solved, "
            f"{_so_far(results, arm, seed)} so far, {self.lessons} lessons written, {self.recalled} recalled"
        )

    def held_out_finished(self, arm: ArmName, seed: int, solved: int, n: int) -> None:
        """Write the line."""
        self._print(f"{arm:<12} seed {seed}  held out: {solved} of {n} solved at the first try")

    def interrupted(self, where: str) -> None:
        """Say where it stops."""
        self._print(f"stopped at {where}")

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class RichProgress(_Counting):
    """A table that grows: one row per trial of an arm, the running one with its counts."""

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(console=console or Console(stderr=True), auto_refresh=True, refresh_per_second=8)
        self._rows: list[tuple[str, ...]] = []
        self._head: tuple[str, ...] = ()

    def prepared(self, what: str, done: int, total: int) -> None:
        """Show how far it is, on one line."""
        self._live.start()
        self._live.update(f"{what}: {done} of {total}" if done < total else "")

    def resumed(self, skipped: str) -> None:
        """Say what is skipped."""
        self._live.console.print(f"resumed: {skipped}", markup=False, highlight=False)

    def batch_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """Start a row."""
        super().batch_started(arm, seed, trial, todo)
        self._head = (arm, str(seed), str(trial))
        self._live.start()
        self._draw(running=True)

    def tried(self, row: Tried) -> None:
        """Count a try and draw."""
        if row.split == "held-out":
            return
        super().tried(row)
        self._draw(running=True)

    def batch_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """Finish the row."""
        self._rows.append((*self._cells(), _so_far(results, arm, seed)))
        self._draw(running=False)

    def held_out_finished(self, arm: ArmName, seed: int, solved: int, n: int) -> None:
        """Add a row of its own."""
        self._rows.append((arm, str(seed), "held out", f"{n}/{n}", str(solved), "0", "", f"{solved}/{n}"))
        self._draw(running=False)

    def interrupted(self, where: str) -> None:
        """Say where it stops."""
        self._live.console.print(f"stopped at {where}", markup=False, highlight=False)

    def close(self) -> None:
        """Leave the table as it is."""
        self._live.stop()

    def _cells(self) -> tuple[str, ...]:
        counts = (f"{self.attempted}/{self.todo}", str(self.solved), str(self.lessons), str(self.recalled))
        return (*self._head, *counts)

    def _draw(self, *, running: bool) -> None:
        table = Table(box=None, pad_edge=False)
        table.add_column("arm")
        for name in ("seed", "trial", "tried", "solved", "lessons written", "recalled", "solved so far"):
            table.add_column(name, justify="right")
        for row in self._rows:
            table.add_row(*row)
        if running:
            table.add_row(*self._cells(), "...", style="bold")
        self._live.update(table)


def _so_far(results: Results, arm: ArmName, seed: int) -> str:
    rows = (row for row in results.rows if (row.arm, row.seed, row.split) == (arm, seed, "learning"))
    return f"{sum(row.trial.passed for row in rows)}/{len(results.tasks)}"
