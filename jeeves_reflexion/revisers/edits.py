"""Search/replace edits: each names a passage of a text by quoting it, and what is to stand there instead.

All edits of a list apply to the text as it was, never to each other's results. What no edit names stays as it is, byte
for byte, its line endings too. A model writes them as blocks between the markers of a merge conflict, a form that it
knows from coding assistants::

    <<<<<<< SEARCH
    lines quoted from the text
    =======
    lines to stand there instead
    >>>>>>> REPLACE

A text that has such lines itself (a heading underlined by equals signs will do) gets markers with a label behind them,
``======= edit``, so that the two can't be mixed up.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from jeeves_reflexion.text import abridge

_EXCERPT = 60


@dataclass(frozen=True, slots=True)
class Edit:
    """Put ``replace`` where ``search`` stands.

    An empty ``replace`` deletes; where the passage is whole lines, they go with their line ending. A blank ``search``
    adds ``replace`` as lines of its own at the end of the text. Either may have any line endings: what is put in gets
    those of the text.
    """

    search: str
    replace: str

    def __str__(self) -> str:
        if not self.search.strip():
            return f"the addition of {abridge(self.replace, _EXCERPT)!r}"
        return f"the edit of {abridge(self.search, _EXCERPT)!r}"


@dataclass(frozen=True, slots=True)
class Refused:
    """An edit that did not apply, and why not."""

    edit: Edit
    reason: str

    def __str__(self) -> str:
        return f"{self.edit} was not applied: {self.reason}"


@dataclass(frozen=True, slots=True)
class Edited:
    """The text after the edits that applied; ``text`` is the old one where none did."""

    text: str
    applied: tuple[Edit, ...] = ()
    refused: tuple[Refused, ...] = ()


def apply_edits(text: str, edits: Sequence[Edit]) -> Edited:
    """Apply edits to a text, each where its ``search`` stands exactly once: as whole lines, or else anywhere.

    An edit whose passage stands nowhere or in several places, that overlaps an earlier one of the list, or that changes
    nothing, is refused.
    """
    document = _Document(text)
    places: list[_Place] = []
    refused: list[Refused] = []
    for edit in edits:
        found = document.place(edit)
        if isinstance(found, str):
            refused.append(Refused(edit, found))
        elif rival := next((place for place in places if place.overlaps(found)), None):
            refused.append(Refused(edit, f"it overlaps {rival.edit}"))
        else:
            places.append(found)
    applied = tuple(place.edit for place in places)
    return Edited(document.replaced(places) if places else text, applied, tuple(refused))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an edit applies, in characters of the view, and what it puts there."""

    edit: Edit = field(compare=False)
    start: int
    end: int
    replace: str

    def overlaps(self, other: _Place) -> bool:
        return self.start < other.end and other.start < self.end


class _Document:
    """A text to find passages in, whatever its line endings: it is searched in a view where each is one newline."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.view = _plain(text)
        self._wide = [match.start() - n for n, match in enumerate(re.finditer("\r\n", text))]

    def place(self, edit: Edit) -> _Place | str:
        """Return where an edit applies, or why it does not."""
        search, replace = _plain(edit.search), _plain(edit.replace)
        if not search.strip():
            if not replace.strip():
                return "it changes nothing"
            return _Place(edit, len(self.view), len(self.view), replace.removesuffix("\n"))
        found = self._whole_lines(search) or self._exact(search)
        if not found:  # it may quote a blank line too many
            search, replace = search.strip("\n"), replace.strip("\n")
            found = self._whole_lines(search) or self._exact(search)
        if len(found) != 1:
            return (
                "its search text stands in several places: quote more lines around it"
                if found
                else "its search text does not stand in the text: quote the text exactly"
            )
        if search == replace:
            return "it changes nothing"
        return _Place(edit, found[0], found[0] + len(search), replace)

    def _whole_lines(self, search: str) -> list[int]:
        """Return where a passage stands as whole lines, at most two places."""
        if search.strip("\n") != search:
            return []
        lines = re.finditer(rf"^(?={re.escape(search)}$)", self.view, re.MULTILINE)
        return [match.start() for match in islice(lines, 2)]

    def _exact(self, search: str) -> list[int]:
        """Return where a passage stands, at most two places.

        A line break at an end of the passage is that of a blank line, never of the line next to it alone: an edit
        that quotes one blank line too many must not glue lines together.
        """
        found: list[int] = []
        at = self.view.find(search)
        while at >= 0 and len(found) < 2:
            end = at + len(search)
            opens = not search.startswith("\n") or at == 0 or self.view[at - 1] == "\n"
            closes = not search.endswith("\n") or self.view[end : end + 1] == "\n"
            if opens and closes:
                found.append(at)
            at = self.view.find(search, at + 1)
        return found

    def replaced(self, places: Sequence[_Place]) -> str:
        """Return the text with something else in places that don't overlap."""
        parts: list[str] = []
        cursor = 0
        added = False
        for place in sorted(places, key=lambda place: (place.start, place.end)):
            start, end, replace = place.start, place.end, place.replace
            if not place.edit.search.strip():
                replace = self._addition(replace, first=not added)
                added = True
            elif not replace:
                start, end = self._with_line_ending(start, end)
            parts += (self._raw(cursor, start), replace.replace("\n", self._newline(place)))
            cursor = end
        return "".join([*parts, self._raw(cursor, len(self.view))])

    def _addition(self, replace: str, *, first: bool) -> str:
        if self.view.endswith("\n"):
            return f"{replace}\n"
        return replace if first and not self.view else f"\n{replace}"

    def _with_line_ending(self, start: int, end: int) -> tuple[int, int]:
        """Return a passage to delete: whole lines with the line ending after them, else the one before them."""
        at_start = start == 0 or self.view[start - 1] == "\n"
        if at_start and self.view[end : end + 1] == "\n":
            return start, end + 1
        return (start - 1, end) if at_start and start and end == len(self.view) else (start, end)

    def _newline(self, place: _Place) -> str:
        """Return the first line ending of the passage, else that of the text."""
        at = self.view.find("\n", place.start, place.end)
        at = self.view.find("\n") if at < 0 else at
        return "\r\n" if at >= 0 and self._raw(at, at + 1) == "\r\n" else "\n"

    def _raw(self, start: int, end: int) -> str:
        return self.text[self._offset(start) : self._offset(end)]

    def _offset(self, at: int) -> int:
        return at + bisect_left(self._wide, at)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


# -- blocks ---------------------------------------------------------------------------------------------------------

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
