"""Named ways to run the loop. ``preset="structured_reflections"`` is the protocol of structured reflections.

Four attempts, so three retries; the three reflections that matter most from earlier runs; the whole chain of this
task's own reflections beside them; reflections in the four forms, without which there is neither a retry nor a next
task; and an escalation with the chain when all retries failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.protocols import LessonStore, Reflector
from jeeves_reflexion.reflections.library import ReflectionLibrary, chain_block, recalled_block
from jeeves_reflexion.reflections.policy import ReflectionPolicy, required_form
from jeeves_reflexion.types import Recall, Trial


@dataclass(frozen=True, slots=True)
class Preset:
    """What a preset decides; ``max_attempts`` and ``top_k_lessons`` count where the user gives no number.

    With ``structured`` reflections are forms, and mandatory where the protocol says so; each attempt sees all of the
    run's, beside what is recalled from other runs; and a run whose last attempt failed is escalated with them.
    """

    name: str = ""
    max_attempts: int = 3
    top_k_lessons: int = 5
    structured: bool = False

    def required(self, reflector: Reflector) -> Reflector:
        """Return the reflector as the loop asks it: a form that it begins is to be filled in."""
        return required_form(reflector, mandatory=self.structured)

    def waits(self, trial: Trial) -> bool:
        """Whether a trial has no reflection and the next attempt must not begin before it has."""
        return self.structured and trial.evaluation.scored and trial.reflection is None

    def policy(self, lessons: LessonStore | None) -> ReflectionPolicy | None:
        """Return what says whether an agent may take a task: the policy of the library, if lessons are one."""
        return lessons.policy if self.structured and isinstance(lessons, ReflectionLibrary) else None

    def block(self, block: str, recall: Recall | None, history: Sequence[Trial]) -> str:
        """Return the lessons as the agent sees them: what was recalled, then the chain.

        ``block`` is what it would see otherwise.
        """
        if not self.structured:
            return block
        # Without a store: the block of the first attempt, as the run's own lessons stand in the chain.
        whole = history[0].block if history else block
        base = whole if recall is None else recalled_block(recall)
        return "\n\n".join(filter(None, (base, chain_block(history))))


_STRUCTURED: Final = Preset("structured_reflections", 4, 3, structured=True)


def preset_of(name: str | None) -> Preset:
    """Return the preset of a name, or the loop's own ways for None; raises :class:`ConfigurationError`."""
    if name is None:
        return Preset()
    if name != _STRUCTURED.name:
        raise ConfigurationError(f"preset must be {_STRUCTURED.name!r} or None, not {name!r}")
    return _STRUCTURED
