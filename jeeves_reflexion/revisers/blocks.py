"""The form in which a model writes edits: search/replace blocks between the markers of a merge conflict.

::

    <<<<<<< SEARCH
    lines quoted from the text
    =======
    lines to stand there instead
    >>>>>>> REPLACE

Models know the form from coding assistants. A text that has such lines itself (a heading underlined by equals signs
will do) gets markers with a label behind them, ``======= edit``, so that the two can't be mixed up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jeeves_reflexion.revisers.edits import Edit
from jeeves_reflexion.text import abridge

_MARK = re.compile(
    r"(?:(?P<search><{5,9} ?SEARCH)|(?P<divider>={5,9})|(?P<replace>>{5,9} ?REPLACE))(?: +(?P<label>edit\d*))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Markers:
    """The three lines that make a block; ``label`` stands behind each, if there is one."""

    label: str = ""

    @property
    def search(self) -> str:
        """The line that opens a block."""
        return f"<<<<<<< SEARCH {self.label}".rstrip()

    @property
    def divider(self) -> str:
        """The line between what is quoted and what is to stand there."""
        return f"======= {self.label}".rstrip()

    @property
    def replace(self) -> str:
        """The line that closes a block."""
        return f">>>>>>> REPLACE {self.label}".rstrip()

    def block(self, edit: Edit) -> str:
        """Write an edit as a model would."""
        parts = (self.search, edit.search, self.divider, edit.replace, self.replace)
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class ParsedEdits:
    """The edits of a reply in order, and what in it looked like one and could not be read."""

    edits: tuple[Edit, ...] = ()
    problems: tuple[str, ...] = ()


def markers_for(text: str) -> Markers:
    """Return markers that no line of a text can be taken for."""
    used = {mark.label for number, line in enumerate(text.split("\n")) if (mark := _mark(number, line))}
    if not used:
        return Markers()
    label, number = "edit", 1
    while label in used:
        number += 1
        label = f"edit{number}"
    return Markers(label)


def parse_edits(reply: str) -> ParsedEdits:
    """Read the search/replace blocks of a reply; never raises, whatever the reply.

    What stands around the blocks (prose, code fences) is left out. A marker is a line of its own, indented or not, of
    five to nine characters; the three of a block have the same label, or none. The indentation of a block's first
    marker is taken off its lines if all have it. A block that does not end, that has no dividing line or several, or
    whose end is in doubt, is a problem and no edit.
    """
    lines = [line.removesuffix("\r") for line in reply.split("\n")]
    marks = [mark for number, line in enumerate(lines) if (mark := _mark(number, line))]
    edits: list[Edit] = []
    problems: list[str] = []
    last: _Mark | None = None  # the line that closed the last block, while that block counts
    at = 0
    while at < len(marks):
        mark = marks[at]
        if mark.kind == "search":
            end = _end(marks, at)
            read = (
                _read(lines, marks[at : end + 1])
                if end
                else _broken(lines, mark, "no", mark.closing, " at its end")
            )
            if isinstance(read, Edit):
                edits.append(read)
                last = marks[end]
            else:
                problems.append(read)
                last = None
            at = end or at
        elif last and mark.kind == "replace" and mark.label == last.label:
            if any(map(_matters, lines[last.line + 1 : mark.line])):
                problems.append(f"{edits.pop()} was not read: a second line {mark.text!r} follows its end")
            last = None
        at += 1
    return ParsedEdits(tuple(edits), tuple(problems))


class _Mark(NamedTuple):
    """A line of a reply that is a marker."""

    line: int
    kind: str
    label: str
    text: str

    @property
    def closing(self) -> str:
        return Markers(self.label).replace


def _mark(number: int, line: str) -> _Mark | None:
    text = line.strip()
    match = _MARK.fullmatch(text) if text[:5] in {"<<<<<", "=====", ">>>>>"} else None
    if match is None:
        return None
    kind = next(kind for kind in ("search", "divider", "replace") if match[kind])
    return _Mark(number, kind, (match["label"] or "").lower(), text)


def _end(marks: Sequence[_Mark], at: int) -> int:
    """Return the number of the marker that closes the block opened by the one at ``at``; 0 where none does."""
    for number in range(at + 1, len(marks)):
        mark = marks[number]
        if mark.label == marks[at].label and mark.kind != "divider":
            return number if mark.kind == "replace" else 0
    return 0


def _read(lines: Sequence[str], block: Sequence[_Mark]) -> Edit | str:
    first, *inner, last = block
    dividers = [mark for mark in inner if mark.kind == "divider" and mark.label == first.label]
    # A line of another length than the usual seven underlines a heading.
    dividers = [mark for mark in dividers if len(mark.text.split()[0]) == 7] or dividers
    if len(dividers) != 1:
        return _broken(lines, first, "more than one" if dividers else "no", Markers(first.label).divider)
    at = dividers[0].line
    search = _outdented(lines[first.line], lines[first.line + 1 : at])
    return Edit(search, _outdented(lines[first.line], lines[at + 1 : last.line]))


def _outdented(first: str, part: Sequence[str]) -> str:
    indent = first[: len(first) - len(first.lstrip())]
    if indent and all(line.startswith(indent) for line in part if line.strip()):
        part = [line.removeprefix(indent) for line in part]
    return "\n".join(part)


def _broken(lines: Sequence[str], first: _Mark, how_many: str, marker: str, where: str = "") -> str:
    excerpt = abridge(" ".join(lines[first.line + 1 : first.line + 4]), 60)
    return f"a block has {how_many} line {marker!r}{where}: {excerpt!r}"


def _matters(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith(("```", "~~~"))
