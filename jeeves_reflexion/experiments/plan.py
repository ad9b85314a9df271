"""What an experiment does: which arms, how many trials, which seeds, how many tasks at a time."""

from __future__ import annotations

from dataclasses import dataclass

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import ARMS, ArmName


@dataclass(frozen=True, slots=True)
class Plan:
    """A design: all arms see the same tasks, trials and seeds; ``workers`` change no result."""

    arms: tuple[ArmName, ...] = ("retry", "selective")
    trials: int = 4
    seeds: tuple[int, ...] = (0,)
    workers: int = 2
    k: int = 5

    def __post_init__(self) -> None:
        unknown = [arm for arm in self.arms if arm not in ARMS]
        if unknown or not self.arms:
            raise ConfigurationError(f"unknown arms {unknown}: choose from {', '.join(ARMS)}")
        if len(set(self.arms)) != len(self.arms) or len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            raise ConfigurationError("arms and seeds must each be named once, and there must be a seed")
        for name in ("trials", "workers", "k"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, not {getattr(self, name)}")
