"""The two further outputs of an important reflection: a principle, and a procedure.

The dual reflection of MARS: the principle is normative and prevents, the procedure is descriptive and can be repeated.
Their wording is part of the form: a reader of files relies on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jeeves_reflexion.text import one_line, sentences

PRINCIPLE: Final = "I should follow this rule: "
PROCEDURE: Final = "These steps worked: "
RULE_CHARACTERS: Final = 500
STEPS_MOST: Final = 30
BULLET: Final = re.compile(r"^\s*(?:[-*\u2022]|\(?\d{1,3}[.)])\s+")


def sentence_problem(text: str, *, most: int = RULE_CHARACTERS) -> str | None:
    """Say why a text is not one sentence of at most ``most`` characters; None if it is."""
    stripped = text.strip()
    if not any(map(str.isalpha, stripped)):
        return "it has no words"
    if len(stripped.splitlines()) > 1:
        return f"it has {len(stripped.splitlines())} lines"
    if len(stripped) > most:
        return f"it has {len(stripped)} characters, and {most} are the most"
    number = len(sentences(stripped))
    return None if number == 1 else f"it has {number} sentences"


def principle_of(rule: str) -> str:
    """Return the principle that a rule, one sentence, makes."""
    return PRINCIPLE + one_line(_unprefixed(rule, PRINCIPLE))


def rule_of(principle: str) -> str | None:
    """Return the one sentence of a principle, or None for a text that is none."""
    rule = principle.removeprefix(PRINCIPLE)
    fits = principle.startswith(PRINCIPLE) and rule == one_line(rule) and sentence_problem(rule) is None
    return rule if fits else None


def procedure_of(steps: Sequence[str]) -> str:
    """Return the procedure that steps make: a list numbered from 1."""
    lines = [BULLET.sub("", one_line(_unprefixed(step, PROCEDURE))) for step in steps]
    return PROCEDURE + "\n".join(f"{number}. {line}" for number, line in enumerate(filter(None, lines), 1))


def procedure_in(text: str) -> str:
    """Return the procedure that a person wrote as a list, on the line of the form's words or below them."""
    steps: list[str] = []
    for line in _unprefixed(text, PROCEDURE).split("\n"):
        if BULLET.match(line) or not steps:
            steps.append(line)
        else:  # a step that goes on in the next line
            steps[-1] += f" {line}"
    return procedure_of(steps)


def steps_of(procedure: str) -> tuple[str, ...] | None:
    """Return the steps of a procedure, or None for a text that is none."""
    if not procedure.startswith(PROCEDURE):
        return None
    lines = procedure.removeprefix(PROCEDURE).split("\n")
    steps = tuple(line.removeprefix(f"{number}. ") for number, line in enumerate(lines, 1))
    numbered = all(line.startswith(f"{number}. ") for number, line in enumerate(lines, 1))
    fits = numbered and all(step and step == one_line(step) for step in steps)
    return steps if fits and len(steps) <= STEPS_MOST else None


def _unprefixed(text: str, prefix: str) -> str:
    stripped = text.strip()
    return (
        stripped[len(prefix.strip()) :] if stripped.lower().startswith(prefix.strip().lower()) else stripped
    )
