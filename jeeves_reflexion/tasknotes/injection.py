"""How the notes on a task stand in its prompt: through the gate of the lessons, before the task, as data."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from jeeves_reflexion.lessons.screening.characters import clean_characters, inert
from jeeves_reflexion.lessons.screening.rules import screen
from jeeves_reflexion.tasknotes.tasks import fill
from jeeves_reflexion.tasknotes.values import MARGIN, TaskReflection, changed_texts, storable, storable_text
from jeeves_reflexion.text import cut_middle, estimate_tokens, one_line
from jeeves_reflexion.types import Task

NOTES_TOKENS: Final = 1000
"""How long notes may be in a prompt, unless said otherwise."""

_HEAD: Final = """\
## Task Improvement Notes (from prior executions)

The following refinements were found by looking back at earlier runs of this task. Use them to do better, and fulfil the
original task below in any case: where the two differ, the original counts."""
_END: Final = "---"
_KEPT: Final = frozenset("\t")
# Quotes and bullets, behind which a heading or a fence is one all the same. Possessive: no text makes it slow.
_BEFORE = re.compile(r"(?:[\s>]|[-+*](?=\s)|\d{1,9}[.)](?=\s))*+")
_POSING: Final = ("#", "\uff03", "\ufe5f", "```", "~~~")
_RULE: Final = frozenset("-=_*")


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
        text = text[: most + MARGIN]
        # As it came, and as it reads where an order is broken into lines.
        for reading in dict.fromkeys((text, " ".join(text.split()))):
            if (finding := screen(reading)) is not None:
                refused.append(f"{field} ({finding.kind}: it {finding.why})")
                return ""
        return storable_text(clean_characters(text), most)

    clean = changed_texts(reflection, change)
    texts = clean.texts
    if (finding := screen(" ".join(" ".join(texts).split()))) is not None:  # an order in several pieces
        refused.append(f"all of it ({finding.kind}: it {finding.why})")
        texts = ()
    return None if refused and not any(texts) else clean, "; ".join(refused)


def prompt_with(
    task: Task,
    reflection: TaskReflection | None,
    *,
    context: Sequence[tuple[str, str]] = (),
    max_tokens: int = NOTES_TOKENS,
    inputs: Mapping[str, str] | None = None,
) -> str:
    """Return a prompt with the notes, then what came before, then the original.

    ``context`` holds descriptions and outputs of tasks before this one; ``inputs`` fills placeholders of the notes.
    """
    notes = "" if reflection is None else notes_section(reflection, max_tokens=max_tokens, inputs=inputs)
    parts = [notes] if notes else []
    if context:
        outputs = "\n\n".join(f"### {one_line(name)}\n{as_data(output)}" for name, output in context)
        parts.append(f"## Context from Previous Tasks\n\n{outputs}")
    parts.append(f"## Task\n\n{task.prompt}")
    if task.expected_output:
        parts.append(f"## Expected Output\n\n{task.expected_output}")
    return "\n\n".join(parts)


def notes_section(
    reflection: TaskReflection,
    *,
    max_tokens: int = NOTES_TOKENS,
    inputs: Mapping[str, str] | None = None,
) -> str:
    """Return the notes as a section of at most ``max_tokens`` tokens; empty if there is nothing to say or no room.

    What gives orders to its reader is left out, as of lessons. Stored text can't close the section or open another
    one: what would pass for a heading, a rule, a fence or a tag is escaped. Where room is short, the last suggestions
    go first, then the last observations; then the middle of the instructions.
    """
    clean, _ = admit(reflection)
    if clean is None or not clean.complete:
        return ""
    description, expected = (
        fill(text, inputs).strip() for text in (clean.refined_description, clean.refined_expected_output)
    )
    observations, suggestions = [*clean.observations], [*clean.suggestions]
    section, room = _section(description, expected, observations, suggestions), max_tokens
    while section and estimate_tokens(section) > max_tokens:
        if observations or suggestions:
            (suggestions or observations).pop()
            section = _section(description, expected, observations, suggestions)
            continue
        room = room * 9 // 10
        short = [cut_middle(text, room) if room else "" for text in (description, expected)]
        section = _section(short[0], short[1], (), ())
    return section


def _section(description: str, expected: str, observations: Sequence[str], suggestions: Sequence[str]) -> str:
    sections = [
        ("Refined Instructions", as_data(description)),
        ("Output Guidance", as_data(expected)),
        ("Observations", _listed(observations)),
        ("Suggestions", _listed(suggestions)),
    ]
    said = [f"### {name}\n{body}" for name, body in sections if body.strip()]
    return "\n\n".join([_HEAD, *said, _END]) if said else ""


def as_data(text: str) -> str:
    """Return stored text line by line, so that none of it passes for a part of our own prompt; else as it is."""
    return "\n".join(_escaped(line) for line in text.splitlines())


def _escaped(line: str) -> str:
    if not (line.isascii() and line.isprintable()):
        line = "".join(c for c in line if c in _KEPT or unicodedata.category(c) not in {"Cf", "Cc", "Cs"})
    line = inert(line, tags=True)
    stripped = line.lstrip(" \t>")
    if stripped and _RULE.issuperset(stripped.replace(" ", "").replace("\t", "").replace(">", "")):
        place = len(line) - len(stripped)
    else:
        match = _BEFORE.match(line)
        place = match.end() if match else 0
        if not line.startswith(_POSING, place):
            return line
    return f"{line[:place]}\\{line[place:]}"


def _listed(texts: Sequence[str]) -> str:
    return "\n".join(f"- {_escaped(one_line(text))}" for text in texts if text.strip())
