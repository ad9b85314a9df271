"""How the notes on a task stand in its prompt: before the task, as data, and never in its place."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.tasknotes.gate import admit
from jeeves_reflexion.tasknotes.tasks import fill
from jeeves_reflexion.tasknotes.values import TaskReflection
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


def prompt_with(
    task: Task,
    reflection: TaskReflection | None,
    *,
    context: Sequence[tuple[str, str]] = (),
    max_tokens: int = NOTES_TOKENS,
    said: Collection[str] = (),
    inputs: Mapping[str, str] | None = None,
) -> str:
    """Return a prompt with the notes, then what came before, then the original.

    ``context`` holds descriptions and outputs of tasks before this one; ``said`` what the agent is told elsewhere,
    such as recalled lessons, which the notes then leave out; ``inputs`` fills placeholders of the notes.
    """
    notes = (
        ""
        if reflection is None
        else notes_section(reflection, max_tokens=max_tokens, said=said, inputs=inputs)
    )
    parts = [notes] if notes else []
    if context:
        outputs = "\n\n".join(f"### {one_line(name)}\n{as_data(output)}" for name, output in context)
        parts.append(f"## Context from Previous Tasks\n\n{outputs}")
    parts.append(f"## Task\n\n{task.prompt}")
    if task.expected_output:
        parts.append(f"## Expected Output\n\n{task.expected_output}")
    return "\n\n".join(parts)


def with_prompt(task: Task, prompt: str) -> Task:
    """Return the task with such a prompt, which says what output is expected too."""
    return replace(task, prompt=prompt, template=None, expected_output=None, id=task.id)


def notes_section(
    reflection: TaskReflection,
    *,
    max_tokens: int = NOTES_TOKENS,
    said: Collection[str] = (),
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
    known = {_key(text) for text in said}
    description, expected = (
        fill(text, inputs).strip() for text in (clean.refined_description, clean.refined_expected_output)
    )
    observations, suggestions = (
        [text for text in texts if _key(text) not in known]
        for texts in (clean.observations, clean.suggestions)
    )
    section = _section(description, expected, observations, suggestions)
    while estimate_tokens(section) > max_tokens and (observations or suggestions):
        (suggestions or observations).pop()
        section = _section(description, expected, observations, suggestions)
    room = max_tokens - estimate_tokens(_section("-", "-", (), ()))
    while estimate_tokens(section) > max_tokens:
        if room <= 0:
            return ""
        # Both texts share the room, the longer one is cut first. Escaping may make them longer again.
        share = min(estimate_tokens(expected), max(room // 2, room - estimate_tokens(description)))
        short = cut_middle(expected, max(share, 1)) if expected else ""
        section = _section(cut_middle(description, max(room - share, 1)), short, (), ())
        room -= max(estimate_tokens(section) - max_tokens, 8)
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


def _key(text: str) -> str:
    return " ".join(re.findall(r"\w+", text)).casefold()
