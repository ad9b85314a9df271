"""Search/replace edits: each names a passage of a text by quoting it, and what is to stand there instead.

All edits of a list apply to the text as it was, never to each other's results. What no edit names stays as it is, byte
for byte, its line endings too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

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
    """Apply edits to a text, each where its ``search`` stands exactly once.

    Where that fails, whole lines are compared with white space folded and blank lines at both ends left out; if one
    run of lines is alike, it is replaced, and what is put in is indented as the lines were, if all were indented by
    the same amount more or less. So is what replaces a single line quoted without its indentation. An edit that still
    stands nowhere or in several places, that overlaps an earlier one of the list, or that changes nothing, is refused.
    """
    document = Document(text)
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


class Document:
    """A text to find passages in, whatever its line endings: it is searched in a view where each is one newline."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.view = _plain(text)
        self._wide = [match.start() - n for n, match in enumerate(re.finditer("\r\n", text))]
        self._lines = self.view.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines[:-1])]
        self._folded = [_folded(line) for line in self._lines]

    def place(self, edit: Edit) -> _Place | str:
        """Return where an edit applies, or why it does not."""
        search, replace = _plain(edit.search), _plain(edit.replace)
        if not search.strip():
            if not replace.strip():
                return "it changes nothing"
            return _Place(edit, len(self.view), len(self.view), replace.removesuffix("\n"))
        exact, alike = self._exact(search), self._alike(search)
        if len(alike) == 1 and (len(exact) != 1 or self._lacks_indent(exact[0], search)):
            found = self._lines_place(edit, alike[0], _inner_lines(search), _inner_lines(replace))
        elif len(exact) == 1:
            found = _Place(edit, exact[0], exact[0] + len(search), replace)
        elif exact or alike:
            return "its search text stands in several places: quote more lines around it"
        else:
            return "its search text does not stand in the text: quote the text exactly"
        if self.view[found.start : found.end] == found.replace:
            return "it changes nothing"
        return found

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

    def _alike(self, search: str) -> list[int]:
        """Return the numbers of the lines where lines like those of ``search`` begin, at most two."""
        wanted = [_folded(line) for line in _inner_lines(search)]
        found: list[int] = []
        for at, line in enumerate(self._folded):
            if line == wanted[0] and self._folded[at : at + len(wanted)] == wanted:
                found.append(at)
                if len(found) == 2:
                    break
        return found

    def _lacks_indent(self, at: int, search: str) -> bool:
        """Whether a passage is one line without its indentation: the lines put in lack it as well."""
        end = at + len(search)
        before = self.view[self.view.rfind("\n", 0, at) + 1 : at]
        whole = "\n" not in search and self.view[end : end + 1] in {"", "\n"}
        return whole and bool(before) and not before.strip()

    def _lines_place(self, edit: Edit, at: int, search: list[str], replace: list[str]) -> _Place:
        last = at + len(search) - 1
        lines = _reindented(self._lines[at : last + 1], search, replace)
        return _Place(edit, self._starts[at], self._starts[last] + len(self._lines[last]), "\n".join(lines))

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


def _folded(line: str) -> str:
    return " ".join(line.split())


def _inner_lines(text: str) -> list[str]:
    """Return the lines of a text without the blank ones at both ends."""
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _reindented(found: list[str], search: list[str], replace: list[str]) -> list[str]:
    """Shift lines by as much as the lines that were found are indented more, or less, than those quoted."""
    pairs = [
        (_indent(old), _indent(quoted)) for old, quoted in zip(found, search, strict=True) if old.strip()
    ]
    more = {old.removesuffix(quoted) if old.endswith(quoted) else None for old, quoted in pairs}
    if len(more) == 1 and (indent := more.pop()):
        return [indent + line if line.strip() else line for line in replace]
    less = {quoted.removesuffix(old) if quoted.endswith(old) else None for old, quoted in pairs}
    if len(less) == 1 and (indent := less.pop()):
        return [line.removeprefix(indent) for line in replace]
    return replace


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
