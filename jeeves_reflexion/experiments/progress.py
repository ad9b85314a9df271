"""Progress of an experiment: a live table for a person, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.results import Results, Tried
from jeeves_reflexion.experiments.watching import Watcher


def progress_for(stream: TextIO | None = None) -> Watcher:
    """Return the live table where the stream is a terminal, else plain lines."""
    stream = stream or sys.stderr
    return RichProgress(Console(file=stream)) if stream.isatty() else PlainProgress(stream)


class _Count:
    """What has happened in the current round."""

    def __init__(self, todo: int) -> None:
        self.todo, self.tried, self.solved, self.lessons, self.recalled = todo, 0, 0, 0, 0

    def add(self, row: Tried) -> None:
        self.tried += 1
        self.solved += row.trial.passed
        self.lessons += row.trial.reflection is not None
        self.recalled += len(row.trial.recall.offered) if row.trial.recall else 0


class PlainProgress(Watcher):
    """One line per finished trial of an arm."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._count = _Count(0)

    def prepared(self, what: str, done: int, total: int) -> None:
        """Write a line at each quarter."""
        if done == total or done * 4 // total > (done - 1) * 4 // total:
            print(f"{what}: {done} of {total}", file=self._stream, flush=True)

    def resumed(self, skipped: str) -> None:
        """Say what is skipped."""
        print(f"resumed: {skipped}", file=self._stream, flush=True)

    def round_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """Start counting."""
        self._count = _Count(todo)

    def tried(self, row: Tried) -> None:
        """Count a try."""
        self._count.add(row)

    def round_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """Write the line."""
        solved, n = _so_far(results, arm, seed), len(results.tasks)
        count = self._count
        print(
            f"{arm:<12} seed {seed}  trial {trial}: {count.solved} of {count.todo} solved, "
            f"{solved}/{n} so far, "
            f"{count.lessons} lessons written, {count.recalled} recalled",
            file=self._stream,
            flush=True,
        )

    def held_out_finished(self, arm: ArmName, seed: int, solved: int, n: int) -> None:
        """Write the line."""
        print(
            f"{arm:<12} seed {seed}  held out: {solved} of {n} solved at the first try",
            file=self._stream,
            flush=True,
        )

    def interrupted(self, where: str) -> None:
        """Say where it stops."""
        print(f"stopped at {where}", file=self._stream, flush=True)


class RichProgress(Watcher):
    """A table that grows: one row per trial of an arm, the running one with its counts."""

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(console=console or Console(stderr=True), auto_refresh=True, refresh_per_second=8)
        self._rows: list[tuple[str, ...]] = []
        self._head: tuple[str, ...] = ()
        self._count = _Count(0)

    def prepared(self, what: str, done: int, total: int) -> None:
        """Show how far it is, on one line."""
        self._live.start()
        self._live.update(f"{what}: {done} of {total}" if done < total else "")

    def resumed(self, skipped: str) -> None:
        """Say what is skipped."""
        self._live.console.print(f"resumed: {skipped}", markup=False, highlight=False)

    def round_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """Start a row."""
        self._count = _Count(todo)
        self._head = (arm, str(seed), str(trial))
        self._live.start()
        self._draw(running=True)

    def tried(self, row: Tried) -> None:
        """Count a try and draw."""
        if row.split == "held-out":
            return
        self._count.add(row)
        self._draw(running=True)

    def round_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """Finish the row."""
        self._rows.append((*self._cells(), f"{_so_far(results, arm, seed)}/{len(results.tasks)}"))
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
        c = self._count
        return (*self._head, f"{c.tried}/{c.todo}", str(c.solved), str(c.lessons), str(c.recalled))

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


def _so_far(results: Results, arm: ArmName, seed: int) -> int:
    rows = (row for row in results.rows if (row.arm, row.seed, row.split) == (arm, seed, "learning"))
    return sum(row.trial.passed for row in rows)
