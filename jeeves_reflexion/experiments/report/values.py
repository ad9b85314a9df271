"""The figures of a report. Plain values: whatever shows them, counts nothing."""

from __future__ import annotations

from dataclasses import dataclass

from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.comparisons import PairedDifference
from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.results import Point, Split
from jeeves_reflexion.types import Lift


@dataclass(frozen=True, slots=True)
class Success:
    """An arm's success by trial, its finished seeds pooled; no points where it finished none."""

    arm: ArmName
    seeds: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """An arm held against the baseline at one trial, over the tasks of the ``seeds`` that both finished.

    ``p_holm`` is the p of the sign-flip test, adjusted for all comparisons of its table (Holm 1979). ``words`` say what
    the comparison shows.
    """

    arm: ArmName
    baseline: ArmName
    trial: int
    seeds: int
    difference: PairedDifference
    p_holm: float
    words: str


@dataclass(frozen=True, slots=True)
class Reliability:
    """The chance that one of ``k`` runs with other seeds solves a task (``any``), and that all do (``every``).

    Means over tasks, at the last trial.
    """

    arm: ArmName
    k: int
    seeds: int
    any: float
    every: float


@dataclass(frozen=True, slots=True)
class Spent:
    """What an arm used for a part of the tasks, and how many it ``solved`` of those it ``played``, each seed counted.

    ``tokens`` and ``cost_usd`` are None where unknown: no call of a model was told, or one came without its counts or
    its price. ``tokens_by_trial`` holds the mean number of tokens that a task of a finished seed had
    used by the end of each trial.
    """

    arm: ArmName
    tries: int
    played: int
    solved: int
    seconds: float
    tokens: int | None
    cost_usd: float | None
    tokens_by_trial: tuple[float, ...] | None

    def per_solved(self, amount: float | None) -> float | None:
        """Return an amount for each task solved; None where it is unknown, or nothing was solved."""
        return None if amount is None or not self.solved else amount / self.solved


@dataclass(frozen=True, slots=True)
class Part:
    """The figures of one part of the tasks (learned from, or held out) in the eyes of one judge."""

    judge: JudgedBy
    split: Split
    tasks: int
    trials: int
    success: tuple[Success, ...]
    compared: tuple[Compared, ...]
    reliability: tuple[Reliability, ...]
    spent: tuple[Spent, ...]


@dataclass(frozen=True, slots=True)
class LessonUse:
    """A lesson: how often it was offered, how often the try then passed, and its lift as last known.

    The share that passed says nothing of what the lesson did: it was offered where it seemed to fit. ``lift`` does,
    since it compares with tries that it was withheld from by chance; None where that was never done.
    """

    arm: ArmName
    text: str
    offered: int
    passed: int
    lift: Lift | None

    @property
    def value(self) -> float | None:
        """Its lift in score; None where it is not known."""
        return None if self.lift is None else self.lift.value

    @property
    def lift_text(self) -> str:
        """Its lift as a page shows it."""
        return "unknown" if self.value is None else f"{self.value:+.2f}"


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of an experiment. ``parts`` keeps judges apart, and held-out tasks apart from the others.

    ``unit`` is what a task is called.
    """

    title: str
    arms: tuple[ArmName, ...]
    baseline: ArmName
    seeds: tuple[int, ...]
    trials: int
    judges: tuple[JudgedBy, ...]
    learning_tasks: int
    held_out_tasks: int
    tries: int
    errors: int
    unscored: int
    interrupted: str
    parts: tuple[Part, ...]
    lessons: tuple[LessonUse, ...]
    unit: str = "task"

    def beside(self, arm: ArmName) -> float:
        """Return how far an arm's curve is drawn beside its trials, so that arms alike don't hide each other."""
        return (self.arms.index(arm) - (len(self.arms) - 1) / 2) * min(0.04, 0.2 / len(self.arms))
