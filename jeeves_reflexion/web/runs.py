"""The folders of runs, read while they grow: what was read once is not read again."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.arms import arm_of
from jeeves_reflexion.experiments.journal import UNREADABLE, Position
from jeeves_reflexion.experiments.past import Past
from jeeves_reflexion.experiments.plan import name_of
from jeeves_reflexion.experiments.report.analysis import Part, Report
from jeeves_reflexion.experiments.report.page import curves
from jeeves_reflexion.experiments.results import Curve, Results, Tried
from jeeves_reflexion.types import Task

_DEPTH: Final = 3
_TAIL: Final = 65_536


@dataclass(slots=True)
class RunFolder:
    """One run. ``name`` is its path relative to the folder of all runs."""

    name: str
    path: Path
    _past: Past | None = None
    _made: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self) -> tuple[int, ...]:
        """Return the sizes of the run's logs, which differ once there is more to show."""
        return tuple(_file(self.path / name)[0] for name in ("journal.jsonl", "events.jsonl"))

    def begun(self) -> tuple[Results, float]:
        """Return the run's design, as results without rows, and its start. Raises :class:`ExperimentError`."""
        try:
            config = json.loads((self.path / "config.json").read_bytes())
            design = config["design"] or {"arms": (), "seeds": (), "trials": 0, "tasks": {}, "held_out": ()}
            # Tasks have the names that the journal gives them; the configuration does not hold their prompts.
            held_out = [_task(name_of(_task(each))) for each in design["held_out"]]
            learning = [_task(name_of(_task(each))) for each in design["tasks"].keys() - design["held_out"]]
            results = Results(
                tuple(learning),
                tuple(arm_of(name).name for name in design["arms"]),
                tuple(design["seeds"]),
                int(design["trials"]),
                held_out=tuple(held_out),
                judged_by=design.get("judged_by", "oracle"),
            )
            return results, float(config["started"])
        except (OSError, OverflowError, *UNREADABLE) as error:
            raise ExperimentError(f"the configuration of run {self.name} can't be read: {error}") from error

    def results(self) -> Results:
        """Return all attempts as results. Raises :class:`ExperimentError`, also for seeds that the design lacks."""
        tries = self.refresh()
        results, _ = self.begun()
        results.rows = list(tries.values())
        if unknown := {row.seed for row in results.rows} - {*results.seeds}:
            raise ExperimentError(
                f"the journal of run {self.name} has attempts with the seed {unknown.pop()!r}, and config.json does not"
                " name it: one of the two files is of another run"
            )
        results.scored = any(row.right is not None for row in results.rows)
        return results

    def state(self) -> tuple[str, float]:
        """Return whether the run is finished, stopped or going on, and when its logs were last written.

        A run that was killed looks like one that is going on, but for the time.
        """
        path = self.path / "events.jsonl"
        size, written_at = _file(path)
        at = max(written_at, _file(self.path / "journal.jsonl")[1])
        try:
            with path.open("rb") as file:
                file.seek(max(size - _TAIL, 0))
                written, _, _ = file.read().rpartition(b"\n")  # the rest is a line that is being written
            event = json.loads(written.rpartition(b"\n")[2])
            if event["kind"] == "experiment.interrupted":
                return f"stopped at {event['where']}: {event['why']}", at
            if event["kind"] == "experiment.finished":
                where = event["interrupted"]
                return f"stopped at {where}" if where else "finished", at
        except (OSError, *UNREADABLE):
            pass  # the log has no readable event that says that the run ended
        return "going on", at

    def refresh(self) -> dict[Position, Tried]:
        """Read the new lines of the journal and return all attempts.

        Raises :class:`ExperimentError` if a line can't be read. Blocks.
        """
        path = self.path / "journal.jsonl"
        with self._lock:
            made = _file(self.path / "config.json")[1]  # a run writes it once
            if self._past is None or made != self._made or _file(path)[0] < self._past.size:
                self._past, self._made = Past(path), made  # another run took the folder
            self._past.refresh()
            return dict(self._past.tries)


class Runs:
    """The runs below a folder. What was read of the last one that was asked for stays in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last: RunFolder | None = None

    def all(self) -> list[RunFolder]:
        """Return the runs, newest first. Raises :class:`ExperimentError` if the folder does not exist. Blocks."""
        if not self.folder.is_dir():
            raise ExperimentError(f"there is no folder {self.folder}")
        runs = []
        for at, folders, files in os.walk(self.folder):
            depth = len(Path(at).relative_to(self.folder).parts)
            if "config.json" in files and "journal.jsonl" in files:
                # A URL can't hold a name that is not valid UTF-8.
                name = os.fsencode(Path(at).relative_to(self.folder)).decode(errors="backslashreplace")
                runs.append(RunFolder(name, Path(at)))
            folders[:] = [] if depth >= _DEPTH else [each for each in folders if each != "lessons"]
        return sorted(runs, key=lambda run: -_file(run.path / "config.json")[1])

    def get(self, name: str) -> RunFolder:
        """Return the run with a name from :meth:`all`. Raises :class:`ExperimentError` if there is none. Blocks."""
        run = self._last
        if run is None or run.name != name or not (run.path / "config.json").exists():
            run = next((each for each in self.all() if each.name == name), None)
        if run is None:
            raise ExperimentError(f"there is no run {name!r}")
        self._last = run
        return run


# -- learning curves


def pictures(name: str, results: Results) -> list[tuple[Part, str]]:
    """Return the learning curves of each judge and split, drawn as in the report, each with its figures.

    A trial is drawn as soon as every task was tried in it, or solved before.
    """
    made = []
    for judge in results.judges:
        for split in results.splits if results.arms else ():
            tasks, trials = len(results.tasks_of(split)), results.trials_of(split)
            so_far = [replace(results, trials=number) for number in range(1, trials + 1)]
            success = []
            for arm in results.arms:
                grown = [each.curve(arm, by=judge, split=split).points for each in so_far]
                last = tuple(points[-1] for points in grown if points)
                success.append(Curve(arm, last, judge, len(results.seeds)))
            part = Part(judge, split, tasks, trials, tuple(success), (), {})
            if picture := curves(part, Report(name, results, results.arms[0], (part,), ())):
                made.append((part, picture))
    return made


def _task(name: str) -> Task:
    return Task(f"task {name}", id=name)


def _file(path: Path) -> tuple[int, float]:
    """Return the size of a file and when it was last written; 0 for both if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0.0
    return status.st_size, status.st_mtime
