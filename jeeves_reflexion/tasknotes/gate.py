"""The gate of task notes, before they are stored and before they stand in a prompt: the lessons' own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from jeeves_reflexion.lessons.gate import uncovered
from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.lessons.screening.rules import screen
from jeeves_reflexion.tasknotes.values import TaskReflection

MOST_CHARACTERS: Final = 12_000
MOST_ITEMS: Final = 20
MOST_ITEM_CHARACTERS: Final = 1000
_MARGIN: Final = 1000
"""Texts are looked through a little beyond their cut, so that a secret there is found whole."""


def admit(reflection: TaskReflection | None) -> tuple[TaskReflection | None, str]:
    """Let a reflection through the gate.

    Returns it without the texts that give orders to their reader (None if it had nothing else), and what was left out
    and why, in words. Characters that hide or disguise are cleaned away, and secrets. A failed reflection is only
    made storable: it is shown to nobody.
    """
    if reflection is None or not reflection.complete:
        return (None if reflection is None else storable(reflection)), ""
    refused: list[str] = []

    def change(field: str, text: str, most: int) -> str:
        text = text[: most + _MARGIN]
        # As it came, and as it reads where an order is broken into lines.
        for reading in dict.fromkeys((text, " ".join(text.split()))):
            if (finding := screen(reading)) is not None:
                refused.append(f"{field} ({finding.kind}: it {finding.why})")
                return ""
        return storable_text(clean_characters(text), most)

    clean = _changed(reflection, change)
    texts = clean.texts
    if (finding := screen(" ".join(" ".join(texts).split()))) is not None:  # an order in several pieces
        refused.append(f"all of it ({finding.kind}: it {finding.why})")
        texts = ()
    return None if refused and not any(texts) else clean, "; ".join(refused)


def storable(reflection: TaskReflection) -> TaskReflection:
    """Return a reflection without secrets, of characters that every store holds, and no longer than it may be.

    Without bounds it would grow over many runs.
    """
    return _changed(reflection, lambda _, text, most: storable_text(text, most))


def storable_text(text: str, most: int) -> str:
    """Return a text without secrets, of characters that every store holds, and of at most so many."""
    text = uncovered(text[: most + _MARGIN])
    return text[:most].replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _changed(reflection: TaskReflection, change: Callable[[str, str, int], str]) -> TaskReflection:
    """Return a reflection of what ``change`` makes of each field's name, text and most characters."""

    def items(field: str, texts: tuple[str, ...]) -> tuple[str, ...]:
        changed = ((text, change(field, text, MOST_ITEM_CHARACTERS)) for text in texts[:MOST_ITEMS])
        return tuple(new for text, new in changed if new or not text)

    failure = reflection.failure
    return replace(
        reflection,
        refined_description=change("refined_description", reflection.refined_description, MOST_CHARACTERS),
        refined_expected_output=change(
            "refined_expected_output", reflection.refined_expected_output, MOST_CHARACTERS
        ),
        observations=items("observations", reflection.observations),
        suggestions=items("suggestions", reflection.suggestions),
        failure=None if failure is None else change("failure", failure, MOST_ITEM_CHARACTERS),
    )
