"""Presets of the loop. ``preset="structured_reflections"`` is the protocol of structured reflections.

It makes four attempts, that is three retries. Each attempt sees the three most relevant reflections from earlier runs
and all of this task's own. Reflections have four forms, and without one there is no retry and no next task. If all
retries fail, the run is escalated with its reflections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.reflections.library import chain_block, recalled_block
from jeeves_reflexion.types import Recall, Trial


@dataclass(frozen=True, slots=True)
class Preset:
    """The settings of a preset; ``max_attempts`` and ``top_k_lessons`` are defaults.

    If ``structured``, reflections are forms, which are mandatory where the protocol says so. Each attempt sees all
    reflections of its run beside those recalled from other runs, and a run whose last attempt failed is escalated.
    """

    name: str = ""
    max_attempts: int = 3
    top_k_lessons: int = 5
    structured: bool = False

    def block(self, block: str, recall: Recall | None, history: Sequence[Trial]) -> str:
        """Return the lessons as the agent sees them: those recalled, then the reflections of this run.

        ``block`` is what the agent would see without a preset.
        """
        if not self.structured:
            return block
        # Without a store, take the first attempt's block: later ones repeat the run's own lessons.
        whole = history[0].block if history else block
        base = whole if recall is None else recalled_block(recall)
        return "\n\n".join(filter(None, (base, chain_block(history))))


_STRUCTURED: Final = Preset("structured_reflections", 4, 3, structured=True)


def preset_of(name: str | None) -> Preset:
    """Return the preset with a name, or the defaults for None; raises :class:`ConfigurationError`."""
    if name is None:
        return Preset()
    if name != _STRUCTURED.name:
        raise ConfigurationError(f"preset must be {_STRUCTURED.name!r} or None, not {name!r}")
    return _STRUCTURED
