"""Lists as models write them below a heading, and what says that there is nothing to say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

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
    """Whether a text is empty, says that there is nothing, or is a placeholder of the form."""
    return bool(_NOTHING.match(text) or _PLACEHOLDER.match(text))


def listed(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that say something, without the white space around them."""
    return tuple(text.strip() for text in texts if not says_nothing(text))


def items(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the items of a list. Lines that go on with an item belong to it; without any bullet each line is one."""
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
