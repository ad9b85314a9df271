"""The fields that a model was asked to fill in: one JSON object, or prose under headings.

A heading stands at the start of a line, however decorated, and ends in a colon, a question mark or the line's end; a
tag is one too. Where a name occurs there more than once, the plainest spelling counts, alone on its line before one
with text after it, and of those the last: the others are text that quotes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from jeeves_reflexion.models.replies import agreed, objects, opened, unwrapped
from jeeves_reflexion.models.thoughts import answer
from jeeves_reflexion.types import JSON

_MARKS: Final = r"[\s>#*_`~\[\]|\"'\u201c\u201d<-]{0,30}+"  # possessive: no reply makes reading slow
_HEADING: Final = re.compile(
    rf"^(?P<bullet>\s{{0,30}}+[-+*\u2022]\s++)?+{_MARKS}(?P<number>\(?\d{{1,2}}[.)]\s*)?{_MARKS}"
    r"(?P<name>[A-Za-z][A-Za-z _-]{1,40}?)[\s*_`~\]\"'\u201d]*(?:[:?>\uff1a]|$)[?:*_`~|\s]*(?P<rest>.*)$"
)
_MEMBER: Final = re.compile(r"[\s{,]*+([\"'])[A-Za-z _-]+\1\s*:")  # of a JSON object, which may be cut off
_CLOSING_TAG: Final = re.compile(r"</(?P<name>[A-Za-z _-]{2,40})>[ \t]*$")


def read_fields(text: str, names: Mapping[str, str]) -> dict[str, JSON]:
    """Return what a reply says of each field, by its key; what it doesn't say is left out.

    ``names`` has the key of each name that a field goes by; capitals, blanks and underscores make no difference. JSON
    counts where it says more of the fields than headings outside of it: else it is quoted beneath one.
    """
    keys = {_letters(name): key for name, key in names.items()}
    said = unwrapped(answer(text))
    read = [
        one.read_as(
            {
                keys[_letters(name)]: value
                for name, value in opened(one.value).items()
                if _letters(name) in keys
            }
        )
        for one in objects(said)
    ]
    found = [one for one in read if one.value]
    one = agreed(found, lambda value: json.dumps(value, sort_keys=True))
    outside = said
    for each in reversed(found):
        outside = f"{outside[: each.start]}\n{outside[each.end :]}"
    if one is not None and len(one.value) > len(_headings(outside.splitlines(), keys)):
        return dict(one.value)
    return _prose(said.splitlines(), keys)


def _prose(lines: Sequence[str], keys: Mapping[str, str]) -> dict[str, JSON]:
    headings = _headings(lines, keys)
    parts: dict[str, list[str]] = {}
    current: list[str] = []
    for number, line in enumerate(lines):
        if number in headings:
            key, line = headings[number]  # noqa: PLW2901 - the heading's name is no part of the text
            current = parts.setdefault(key, [])
        closing = _CLOSING_TAG.search(line)
        current.append(line[: closing.start()] if closing and _letters(closing["name"]) in keys else line)
    return {key: "\n".join(part).strip() for key, part in parts.items()}


def _headings(lines: Sequence[str], keys: Mapping[str, str]) -> dict[int, tuple[str, str]]:
    """Return the line of each field's heading, with the field's key and what follows on that line."""
    best: dict[str, tuple[tuple[bool, ...], int, str]] = {}
    for number, line in enumerate(lines):
        match = None if _MEMBER.match(line) else _HEADING.match(line)
        key = None if match is None else keys.get(_letters(match["name"]))
        if match is None or key is None:
            continue
        plain = match["name"].isupper() and not re.search(r"[ -]", match["name"])
        rank = (not match["bullet"], plain, not match["number"], not match["rest"])
        if key not in best or rank >= best[key][0]:
            best[key] = (rank, number, match["rest"])
    return {number: (key, rest) for key, (_, number, rest) in best.items()}


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]+", "", name.casefold())
