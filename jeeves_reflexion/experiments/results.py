"""The results of an experiment: one row for each try, and learning curves with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.errors import ConfigurationError, ExperimentError
from jeeves_reflexion.experiments.arms import ArmName, arm_of
from jeeves_reflexion.experiments.journal import Entry, Line
from jeeves_reflexion.experiments.plan import Cluster, JudgedBy, Split
from jeeves_reflexion.statistics import Share, clustered_share
from jeeves_reflexion.types import JSON, NO_USAGE, Evaluation, Task, Trial, Usage

NOT_FINISHED: Final = "not finished"


@dataclass(init=False, slots=True)
class Tried:
    """One try of one task, by an arm with a seed: what tables need of it.

    ``split`` says whether lessons were learned from the task, ``right`` whether a scorer passed the try (None without
    a scorer), ``recalled`` how many lessons were offered. ``lesson`` is the text that was written, ``pending`` whether
    the batch has to store it at its end, ``usage`` the sum over all roles. If the try has a ``line`` in a journal, its
    trial is not held in memory but read from there.
    """

    arm: ArmName
    seed: int
    task: Task
    split: Split
    number: int
    passed: bool
    right: bool | None
    unscored: bool
    error: bool
    recalled: int
    lesson: str | None
    pending: bool
    seconds: float
    usage: Usage
    source: Entry | Line = field(repr=False)

    def __init__(
        self,
        arm: ArmName,
        seed: int,
        task: Task,
        trial: Trial,
        split: Split = "learning",
        scored: Evaluation | None = None,
        *,
        line: Line | None = None,
    ) -> None:
        self.arm, self.seed, self.task, self.split = arm, seed, task, split
        self.number, self.passed, self.seconds = trial.number, trial.passed, trial.seconds
        self.right = None if scored is None else bool(scored.passed)
        self.unscored = not trial.evaluation.scored
        self.error = trial.attempt.error is not None
        self.recalled = len(trial.recall.offered) if trial.recall else 0
        self.lesson = trial.reflection.lesson if trial.reflection else None
        self.pending = trial.pending
        self.usage = sum(trial.usage.values(), NO_USAGE)
        self.source = line or Entry(trial, scored)

    @property
    def trial(self) -> Trial:
        """The whole trial, read from the journal in the run's folder at each access, which blocks.

        The journal holds neither secrets, nor the attempt's ``value``, nor the candidates that a recall left out; that
        of an earlier version holds no ``lesson``. Raises :class:`ExperimentError` if the trial can't be read.
        """
        return self.read().trial

    @property
    def scored(self) -> Evaluation | None:
        """The verdict of a scorer that knows the gold answer and that the loop never hears; read like ``trial``."""
        return self.read().scored

    def read(self) -> Entry:
        """Return the trial with the verdict of the scorer. Raises :class:`ExperimentError`. Blocks."""
        if isinstance(self.source, Entry):
            return self.source
        entry = self.source.read()
        if (entry.trial.number, entry.trial.seconds) != (self.number, self.seconds):
            raise ExperimentError(f"{self.source.journal} holds another try: another run took the folder")
        return entry

    def as_json(self) -> dict[str, JSON]:
        """Return the row as JSON, without prompt or trajectory. Raises and blocks as :meth:`read`."""
        entry = self.read()
        trial, scored = entry.trial, entry.scored
        usage: dict[str, JSON] = {
            role: {"calls": u.calls, "input_tokens": u.input_tokens, "output_tokens": u.output_tokens}
            for role, u in trial.usage.items()
        }
        row: dict[str, JSON] = {
            "arm": self.arm,
            "seed": self.seed,
            "split": self.split,
            "task_id": self.task.id,
            "task_kind": self.task.kind,
            "trial": trial.number,
            "passed": trial.passed,
            "score": trial.evaluation.score,
            "steps": len(trial.attempt.steps),
            "interrupted": trial.attempt.interrupted,
            "error": trial.attempt.error,
            "recalled": list(trial.recall.texts) if trial.recall else [],
            "lesson": trial.reflection.lesson if trial.reflection else None,
            "seconds": round(trial.seconds, 4),
            "usage": usage,
            "cost_usd": self.usage.cost_usd,
        }
        if scored is not None:
            row["scored"] = {"passed": bool(scored.passed), "score": scored.score}
        return row


@dataclass(frozen=True, slots=True)
class Point:
    """Tasks solved up to and including a trial."""

    trial: int
    share: Share


@dataclass(frozen=True, slots=True)
class Curve:
    """An arm's learning curve, pooled over the ``seeds`` that it finished."""

    arm: ArmName
    points: tuple[Point, ...]
    judged_by: JudgedBy = "oracle"
    seeds: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an arm."""

    usage: Usage
    seconds: float
    tries: int
    solved: int

    @property
    def known(self) -> Usage | None:
        """The usage if at least one call reported it, else None."""
        return self.usage if self.usage.calls > self.usage.unreported else None

    def per_solved(self, amount: float | None) -> float | None:
        """Return an amount per solved task; None if the amount is unknown, or no task was solved."""
        return None if amount is None or not self.solved else amount / self.solved

    def as_json(self) -> dict[str, JSON]:
        """Return the figures as JSON."""
        used = self.usage
        return {
            "tries": self.tries,
            "solved": self.solved,
            "calls": used.calls,
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "calls_without_reported_tokens": used.unreported,
            "cost_usd": used.cost_usd,
            "seconds": round(self.seconds, 3),
            "tokens_per_solved": self.per_solved(used.tokens),
            "cost_usd_per_solved": self.per_solved(used.cost_usd),
            "seconds_per_solved": self.per_solved(self.seconds),
        }


@dataclass(slots=True)
class Results:
    """The results of an experiment, which grow as it runs.

    ``tasks`` are those that lessons were learned from, ``held_out`` the others. ``judged_by`` says who decided what
    passed, ``scored`` whether a scorer with the gold answer judged every try too. ``cluster`` is the unit of intervals.
    """

    tasks: tuple[Task, ...]
    arms: tuple[ArmName, ...]
    seeds: tuple[int, ...]
    trials: int
    rows: list[Tried] = field(default_factory=list)
    interrupted: str = ""
    held_out: tuple[Task, ...] = ()
    judged_by: JudgedBy = "oracle"
    scored: bool = False
    cluster: Cluster = "task"

    @property
    def judges(self) -> tuple[JudgedBy, ...]:
        """The judges of every try: that of the loops first, then the scorer."""
        return ("self", "oracle") if self.scored and self.judged_by == "self" else (self.judged_by,)

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits of the tasks."""
        return ("learning", "held-out") if self.held_out else ("learning",)

    @property
    def errors(self) -> int:
        """The number of tries that ended in an error; they count as not solved."""
        return sum(row.error for row in self.rows)

    def cluster_of(self, task: Task) -> str:
        """Return the name of the cluster that a task belongs to."""
        return task.prompt.partition("\n\n")[0] if self.cluster == "opening" else task.id

    def tasks_of(self, split: Split) -> tuple[Task, ...]:
        """Return the tasks of a split."""
        return self.tasks if split == "learning" else self.held_out

    def trials_of(self, split: Split) -> int:
        """Return the number of trials of a split: held-out tasks are tried once."""
        return self.trials if split == "learning" else 1

    def played(self, arm: ArmName, split: Split = "learning") -> dict[int, dict[str, list[Tried]]]:
        """Return an arm's tries in a split, in order, by seed and task id."""
        tries: dict[int, dict[str, list[Tried]]] = {seed: {} for seed in self.seeds}
        for row in self.rows:
            if row.arm == arm and row.split == split:
                tries[row.seed].setdefault(row.task.id, []).append(row)
        return tries

    def finished(self, arm: ArmName, split: Split = "learning") -> dict[int, dict[str, list[Tried]]]:
        """Return :meth:`played` for the seeds that the arm played to the end."""
        planned = arm_of(arm).trials(self.trials_of(split))
        found = {}
        for seed, by_task in self.played(arm, split).items():
            rows = [by_task.get(task.id, []) for task in self.tasks_of(split)]
            if rows and all(each and (len(each) >= planned or each[-1].passed) for each in rows):
                found[seed] = by_task
        return found

    def passed(self, row: Tried, judge: JudgedBy) -> bool:
        """Return whether a judge passed a try."""
        return row.passed if judge == self.judged_by else bool(row.right)

    def solved(self, tries: Sequence[Tried], judge: JudgedBy) -> list[bool]:
        """Return for each trial whether a task counts as solved by then: whether its last try so far passed."""
        verdicts = [self.passed(row, judge) for row in tries]
        trials = self.trials_of(tries[0].split)
        return (verdicts + [verdicts[-1]] * trials)[:trials]

    def curve(self, arm: ArmName, *, by: JudgedBy | None = None, split: Split = "learning") -> Curve:
        """Return an arm's curve over the seeds that it finished; it has no points if it finished none.

        The curve of an arm that tries once is flat. ``by`` is the judge, by default that of the loops. For a scorer
        (``by="oracle"`` of a self-judged run), a task counts as solved at a trial if its last attempt by then is right.
        Raises :class:`ConfigurationError` if the run had no such judge.
        """
        judge, finished = self._judge(by), self.finished(arm, split)
        clusters: dict[str, list[list[bool]]] = {}
        for tries in (tries for by_task in finished.values() for tries in by_task.values()):
            clusters.setdefault(self.cluster_of(tries[0].task), []).append(self.solved(tries, judge))
        points = tuple(
            Point(
                number, clustered_share([[each[number - 1] for each in group] for group in clusters.values()])
            )
            for number in range(1, self.trials_of(split) + 1)
            if clusters
        )
        return Curve(arm, points, judge, len(finished))

    def transfer(self, arm: ArmName, *, by: JudgedBy | None = None) -> Share | None:
        """Return the share of held-out tasks that an arm solved at the first try with the lessons it had learned.

        It covers the seeds that tried all of these tasks; None if no seed did.
        """
        points = self.curve(arm, by=by, split="held-out").points
        return points[0].share if points else None

    def cost(self, arm: ArmName, *, by: JudgedBy | None = None, split: Split | None = None) -> Cost:
        """Return the cost of an arm's tries, in all or in one split; a task counts as solved once per seed."""
        judge = self._judge(by)
        rows = [row for row in self.rows if row.arm == arm and split in {None, row.split}]
        last = {(row.seed, row.split, row.task.id): row for row in rows}
        solved = sum(self.passed(row, judge) for row in last.values())
        return Cost(total(rows), sum(row.seconds for row in rows), len(rows), solved)

    def lessons(self, arm: ArmName) -> list[str]:
        """Return the texts of the lessons that an arm wrote, in order, each once."""
        return list(
            dict.fromkeys(row.lesson for row in self.rows if row.arm == arm and row.lesson is not None)
        )

    def table(self) -> str:
        """Return the learning curves as a Markdown table: the share of tasks solved so far, with 95 % intervals."""
        heads = [f"trial {trial}" for trial in range(1, self.trials + 1)]
        heads += ["held out, first try"] * bool(self.held_out)
        lines = [f"| arm | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
        for arm in self.arms:
            cells = [str(point.share) for point in self.curve(arm).points]
            cells += [NOT_FINISHED] * (self.trials - len(cells))
            if self.held_out:
                cells.append(str(self.transfer(arm) or NOT_FINISHED))
            lines.append(f"| {arm} | {' | '.join(cells)} |")
        if self.judged_by == "self":
            lines += ["", "Self-judged: what passed is what the agent's own side took for right."]
        if self.errors:
            lines += [
                "",
                f"{self.errors} of {len(self.rows)} tries ended in an error and count as not solved.",
            ]
        return "\n".join(lines)

    def _judge(self, by: JudgedBy | None) -> JudgedBy:
        judge = by or self.judged_by
        if judge not in self.judges:
            raise ConfigurationError(
                f"these results are judged by {self.judged_by} alone: there was no scorer"
            )
        return judge


def total(rows: Iterable[Tried]) -> Usage:
    """Return the total usage of tries."""
    return sum((row.usage for row in rows), NO_USAGE)
