"""What one run of the benchmark plays, and with what."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from jeeves_reflexion import ChatModel, ConfigurationError, LessonSettings
from jeeves_reflexion.cli.bench_options import cores
from jeeves_reflexion.experiments import Expected, Plan
from jeeves_reflexion.experiments.location import RunLocation
from jeeves_reflexion.models import Prices
from vectorstores import Embedder

STEP_LIMIT = 16
"""Commands per attempt of the offline player, chosen on games of other seeds than those reported so that the first
trial solves about half."""

MODEL_STEP_LIMIT = 50
"""Turns per attempt of a language model, as in the paper."""

NAMESPACE = "alfworld"
"""The namespace of the selective arm's lessons, which outlive the run where a place is named for them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What one run plays, and with what.

    ``free_thoughts`` lets a model think without taking a turn for it. ``prices`` and ``expected`` are for the estimate
    of what a run with a model costs. ``lessons`` is a folder to start from and to leave behind; a database for the
    run's lessons alone is in ``runs_on``, which says where the games are played.
    """

    plan: Plan
    out: Path
    embedder: Embedder
    games_folder: Path | None = None
    made_games: Path = Path("runs/games")
    count: int | None = None
    game_seed: int = 0
    step_limit: int = STEP_LIMIT
    lessons: Path | None = None
    model: ChatModel | None = None
    resume: bool = False
    repeats: int | None = None
    show_commands: bool = False
    free_thoughts: bool = False
    prices: Prices | None = None
    expected: Expected | None = None
    settings: LessonSettings = field(default_factory=LessonSettings)
    runs_on: RunLocation = field(default_factory=RunLocation)

    def __post_init__(self) -> None:
        self.runs_on.check(self.plan.arms)
        if self.lessons is not None and self.runs_on.lessons is not None:
            raise ConfigurationError("lessons are in a folder or in a database: name one of them")

    @property
    def workers_here(self) -> int:
        """How many games this machine plays at a time; where Ray plays them, no more than it has cores for."""
        return self.plan.workers if self.runs_on.ray is None else min(self.plan.workers, cores())
