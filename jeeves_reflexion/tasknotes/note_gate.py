"""What notes may be stored and shown: bounded, without secrets, and through the same gate as lessons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.lessons.screening.detecting import Finding, screen
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.tasknotes.values import TaskReflection

MOST_CHARACTERS: Final = 12_000
MOST_ITEMS: Final = 20
MOST_ITEM_CHARACTERS: Final = 1000
_MARGIN: Final = 1000

_Change: TypeAlias = Callable[[str, str, int], str]
"""``(field, text, most characters)`` -> the text as it may be."""


def admit(reflection: TaskReflection | None) -> tuple[TaskReflection | None, str]:
    """Let a reflection through the gate, before it is stored and before it stands in any prompt.

    Returns it without the texts that give orders to their reader (None if it had nothing else), and what was left out
    and why, in words. Characters that hide or disguise are cleaned away, and secrets. A failed reflection is only
    made storable: it is shown to nobody.
    """
    if reflection is None or not reflection.complete:
        return (None if reflection is None else storable(reflection)), ""
    refused: list[str] = []

    def change(field: str, text: str, most: int) -> str:
        text = text[: most + _MARGIN]
        if (finding := _finding(text)) is None:
            return storable_text(clean_characters(text), most)
        refused.append(f"{field} ({finding.kind}: it {finding.why})")
        return ""

    clean = _changed(reflection, change)
    texts = [
        clean.refined_description,
        clean.refined_expected_output,
        *clean.observations,
        *clean.suggestions,
    ]
    if (finding := screen(_on_one_line(" ".join(texts)))) is not None:  # an order in several pieces
        refused.append(f"all of it ({finding.kind}: it {finding.why})")
        texts = []
    return None if refused and not any(texts) else clean, "; ".join(refused)


def _finding(text: str) -> Finding | None:
    """Screen a text as it came, and as it reads where it is broken into lines."""
    folded = _on_one_line(text)
    return screen(text) or (screen(folded) if len(text.splitlines()) > 1 else None)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def storable(reflection: TaskReflection) -> TaskReflection:
    """Return a reflection without secrets, of characters that every store holds, and no longer than it may be.

    Without bounds it would grow over many runs.
    """
    return _changed(reflection, lambda _, text, most: storable_text(text, most))


def storable_text(text: str, most: int) -> str:
    """Return a text without secrets, of characters that every store holds, and of at most so many."""
    # Looked through a little beyond the cut, so that a secret there is found whole.
    text = redact(text[: most + _MARGIN])
    return text[:most].replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _changed(reflection: TaskReflection, change: _Change) -> TaskReflection:
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
