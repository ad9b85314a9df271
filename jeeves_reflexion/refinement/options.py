"""Options of the inner loop, and the hooks that watch a run or override its decisions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

from jeeves_reflexion.drafts import Draft, Selection
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.protocols import Evaluator
from jeeves_reflexion.refinement.convergence import Convergence
from jeeves_reflexion.refinement.critics import StepCritic, Triggers
from jeeves_reflexion.types import Evaluation, Task
from jeeves_reflexion.values import checked_settings

Base: TypeAlias = Literal["best", "latest"]
"""Which draft is revised: the best so far (the latest of equals), or the latest whatever its score."""

DropCritic: TypeAlias = Callable[[Task, str, str], Awaitable[Evaluation]]
"""Compares a draft that scored lower with the one before it: ``(task, new, old)``; the issues are what was lost."""


class Decision(Enum):
    """What a hook decides after a draft was judged.

    ``AUTO`` leaves it to the loop. ``CONTINUE`` goes on even if the loop would stop, within its bounds. ``ACCEPT`` ends
    the run with this draft as the best, ``STOP`` ends it with the best that the loop selects.
    """

    AUTO = "auto"
    CONTINUE = "continue"
    ACCEPT = "accept"
    STOP = "stop"


class Hooks:
    """Callbacks during a run. A callback that raises is reported, and the run goes on."""

    async def on_generation(self, output: str, iteration: int) -> None:
        """Called after each draft is written, revised ones included."""

    async def on_judged(self, draft: Draft) -> Decision:
        """Called after each verdict; may override whether to go on."""
        return Decision.AUTO

    async def on_revision(self, old_output: str, new_output: str, iteration: int) -> None:
        """Called after each revision; ``iteration`` is that of the new output."""


@runtime_checkable
class ComparesWithPrior(Protocol):
    """An evaluator that can compare a draft with the one that it was revised from."""

    def with_prior(self, text: str | None) -> Evaluator:
        """Return an evaluator that compares with an earlier text."""
        ...


@dataclass(frozen=True, slots=True)
@checked_settings
class RefinementOptions:
    """Options of the inner loop.

    With ``convergence=None`` only verdicts and bounds end a run. ``base`` is the draft that the reviser gets: "best"
    undoes a loss, "latest" suits a reviser that continues its own last work. ``max_revision_tokens`` bounds the tokens
    of all revisions of a run together. ``timeout`` is in seconds, for each evaluation, revision and hook.
    ``drop_critic`` and ``step_critic`` make the reflections that ``triggers`` ask for.
    """

    convergence: Convergence | None = field(default_factory=Convergence)
    selection: Selection = "highest_score"
    base: Base = "best"
    triggers: Triggers = field(default_factory=Triggers)
    max_revision_tokens: int | None = None
    timeout: float = 300.0
    hooks: Hooks = field(default_factory=Hooks)
    step_critic: StepCritic | None = None
    drop_critic: DropCritic | None = None

    def __post_init__(self) -> None:
        if self.selection not in get_args(Selection):
            known = ", ".join(get_args(Selection))
            raise ConfigurationError(f"best_version_selection must be one of {known}, not {self.selection!r}")
        if self.base not in get_args(Base):
            raise ConfigurationError(f"base must be one of {', '.join(get_args(Base))}, not {self.base!r}")
        if self.max_revision_tokens is not None and self.max_revision_tokens < 1:
            raise ConfigurationError(
                f"max_revision_tokens must be at least 1, not {self.max_revision_tokens!r}"
            )
        if not self.timeout > 0:
            raise ConfigurationError(f"timeout must be above 0 seconds, not {self.timeout!r}")
        if self.triggers.any_step and self.step_critic is None:
            raise ConfigurationError("triggers on steps need a step_critic, such as ModelStepCritic(model)")
        if self.triggers.quality_drop is not None and self.drop_critic is None:
            raise ConfigurationError("the trigger quality_drop needs a drop_critic, such as a Comparison")
