"""What an experiment does: which arms, how many trials, which seeds, how many tasks at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import ArmName, arm_of

JudgedBy: TypeAlias = Literal["oracle", "self"]
"""Who decides that an attempt passed: one who has the gold answer, or the agent's own side without it."""

OnStop: TypeAlias = Literal["store", "wait"]
"""What becomes of the lessons of a round that is cut short: they are stored at once, or wait in the journal."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A design: all arms see the same tasks, trials and seeds; ``workers`` change no result.

    ``holdout`` is the share of tasks that lessons are not learned from; ``split_seed`` draws them
    (:func:`~jeeves_reflexion.experiments.splitting.split`). ``judged_by`` says what the evaluator of the loops is.
    ``max_cost_usd`` stops the whole run when so much is spent, in a state to resume from. With ``on_stop="store"`` the
    lessons of a round that is cancelled are there whatever becomes of the run; with ``"wait"`` a resumed run comes to
    exactly the results of one that was never stopped.
    """

    arms: tuple[ArmName, ...] = ("retry", "selective")
    trials: int = 4
    seeds: tuple[int, ...] = (0,)
    workers: int = 2
    k: int = 5
    holdout: float = 0.0
    split_seed: int = 0
    judged_by: JudgedBy = "oracle"
    max_cost_usd: float | None = None
    on_stop: OnStop = "store"

    def __post_init__(self) -> None:
        if not self.arms:
            raise ConfigurationError("a plan needs an arm")
        for arm in self.arms:
            arm_of(arm)
        if len(set(self.arms)) != len(self.arms) or len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            raise ConfigurationError("arms and seeds must each be named once, and there must be a seed")
        for name in ("trials", "workers", "k"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0.0 <= self.holdout < 1.0:
            raise ConfigurationError(f"holdout must lie in [0, 1), not {self.holdout}")
        if self.judged_by not in get_args(JudgedBy):
            raise ConfigurationError(f"judged_by must be oracle or self, not {self.judged_by!r}")
        if self.on_stop not in get_args(OnStop):
            raise ConfigurationError(f"on_stop must be store or wait, not {self.on_stop!r}")
        if self.max_cost_usd is not None and not self.max_cost_usd > 0:
            raise ConfigurationError(f"max_cost_usd must be above 0 or None, not {self.max_cost_usd}")
