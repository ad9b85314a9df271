"""Reads the four sections of a reflection out of a model's reply: JSON, or prose with headings.

A heading stands at the start of a line, however decorated. Where a section's name occurs there more than once, the
plainest spelling counts, alone on its line before one with text after it, and of those the last: the others are text
that quotes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jeeves_reflexion.models.replies import agreed, objects, opened
from jeeves_reflexion.models.sections import RULE, items, listed, says_nothing
from jeeves_reflexion.models.thoughts import answer
from jeeves_reflexion.types import JSON

SECTIONS: Final = ("refined_description", "refined_expected_output", "observations", "suggestions")

_DECORATION = r"[\s>#*_`~\[\]|\"'\u201c\u201d-]{0,30}+"  # possessive, as below: no reply makes reading slow
_HEADING = re.compile(
    rf"^(?P<bullet>\s{{0,30}}+[-+*\u2022]\s++)?+{_DECORATION}(?P<number>\(?\d{{1,2}}[.)]\s*)?{_DECORATION}"
    r"(?P<name>refined[ _-]?description|refined[ _-]?expected[ _-]?output|observations?|suggestions?)"
    r"(?P<after>[\s*_`~\]\"'\u201d]*)(?P<colon>[:\uff1a]?)[*_`~|\s]*(?P<rest>.*)$",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"^[ \t]*<(/?)(refined_description|refined_expected_output|observations|suggestions)>",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSING = re.compile(
    r"</(?:refined_description|refined_expected_output|observations|suggestions)>[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_FENCED = re.compile(r"^(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<body>.*)\n(?P=fence)\s*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sections:
    """What a reply says; a text that it doesn't have is None."""

    refined_description: str | None = None
    refined_expected_output: str | None = None
    observations: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()

    @property
    def readable(self) -> bool:
        """Whether the reply says anything of what it was asked for."""
        return any(
            (self.refined_description, self.refined_expected_output, self.observations, self.suggestions)
        )


def read_sections(text: str) -> Sections:
    """Read a reply; one that can't be read is not ``readable``.

    JSON counts where it stands on lines of its own and no heading stands outside of it: within a section it is quoted.
    """
    text = answer(text)
    found = [one for one in objects(text) if one.plain]
    named = [one.read_as({_name(key): value for key, value in opened(one.value).items()}) for one in found]
    one = agreed(
        [each for each in named if each.value.keys() & set(SECTIONS)],
        lambda value: json.dumps(value, sort_keys=True),
    )
    if one is not None and not _headings((text[: one.start] + "\n" + text[one.end :]).splitlines()):
        return _of_fields(one.value)
    fenced = _FENCED.match(text)
    return _of_prose(_without_tags(fenced["body"] if fenced else text))


def _without_tags(text: str) -> str:
    """Write sections in tags, which some models prefer, as sections under headings."""
    if not _TAG.search(text):
        return text
    opened = _TAG.sub(lambda match: "" if match[1] else f"{match[2].upper()}:\n", text)
    return _CLOSING.sub("", opened)


def _of_fields(fields: Mapping[str, JSON]) -> Sections:
    description, expected, observations, suggestions = map(fields.get, SECTIONS)
    return Sections(
        _field_text(description),
        _field_text(expected),
        _field_list(observations),
        _field_list(suggestions),
    )


def _field_text(value: JSON) -> str | None:
    if isinstance(value, list):
        value = "\n".join(item for item in value if isinstance(item, str))
    return _said(value.strip()) if isinstance(value, str) else None


def _field_list(value: JSON) -> tuple[str, ...]:
    if isinstance(value, str):
        return items(value.splitlines())
    if not isinstance(value, list):
        return ()
    # An object such as {"text": "..."} stands for its first text.
    texts = [next(filter(_is_text, i.values()), "") if isinstance(i, dict) else i for i in value]
    return listed(text for text in texts if isinstance(text, str))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _of_prose(text: str) -> Sections:
    lines = text.splitlines()
    headings = _headings(lines)
    parts: dict[str, list[str]] = {name: [] for name in SECTIONS}
    current: list[str] = []
    for number, line in enumerate(lines):
        if number in headings:
            name, line = headings[number]  # noqa: PLW2901 - the heading's name is no part of the text
            current = parts[name]
        current.append(line)
    description, expected, observations, suggestions = parts.values()
    return Sections(_text(description), _text(expected), items(observations), items(suggestions))


def _headings(lines: Sequence[str]) -> dict[int, tuple[str, str]]:
    """Return the line of each section's heading, with the section and what follows on that line."""
    best: dict[str, tuple[tuple[int, ...], int, str]] = {}
    for number, line in enumerate(lines):
        match = _HEADING.match(line)
        if match is None:
            continue
        rest = match["rest"]
        if not match["colon"] and rest:
            continue  # a sentence that begins with the word
        marker = match["name"]
        plain = marker.isupper() and not re.search(r"[ -]", marker)
        rank = (not match["bullet"], plain, not match["number"], not rest)
        name = _name(marker)
        if name not in best or rank >= best[name][0]:
            best[name] = (rank, number, rest)
    return {number: (name, rest) for name, (_, number, rest) in best.items()}


def _name(marker: str) -> str:
    name = re.sub(r"[ _-]+", "_", marker.strip()).lower()
    if name in ("refineddescription", "refinedexpectedoutput"):
        return "refined_description" if name.endswith("description") else "refined_expected_output"
    return f"{name}s" if name in ("observation", "suggestion") else name


def _text(lines: Sequence[str]) -> str | None:
    kept = list(lines)
    while kept and (not kept[-1].strip() or RULE.match(kept[-1])):
        kept.pop()
    text = "\n".join(kept).strip()
    fenced = _FENCED.match(text)
    return _said(fenced["body"].strip() if fenced else text)


def _said(text: str) -> str | None:
    return None if says_nothing(text) else text
