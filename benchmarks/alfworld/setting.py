"""The setting of one run of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.cli.bench_options import cores

from ..runs import RunSetting

STEP_LIMIT = 16
"""Commands per attempt of the offline player. Chosen so that the first trial solves about half of the games, on games
of other seeds than those in the results."""

MODEL_STEP_LIMIT = 50
"""Turns per attempt of a language model, as in the paper."""

NAMESPACE = "alfworld"
"""The namespace of the selective arm's lessons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(RunSetting):
    """The setting of one run.

    ``lessons`` is a folder of lessons to start from and to add to. A database for this run's lessons is in ``runs_on``.
    """

    games_folder: Path | None = None
    made_games: Path = Path("runs/games")
    count: int | None = None
    game_seed: int = 0
    step_limit: int = STEP_LIMIT
    lessons: Path | None = None
    repeats: int | None = None

    def __post_init__(self) -> None:
        RunSetting.__post_init__(self)
        if self.lessons is not None and self.runs_on.lessons is not None:
            raise ConfigurationError("lessons are in a folder or in a database: name only one of them")

    @property
    def workers_here(self) -> int:
        """How many games this machine plays at a time; if Ray plays them, at most one for each core here."""
        return self.plan.workers if self.runs_on.ray is None else min(self.plan.workers, cores())
