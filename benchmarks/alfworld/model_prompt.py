"""The prompt of a language model before a game: the rules, two examples of the task's type, and the lessons."""

from __future__ import annotations

import functools
from importlib import resources

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.text import LESSONS_NOTE, fence

from .dialect import Dialect, in_dialect
from .games import KINDS

EXAMPLES = 2
"""Examples per type of task, as in ReAct (Yao et al. 2023) and Reflexion (Shinn et al. 2023, section 4.1)."""


@functools.cache
def rules(dialect: Dialect) -> str:
    """Return the rules of the game and the form of answers."""
    return in_dialect(_text("player.md"), dialect)


@functools.cache
def examples(kind: str, dialect: Dialect) -> tuple[str, ...]:
    """Return the examples of a type of task: games of seed 4101, each played to its end in the engine.

    Raises :class:`~jeeves_reflexion.ConfigurationError` if ``kind`` is none of ALFWorld's six types.
    """
    if kind not in KINDS:
        raise ConfigurationError(
            f"there are no examples for tasks of the type {kind!r}; the types are {', '.join(KINDS)}"
        )
    return tuple(
        in_dialect(without_comments(_text(f"examples/{kind}_{number}.txt")), dialect)
        for number in range(1, EXAMPLES + 1)
    )


def system_prompt(kind: str | None, dialect: Dialect, lessons: str) -> str:
    """Return the whole prompt: the rules, the examples of the type (if it is known), and the lessons (if any)."""
    parts = [rules(dialect)]
    if kind is not None:
        shown = examples(kind, dialect)
        parts += [f"Example {number} of {len(shown)}:\n{text}" for number, text in enumerate(shown, 1)]
    if lessons:
        parts.append(fence("lessons", lessons, note=LESSONS_NOTE))
    return "\n\n".join(parts)


def without_comments(text: str) -> str:
    """Remove the lines that begin with ``#``, which say where an example comes from."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("#")).strip()


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(f"prompts/{name}").read_text(encoding="utf-8").strip()
