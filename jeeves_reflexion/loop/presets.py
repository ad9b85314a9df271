"""Named ways to run the loop. ``preset="structured_reflections"`` is the protocol of structured reflections.

Four attempts, so three retries; the three reflections that matter most from earlier runs; the whole chain of this
task's own reflections beside them; reflections in the four forms, without which there is neither a retry nor a next
task; and an escalation with the chain when all retries failed.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.protocols import LessonStore, Reflector
from jeeves_reflexion.reflections.library import ReflectionLibrary, chain_block, recalled_block
from jeeves_reflexion.reflections.policy import ReflectionPolicy, required_form
from jeeves_reflexion.types import Recall, Trial


class Unsaid(int):
    """A default: the number itself to whoever reads it, and told from the same number that a user wrote."""

    __slots__ = ()


DEFAULT_ATTEMPTS: Final = Unsaid(3)
DEFAULT_LESSONS: Final = Unsaid(5)


@dataclass(frozen=True, slots=True)
class Preset:
    """What a preset decides.

    ``max_attempts`` and ``top_k_lessons`` count where the user gives no number; the loop's own are 3 and 5.
    With ``chain`` each attempt sees all of the run's reflections, beside what is recalled from other
    runs. With ``structured`` reflections are forms, and mandatory where the protocol says so. With ``escalates`` a run
    whose last attempt failed says so with its reflections.
    """

    name: str = ""
    max_attempts: int = 3
    top_k_lessons: int = 5
    structured: bool = False
    chain: bool = False
    escalates: bool = False

    def attempts(self, given: int) -> int:
        """Return how often a task is tried: ``given``, unless that is a default that nobody wrote."""
        return self.max_attempts if isinstance(given, Unsaid) else given

    def lessons(self, given: int) -> int:
        """Return how many lessons are recalled: ``given``, unless that is a default that nobody wrote."""
        return self.top_k_lessons if isinstance(given, Unsaid) else given

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
        if not self.chain:
            return block
        # Without a store: the block of the first attempt, as the run's own lessons stand in the chain.
        whole = history[0].block if history else block
        base = whole if recall is None else recalled_block(recall)
        return "\n\n".join(filter(None, (base, chain_block(history))))


STRUCTURED_REFLECTIONS: Final = "structured_reflections"
_STRUCTURED: Final = Preset(STRUCTURED_REFLECTIONS, 4, 3, structured=True, chain=True, escalates=True)


def preset_of(name: str | None) -> Preset:
    """Return the preset of a name, or the loop's own ways for None; raises :class:`ConfigurationError`."""
    if name is None:
        return Preset()
    if name == "seed002":
        warnings.warn(f'preset="seed002" is now {STRUCTURED_REFLECTIONS!r}', DeprecationWarning, stacklevel=3)
    elif name != STRUCTURED_REFLECTIONS:
        raise ConfigurationError(f"preset must be {STRUCTURED_REFLECTIONS!r} or None, not {name!r}")
    return _STRUCTURED
