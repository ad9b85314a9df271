"""Reads the fields that a model was asked to fill in, as one JSON object or as prose under headings, and their lists.

A heading begins a line, however decorated, and ends with a colon, a question mark or the line; a tag is a heading too.
If a name occurs as several headings, the plainest spelling counts, one alone on its line before one with text after it,
and the last of equals. The others are text that quotes the heading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.models.replies import Stated, after_label, agreed, opened, reading_of
from jeeves_reflexion.types import JSON

_MARKS: Final = r"[^\w\n({,./|]{0,30}+"  # possessive: no reply makes reading slow
_HEADING: Final = re.compile(
    rf"^(?P<bullet>\s{{0,30}}+[-+*\u2022]\s++)?+{_MARKS}(?P<cell>\|)?{_MARKS}(?P<number>\(?\d{{1,2}}[.)]\s*)?{_MARKS}"
    r"(?P<name>\w[^\n:?>=|\uff1a]{0,60}?)[\s*_`~\]\"'\u201d]*"
    r"(?(cell)\||(?:[:?>=\uff1a]|$))[?:*_`~|\s]*(?P<rest>.*?)(?(cell)[\s|*_]*)$"
)
_MEMBER: Final = re.compile(r"[\s{,]*+([\"'])[A-Za-z _-]+\1\s*:")  # of a JSON object, which may be cut off
_CLOSING_TAG: Final = re.compile(r"</(?P<name>[A-Za-z _-]{2,40})>[ \t]*$")


@dataclass(frozen=True, slots=True)
class Section:
    """The line of a heading, its key and the rest of it, and the lines below; ``start`` is where the heading begins.

    The lines before the first heading are a section without a key.
    """

    key: str = ""
    heading: str = ""
    rest: str = ""
    start: int = 0
    lines: list[str] = field(default_factory=list)


def read_fields(text: str, names: Mapping[str, str]) -> dict[str, JSON]:
    """Return the fields of a reply by key. Fields that it does not mention are left out.

    ``names`` maps each name of a field to its key; case, blanks and underscores make no difference. JSON counts if it
    holds more fields than the headings outside it. Otherwise it is a quotation below a heading.
    """
    keys = {key_of(name): key for name, key in names.items()}
    reading = reading_of(text)
    found: list[Stated[dict[str, JSON]]] = []
    for stated in reading.objects:
        named = [(key_of(name), value) for name, value in opened(stated.value).items()]
        if fields := {keys[name]: value for name, value in named if name in keys}:
            found.append(stated.read_as(fields))
    one = agreed(found, lambda value: json.dumps(value, sort_keys=True))
    outside = reading.text
    for each in reversed(found):
        outside = f"{outside[: each.start]}\n{outside[each.end :]}"
    if one is not None and len(one.value) > len(sections(outside, names)) - 1:
        return one.value
    parts = sections(reading.text, names)[1:]
    return {each.key: "\n".join((each.rest, *each.lines)).strip() for each in parts}


def sections(text: str, names: Mapping[str, str], *, every: bool = False) -> list[Section]:
    """Split a text at the headings with one of ``names``, each mapped to its key; the first part has no heading.

    An item of the list below a heading is no heading. ``every`` takes each of several headings with one key.
    """
    keys = {key_of(name): key for name, key in names.items()}
    lines = text.splitlines()
    found: list[tuple[tuple[bool, ...], int, str, str]] = []
    above_list = False
    for number, line in enumerate(lines):
        match = None if _MEMBER.match(line) else _HEADING.match(line)
        key = None if match is None else keys.get(key_of(match["name"]))
        if match is None or key is None or (above_list and match["bullet"]):
            continue
        above_list = not (match["bullet"] or match["rest"])
        plain = match["name"].isupper() and not re.search(r"[ -]", match["name"])
        rank = (not match["bullet"], plain, not match["number"], not match["rest"])
        found.append((rank, number, key, after_label(line[: match.start("rest")], match["rest"])))
    best = found if every else {each[2]: each for each in sorted(found)}.values()
    headings = {number: (key, rest) for _, number, key, rest in best}

    parts, start = [Section()], 0
    for number, (line, whole) in enumerate(zip(lines, text.splitlines(keepends=True), strict=True)):
        key, said = headings.get(number, ("", line))
        closing = _CLOSING_TAG.search(said)
        if closing and key_of(closing["name"]) in keys:
            said = said[: closing.start()]
        if key:
            parts.append(Section(key, line, said, start))
        else:
            parts[-1].lines.append(said)
        start += len(whole)
    return parts


def key_of(name: str) -> str:
    """Return what the spellings of a name share: ``Edge cases``, ``edge_cases`` and ``EDGE-CASES`` have one key."""
    return re.sub(r"[\W_]+", "", name).casefold() or name


# -- lists below a heading, and replies such as "none" ----------------------------------------------------------------

BULLET: Final = re.compile(
    r"^\s*(?:[-+*\u2022\u2023\u25aa\u25cf\u25e6\u2043\u2013\u2014\u00b7]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))\s+(?P<text>.*)$"
)
RULE: Final = re.compile(r"^\s*(?:[-*_=]\s*){3,}$")
_NOTHING: Final = re.compile(
    r"^\W*+(?:none|n/?a|null|nothing|empty|unchanged|not applicable"
    r"|no (?:issues?|changes?|observations?|suggestions?)(?: needed)?)?+\W*+$",
    re.IGNORECASE,
)
_PLACEHOLDER: Final = re.compile(r"^\[[^\]\n]{0,200}\]$")  # the prompt's own "[what you noticed]"


def says_nothing(text: str) -> bool:
    """Whether a text is empty, says "none" in some way, or is a placeholder of the prompt."""
    return bool(_NOTHING.match(text) or _PLACEHOLDER.match(text))


def listed(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that say something, stripped of white space."""
    return tuple(text.strip() for text in texts if not says_nothing(text))


def items(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the items of a list. Lines without a bullet continue an item; if no line has one, each line is an item."""
    found: list[str] = []
    bulleted = any(BULLET.match(line) for line in lines)
    open_item = False
    for line in lines:
        match = BULLET.match(line)
        stripped = line.strip()
        if match:
            found.append(match["text"].strip())
            open_item = True
        elif not stripped or RULE.match(line) or stripped.startswith(("```", "~~~")):
            open_item = False
        elif bulleted and open_item:
            found[-1] = f"{found[-1]} {stripped}"
        elif not bulleted or not found:
            found.append(stripped)
    return listed(found)
