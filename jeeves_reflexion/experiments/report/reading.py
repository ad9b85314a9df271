"""What a report needs of an experiment's results: the one module here that knows how results are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jeeves_reflexion.experiments.arms import ArmName, arm_of
from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.results import Results, Split, Tried
from jeeves_reflexion.types import Task


@dataclass(frozen=True, slots=True)
class Played:
    """All tries of one task by one arm with one seed, in order; there is at least one."""

    arm: ArmName
    seed: int
    task: Task
    split: Split
    tries: tuple[Tried, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """An experiment, its tries sorted by task.

    ``judges`` are those that said of every try whether it is right: of the loops first, then the scorer beside it.
    ``played`` holds each task's tries under arm, seed and split, by task id.
    """

    arms: tuple[ArmName, ...]
    seeds: tuple[int, ...]
    trials: int
    tasks: tuple[Task, ...]
    held_out: tuple[Task, ...]
    judges: tuple[JudgedBy, ...]
    interrupted: str
    played: Mapping[tuple[ArmName, int, Split], Mapping[str, Played]]

    @property
    def splits(self) -> tuple[Split, ...]:
        """The parts that the tasks fall into."""
        return ("learning", "held-out") if self.held_out else ("learning",)

    def tasks_of(self, split: Split) -> tuple[Task, ...]:
        """Return the tasks of a part."""
        return self.tasks if split == "learning" else self.held_out

    def trials_of(self, split: Split) -> int:
        """Return how many trials a part has: held-out tasks are tried once."""
        return self.trials if split == "learning" else 1

    def all_played(self, arm: ArmName, split: Split) -> list[Played]:
        """Return what an arm played of a part, with all seeds."""
        return [each for seed in self.seeds for each in self.played.get((arm, seed, split), {}).values()]

    def finished(self, arm: ArmName, split: Split) -> tuple[int, ...]:
        """Return the seeds that an arm played to their end."""
        planned = arm_of(arm).trials(self.trials_of(split))
        return tuple(seed for seed in self.seeds if self._whole(arm, seed, split, planned))

    def solved(self, played: Played, judge: JudgedBy) -> tuple[bool, ...]:
        """Say of each trial whether the task counts as solved by then: whether its last attempt so far is right."""
        verdicts = [self.right(row, judge) for row in played.tries]
        trials = self.trials_of(played.split)
        return tuple((verdicts + [verdicts[-1]] * trials)[:trials])

    def right(self, row: Tried, judge: JudgedBy) -> bool:
        """Say whether a try is right in the eyes of a judge."""
        if judge == self.judges[0]:
            return row.trial.passed
        return row.scored is not None and bool(row.scored.passed)

    def _whole(self, arm: ArmName, seed: int, split: Split, planned: int) -> bool:
        played = self.played.get((arm, seed, split), {})
        tasks = self.tasks_of(split)
        return bool(tasks) and all(
            task.id in played
            and (len(played[task.id].tries) >= planned or played[task.id].tries[-1].trial.passed)
            for task in tasks
        )


def read(results: Results) -> Run:
    """Return the results as a report needs them."""
    tries: dict[tuple[ArmName, int, Split], dict[str, list[Tried]]] = {}
    for row in results.rows:
        tries.setdefault((row.arm, row.seed, row.split), {}).setdefault(row.task.id, []).append(row)
    played = {
        key: {
            task_id: Played(key[0], key[1], rows[0].task, key[2], tuple(rows))
            for task_id, rows in by_task.items()
        }
        for key, by_task in tries.items()
    }
    both = results.scored and results.judged_by == "self"
    judges: tuple[JudgedBy, ...] = ("self", "oracle") if both else (results.judged_by,)
    return Run(
        results.arms,
        results.seeds,
        results.trials,
        results.tasks,
        results.held_out,
        judges,
        results.interrupted,
        played,
    )
