"""Reads the fields that a model was asked to fill in, as one JSON object or as prose under headings, and their lists.

A heading begins a line, however decorated, and ends with a colon, a question mark or the line; a tag is a heading too.
If a name occurs as several headings, the plainest spelling counts, one alone on its line before one with text after it,
and the last of equals. The others are text that quotes the heading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from jeeves_reflexion.models.replies import Stated, after_label, agreed, opened, reading_of
from jeeves_reflexion.types import JSON

_MARKS: Final = r"[\s>#*_`~\[\]|\"'\u201c\u201d<-]{0,30}+"  # possessive: no reply makes reading slow
_HEADING: Final = re.compile(
    rf"^(?P<bullet>\s{{0,30}}+[-+*\u2022]\s++)?+{_MARKS}(?P<number>\(?\d{{1,2}}[.)]\s*)?{_MARKS}"
    r"(?P<name>[A-Za-z][A-Za-z _-]{1,40}?)[\s*_`~\]\"'\u201d]*(?:[:?>\uff1a]|$)[?:*_`~|\s]*(?P<rest>.*)$"
)
_MEMBER: Final = re.compile(r"[\s{,]*+([\"'])[A-Za-z _-]+\1\s*:")  # of a JSON object, which may be cut off
_CLOSING_TAG: Final = re.compile(r"</(?P<name>[A-Za-z _-]{2,40})>[ \t]*$")


def read_fields(text: str, names: Mapping[str, str]) -> dict[str, JSON]:
    """Return the fields of a reply by key. Fields that it does not mention are left out.

    ``names`` maps each name of a field to its key; case, blanks and underscores make no difference. JSON counts if it
    holds more fields than the headings outside it. Otherwise it is a quotation below a heading.
    """
    keys = {_letters(name): key for name, key in names.items()}
    reading = reading_of(text)
    reply = reading.text
    found: list[Stated[dict[str, JSON]]] = []
    for stated in reading.objects:
        named = [(_letters(name), value) for name, value in opened(stated.value).items()]
        if fields := {keys[name]: value for name, value in named if name in keys}:
            found.append(stated.read_as(fields))
    one = agreed(found, lambda value: json.dumps(value, sort_keys=True))
    outside = reply
    for each in reversed(found):
        outside = f"{outside[: each.start]}\n{outside[each.end :]}"
    if one is not None and len(one.value) > len(_headings(outside.splitlines(), keys)):
        return one.value

    lines = reply.splitlines()
    headings = _headings(lines, keys)
    parts: dict[str, list[str]] = {}
    current: list[str] = []
    for number, line in enumerate(lines):
        key, rest = headings.get(number, ("", line))
        current = parts.setdefault(key, []) if key else current
        closing = _CLOSING_TAG.search(rest)
        current.append(rest[: closing.start()] if closing and _letters(closing["name"]) in keys else rest)
    return {key: "\n".join(part).strip() for key, part in parts.items()}


def _headings(lines: Sequence[str], keys: Mapping[str, str]) -> dict[int, tuple[str, str]]:
    """Return each field's heading by the number of its line: the field's key and the rest of the line."""
    best: dict[str, tuple[tuple[bool, ...], int, str]] = {}
    for number, line in enumerate(lines):
        match = None if _MEMBER.match(line) else _HEADING.match(line)
        key = None if match is None else keys.get(_letters(match["name"]))
        if match is None or key is None:
            continue
        plain = match["name"].isupper() and not re.search(r"[ -]", match["name"])
        rank = (not match["bullet"], plain, not match["number"], not match["rest"])
        if key not in best or rank >= best[key][0]:
            best[key] = (rank, number, after_label(line[: match.start("rest")], match["rest"]))
    return {number: (key, rest) for key, (_, number, rest) in best.items()}


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]+", "", name.casefold())


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
