"""Keeps the text of a field from posing as the structure of the Markdown file that it stands in.

A line that would be a heading, a rule, a comment or an open code fence gets a backslash, which Markdown doesn't show;
what stands in a code fence that is closed stays as it is. Reading takes away just the backslashes that writing put.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_STRUCTURE: Final = (
    r"(?:\#{1,2}(?:[ \t]|$)|\#{3}[ \t]+(?i:principle|procedure)[ \t\#]*$"  # headings
    r"|(?:-[ \t]*)+$|=+[ \t]*$"  # what makes a heading of the line above, and rules
    r"|<[!?/a-zA-Z])"  # comments and tags
)
OPENER: Final = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})")
_UNSAFE: Final = re.compile(rf"(?P<indent> {{0,3}})(?P<rest>\\*{_STRUCTURE}|\\+(?:`{{3,}}|~{{3,}}))")
_ESCAPED: Final = re.compile(rf"(?P<indent> {{0,3}})\\(?P<rest>\\*(?:{_STRUCTURE}|`{{3,}}|~{{3,}}))")


def escaped(text: str) -> str:
    """Write a field's text so that no line of it is a heading, a comment or an open code fence."""
    lines = text.split("\n")
    done: list[str] = []
    while len(done) < len(lines):
        line = lines[len(done)]
        end = closing_line(lines, len(done))
        if end is not None:
            done += lines[len(done) : end + 1]
        elif OPENER.match(line) or _UNSAFE.match(line):
            indent = len(line) - len(line.lstrip(" "))
            done.append(f"{line[:indent]}\\{line[indent:]}")
        else:
            done.append(line)
    return "\n".join(done)


def closing_line(lines: Sequence[str], start: int) -> int | None:
    """Return the line that closes the code fence which opens at ``start``; None where none opens or it stays open."""
    opener = OPENER.match(lines[start])
    if opener is None:
        return None
    fence = opener["fence"]
    closing = re.compile(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
    return next((number for number in range(start + 1, len(lines)) if closing.match(lines[number])), None)


def unescaped(line: str) -> str:
    """Take back what :func:`escaped` did to a line."""
    match = _ESCAPED.match(line)
    return match["indent"] + line[match.start("rest") :] if match else line
