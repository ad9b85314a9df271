"""What came of an experiment: one row a try, and the learning curve with its intervals."""

from __future__ import annotations

from dataclasses import dataclass, field

from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.statistics import Share, wilson
from jeeves_reflexion.types import JSON, Task, Trial


@dataclass(frozen=True, slots=True)
class Tried:
    """One try of one task: which arm and seed, and the trial itself."""

    arm: ArmName
    seed: int
    task: Task
    trial: Trial

    def as_json(self) -> dict[str, JSON]:
        """Return the row as JSON, without prompt or trajectory."""
        trial = self.trial
        usage: dict[str, JSON] = {
            role: {"calls": u.calls, "input_tokens": u.input_tokens, "output_tokens": u.output_tokens}
            for role, u in trial.usage.items()
        }
        return {
            "arm": self.arm,
            "seed": self.seed,
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
        }


@dataclass(frozen=True, slots=True)
class Point:
    """Tasks solved up to and including a trial."""

    trial: int
    share: Share


@dataclass(frozen=True, slots=True)
class Curve:
    """An arm's learning curve, cumulative over trials, its seeds pooled."""

    arm: ArmName
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """A task that failed, the lessons recalled for it afterwards, and the try that then succeeded."""

    task: Task
    failed: Trial
    solved: Trial
    arm: ArmName


@dataclass(slots=True)
class Results:
    """The rows of an experiment; grows as it runs."""

    tasks: tuple[Task, ...]
    arms: tuple[ArmName, ...]
    seeds: tuple[int, ...]
    trials: int
    rows: list[Tried] = field(default_factory=list)
    interrupted: str = ""

    def history(self, arm: ArmName, seed: int, task: Task) -> list[Trial]:
        """Return the trials of one task so far, in order."""
        return [r.trial for r in self.rows if r.arm == arm and r.seed == seed and r.task.id == task.id]

    def curve(self, arm: ArmName) -> Curve:
        """Return an arm's curve over the seeds that it finished; without points where it finished none."""
        done = {seed: self._solved_at(arm, seed) for seed in self.seeds}
        finished = {seed: solved for seed, solved in done.items() if solved is not None}
        if not finished:
            return Curve(arm, ())
        n = len(self.tasks) * len(finished)
        points = []
        for trial in range(1, self.trials + 1):
            solved = sum(at <= trial for seed in finished.values() for at in seed)
            points.append(Point(trial, wilson(solved, n)))
        return Curve(arm, tuple(points))

    def _solved_at(self, arm: ArmName, seed: int) -> list[int] | None:
        """The trial in which each solved task was solved; None where the seed was not played to its end."""
        rows = [row for row in self.rows if row.arm == arm and row.seed == seed]
        solved = {row.task.id: row.trial.number for row in rows if row.trial.passed}
        tried = {row.task.id: 0 for row in rows}
        for row in rows:
            tried[row.task.id] = max(tried[row.task.id], row.trial.number)
        complete = all(task.id in solved or tried.get(task.id) == self.trials for task in self.tasks)
        return list(solved.values()) if complete else None

    def stories(self, arm: ArmName) -> list[Story]:
        """Return the tasks that failed and were solved right after lessons were recalled, quickest success first."""
        last: dict[tuple[int, str], Trial] = {}
        stories = []
        for row in (row for row in self.rows if row.arm == arm):
            key = (row.seed, row.task.id)
            if row.trial.passed and key in last and row.trial.recall and row.trial.recall.offered:
                stories.append(Story(row.task, last[key], row.trial, arm))
            last[key] = row.trial
        return sorted(stories, key=lambda story: len(story.solved.attempt.steps))

    @property
    def errors(self) -> int:
        """How many tries ended in an error; they count as not solved."""
        return sum(row.trial.attempt.error is not None for row in self.rows)

    def lessons(self, arm: ArmName) -> list[str]:
        """Return the lessons that an arm wrote, in order, each once."""
        texts = (row.trial.reflection.lesson for row in self.rows if row.arm == arm and row.trial.reflection)
        return list(dict.fromkeys(texts))

    def table(self) -> str:
        """Return the learning curves as a Markdown table: solved of all so far, with 95 % intervals."""
        heads = [f"trial {trial}" for trial in range(1, self.trials + 1)]
        lines = [f"| arm | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
        for arm in self.arms:
            cells = [
                f"{s.successes}/{s.n} = {s.value:.0%} ({s.low:.0%} to {s.high:.0%})"
                for s in (point.share for point in self.curve(arm).points)
            ]
            cells += ["not finished"] * (len(heads) - len(cells))
            lines.append(f"| {arm} | {' | '.join(cells)} |")
        if self.errors:
            lines += [
                "",
                f"{self.errors} of {len(self.rows)} tries ended in an error and count as not solved.",
            ]
        return "\n".join(lines)
