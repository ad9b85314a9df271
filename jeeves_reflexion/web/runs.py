"""The folders of runs as they grow: what each attempt came to, read once, and where in the journal it lies whole."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.arms import ArmName, arm_of
from jeeves_reflexion.experiments.journal import UNREADABLE, Entry, Position
from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.report.analysis import Part, Report
from jeeves_reflexion.experiments.report.page import curves
from jeeves_reflexion.experiments.results import Curve, Point, Results, Split
from jeeves_reflexion.statistics import clustered_share

_DEPTH: Final = 3
_TAIL: Final = 65_536
Mark: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """What one attempt of a run came to; it lies at ``start`` in the journal, ``size`` bytes long.

    ``scored`` is the verdict of a scorer beside the loop's own, None where there was none.
    """

    position: Position
    passed: bool
    scored: bool | None
    recalled: int
    learned: bool
    error: bool
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Design:
    """What a run was started with, as far as the page shows it."""

    arms: tuple[ArmName, ...]
    seeds: tuple[int, ...]
    trials: int
    tasks: int
    held_out: int
    judged_by: JudgedBy
    started: float

    @classmethod
    def of(cls, config: Any) -> Design:  # noqa: ANN401 - whatever lies in the file
        """Read a configuration; raises one of ``UNREADABLE`` where it is none."""
        design = config["design"] or {"arms": (), "seeds": (), "trials": 0, "tasks": {}, "held_out": ()}
        held_out = len(design["held_out"])
        return cls(
            tuple(arm_of(name).name for name in design["arms"]),
            tuple(design["seeds"]),
            int(design["trials"]),
            len(design["tasks"]) - held_out,
            held_out,
            design.get("judged_by", "oracle"),
            float(config["started"]),
        )


@dataclass(slots=True)
class RunFolder:
    """One run. ``name`` is its path below the folder of all runs."""

    name: str
    path: Path
    tries: dict[Position, Tried] = field(default_factory=dict)
    _made: float = 0.0
    _read: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self) -> Mark:
        """Return what differs once there is more of the run."""
        return tuple(_size(self.path / name) for name in ("journal.jsonl", "events.jsonl"))

    def design(self) -> Design:
        """Return what the run was started with; raises :class:`ExperimentError`."""
        try:
            return Design.of(json.loads((self.path / "config.json").read_bytes()))
        except (OSError, OverflowError, *UNREADABLE) as error:
            raise ExperimentError(f"the configuration of run {self.name} can't be read: {error}") from error

    def state(self) -> tuple[str, float]:
        """Return where the run is, and when anything was written last: finished, stopped or going on.

        A run that was killed can't be told from one that goes on: then the time tells.
        """
        path = self.path / "events.jsonl"
        at = max(_modified(path), _modified(self.path / "journal.jsonl"))
        try:
            with path.open("rb") as file:
                file.seek(max(_size(path) - _TAIL, 0))
                written, _, _ = file.read().rpartition(b"\n")  # what follows is being written
            event = json.loads(written.rpartition(b"\n")[2])
            if event["kind"] == "experiment.interrupted":
                return f"stopped at {event['where']}: {event['why']}", at
            if event["kind"] == "experiment.finished":
                said = event["interrupted"]
                return f"stopped at {said}" if said else "finished", at
        except (OSError, *UNREADABLE):
            pass  # nothing says that it ended
        return "going on", at

    def refresh(self) -> dict[Position, Tried]:
        """Read what is new in the journal, and return all attempts.

        Raises :class:`ExperimentError` for a line that can't be read. Blocks.
        """
        path = self.path / "journal.jsonl"
        with self._lock:
            try:
                made = _modified(self.path / "config.json")  # written once
                if made != self._made or _size(path) < self._read:  # it was put in the place of another
                    self.tries, self._read, self._made = {}, 0, made
                with path.open("rb") as file:
                    file.seek(self._read)
                    for line in file:
                        if not line.endswith(b"\n"):  # it is being written
                            break
                        self._take(line)
                        self._read += len(line)
            except OSError as error:
                raise ExperimentError(f"the journal of run {self.name} can't be read: {error}") from error
            return dict(self.tries)

    def _take(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            if row["kind"] == "try":
                position = _position(row)
                self.tries[position] = _tried(position, row, self._read, len(line))
            elif row["kind"] == "void":
                for each in row["places"]:
                    self.tries.pop(_position(each), None)
        except UNREADABLE as error:
            raise ExperimentError(
                f"the journal of run {self.name} can't be read at byte {self._read}: {error!r}"
            ) from error

    def entries(self, tries: Iterable[Tried]) -> Iterator[Entry]:
        """Read attempts whole; raises :class:`ExperimentError`. Blocks."""
        try:
            with (self.path / "journal.jsonl").open("rb") as file:
                for each in tries:
                    file.seek(each.start)
                    yield Entry.of(json.loads(file.read(each.size)))
        except (OSError, *UNREADABLE) as error:
            raise ExperimentError(f"an attempt of run {self.name} can't be read: {error!r}") from error


class Runs:
    """The runs below a folder. What was read of a run stays in memory, some hundred bytes an attempt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, RunFolder] = {}

    def all(self) -> list[RunFolder]:
        """Return the runs, the newest first; raises :class:`ExperimentError` where the folder is gone. Blocks."""
        if not self.folder.is_dir():
            raise ExperimentError(f"there is no folder {self.folder}")
        found = []
        for at, folders, files in os.walk(self.folder):
            depth = len(Path(at).relative_to(self.folder).parts)
            if "config.json" in files and "journal.jsonl" in files:
                # A name that is no UTF-8 would stand in no address.
                name = os.fsencode(Path(at).relative_to(self.folder)).decode(errors="backslashreplace")
                found.append(self._known.setdefault(name, RunFolder(name, Path(at))))
            folders[:] = [] if depth >= _DEPTH else [each for each in folders if each != "lessons"]
        return sorted(found, key=lambda run: -_modified(run.path / "config.json"))

    def get(self, name: str) -> RunFolder:
        """Return the run of a name that :meth:`all` gives; raises :class:`ExperimentError` for another. Blocks."""
        if name in self._known and (self._known[name].path / "config.json").exists():
            return self._known[name]
        for run in self.all():
            if run.name == name:
                return run
        raise ExperimentError(f"there is no run {name!r}")


# -- learning curves


def pictures(run: RunFolder, design: Design, tries: Iterable[Tried]) -> list[tuple[Part, str]]:
    """Return the learning curves as the report draws them, for each judge, with the figures of each.

    A trial counts as soon as every task had it, or was solved before: so a run that goes on has a curve.
    """
    rows: dict[tuple[str, int, Split], list[Tried]] = {}
    scored = False
    for each in tries:
        rows.setdefault((each.position.arm, each.position.seed, each.position.split), []).append(each)
        scored = scored or each.scored is not None
    judges: list[JudgedBy] = [design.judged_by]
    if design.judged_by == "self" and scored:
        judges.append("oracle")
    made = []
    splits: tuple[tuple[Split, int], ...] = (("learning", design.tasks), ("held-out", design.held_out))
    for judge in judges:
        for split, tasks in ((name, number) for name, number in splits if number and design.arms):
            trials = design.trials if split == "learning" else 1
            success = tuple(_curve(arm, design, rows, judge, split, tasks) for arm in design.arms)
            part = Part(judge, split, tasks, trials, success, (), {})
            results = Results((), design.arms, design.seeds, design.trials, judged_by=judge)
            picture = curves(part, Report(run.name, results, design.arms[0], (part,), ()))
            if picture:
                made.append((part, picture))
    return made


def _curve(
    arm: ArmName,
    design: Design,
    rows: Mapping[tuple[str, int, Split], list[Tried]],
    judge: JudgedBy,
    split: Split,
    tasks: int,
) -> Curve:
    trials = design.trials if split == "learning" else 1
    planned = arm_of(arm).trials(trials)
    by_trial: dict[int, dict[str, list[bool]]] = {}
    for seed in design.seeds:
        verdicts: dict[str, bool] = {}
        stopped: set[str] = set()
        own = rows.get((arm, seed, split), ())
        for trial in range(1, trials + 1):
            tried = {r.position.task_id: r for r in own if r.position.trial == trial}
            if trial <= planned and len(tried.keys() | stopped) < tasks:
                break
            for task, row in tried.items():
                verdicts[task] = row.passed if judge == design.judged_by else bool(row.scored)
                if row.passed:
                    stopped.add(task)
            for task, passed in verdicts.items():
                by_trial.setdefault(trial, {}).setdefault(task, []).append(passed)
    points = tuple(Point(trial, clustered_share(each.values())) for trial, each in sorted(by_trial.items()))
    return Curve(arm, points, judge, len(design.seeds))


def _tried(position: Position, row: Mapping[str, Any], start: int, size: int) -> Tried:
    result, scored = row["result"], row["scored"]
    return Tried(
        position,
        bool(result["passed"]),
        None if scored is None else bool(scored["passed"]),
        len((result["recall"] or {}).get("offered", ())),
        result["reflection"] is not None,
        result["attempt"]["error"] is not None,
        start,
        size,
    )


def _position(row: Mapping[str, Any]) -> Position:
    position = Position(row["arm"], row["seed"], row["split"], row["task_id"], row["trial"])
    if not isinstance(position.trial, int):
        raise TypeError(f"{position.trial!r} is no trial")
    position.arm.encode(), position.task_id.encode()  # else it would stand in no address
    return position


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
