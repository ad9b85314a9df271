"""Search/replace edits: each quotes a passage of a text and gives its replacement.

All edits of a list apply to the original text. Everything else stays, byte for byte, line endings included. A model
writes edits as blocks, a form that it knows from coding assistants::

    <<<<<<< SEARCH
    lines quoted from the text
    =======
    lines to replace them
    >>>>>>> REPLACE
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jeeves_reflexion.text import abridge

_EXCERPT: Final = 60
SEARCH: Final = "<<<<<<< SEARCH"
DIVIDER: Final = "======="
REPLACE: Final = ">>>>>>> REPLACE"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the passage ``search`` by ``replace``.

    An empty ``replace`` deletes the passage, and whole lines with their line ending. A blank ``search`` adds
    ``replace`` as new lines at the end of the text. Either may have any line endings; new text gets those of the text.
    """

    search: str
    replace: str

    def __str__(self) -> str:
        if not self.search.strip():
            return f"the addition of {abridge(self.replace, _EXCERPT)!r}"
        return f"the edit of {abridge(self.search, _EXCERPT)!r}"


@dataclass(frozen=True, slots=True)
class Edited:
    """The text after the edits that applied, and for each other edit the reason why it was refused."""

    text: str
    applied: tuple[Edit, ...] = ()
    refused: tuple[str, ...] = ()


class _Place(NamedTuple):
    """Where in a text an edit applies, and its replacement, with plain newlines."""

    edit: Edit
    start: int
    end: int
    replace: str


def apply_edits(text: str, edits: Sequence[Edit]) -> Edited:
    """Apply edits to a text, each at the only place of its ``search``: as whole lines, or else anywhere.

    An edit is refused if its passage is missing or occurs more than once, if it overlaps an earlier edit of the list,
    or if it changes nothing.
    """
    places: list[_Place] = []
    refused: list[str] = []
    for edit in edits:
        place = _place(text, edit)
        if isinstance(place, _Place):
            rival = next((one for one in places if one.start < place.end and place.start < one.end), None)
            if rival is None:
                places.append(place)
                continue
            place = f"it overlaps {rival.edit}"
        refused.append(f"{edit} was not applied: {place}")
    applied = tuple(place.edit for place in places)
    return Edited(_replaced(text, places), applied, tuple(refused))


def _place(text: str, edit: Edit) -> _Place | str:
    """Return where an edit applies, or why it is refused."""
    search, replace = (part.replace("\r\n", "\n") for part in (edit.search, edit.replace))
    if not search.strip():
        if not replace.strip():
            return "it changes nothing"
        return _Place(edit, len(text), len(text), replace.removesuffix("\n"))
    spans = _spans(text, search)
    if not spans:  # it may quote a blank line too many
        search, replace = search.strip("\n"), replace.strip("\n")
        spans = _spans(text, search)
    if len(spans) > 1:
        return "its search text occurs in several places: quote more lines around it"
    if not spans:
        return "its search text does not occur in the text: quote the text exactly"
    if search == replace:
        return "it changes nothing"
    return _Place(edit, *spans[0], replace)


def _spans(text: str, search: str) -> list[tuple[int, int]]:
    """Return the first two spans of a passage, as whole lines or else anywhere, with any line endings.

    A line break at either end of the passage only matches a blank line there, never the break of the adjacent line: an
    edit that quotes one blank line too many must not join lines.
    """
    view = text.replace("\r\n", "\n")
    wide = [match.start() - number for number, match in enumerate(re.finditer("\r\n", text))]
    before, after = ("\n" if end == "\n" else "" for end in (search[0], search[-1]))
    forms = [(f"\n{view}", before, after)]
    if not (before or after):
        forms.insert(0, (f"\n{view}\n", "\n", "\n"))
    for within, first, last in forms:
        at = within.find(first + search + last)
        if at >= 0:
            places = (at, within.find(first + search + last, at + 1))  # which may overlap
            starts = [place - 1 + len(first) for place in places if place >= 0]
            ends = [start + len(search) for start in starts]
            return [
                (start + bisect_left(wide, start), end + bisect_left(wide, end))
                for start, end in zip(starts, ends, strict=True)
            ]
    return []


def _replaced(text: str, places: Sequence[_Place]) -> str:
    parts: list[str] = []
    cursor = 0
    for edit, start, end, replace in sorted(places, key=lambda place: place[1:3]):
        first, last = start, end
        newline = re.search(r"\r?\n", text[start:end]) or re.search(r"\r?\n", text)
        if not edit.search.strip():
            before = "\n" if any(parts) or cursor < start else ""  # an edit may delete the whole text
            replace = f"{replace}\n" if text.endswith("\n") else before + replace  # noqa: PLW2901
        elif not replace and (not start or text[start - 1] == "\n"):
            # Whole lines go with the line ending after them, else with the one before them.
            if after := re.compile(r"\r?\n").match(text, end):
                last = after.end()
            elif end == len(text):
                first = len(text[:start].removesuffix("\n").removesuffix("\r"))
        parts += (text[cursor:first], replace.replace("\n", newline[0] if newline else "\n"))
        cursor = last
    return "".join([*parts, text[cursor:]])


# -- blocks ---------------------------------------------------------------------------------------------------------

_MARK: Final = re.compile(
    r"(?P<search><{5,9} ?SEARCH)|(?P<divider>={5,9})|(?P<replace>>{5,9} ?REPLACE)", re.IGNORECASE
)


class ParsedEdits(NamedTuple):
    """The edits of a reply in order, and a problem for each block that can't be read."""

    edits: tuple[Edit, ...] = ()
    problems: tuple[str, ...] = ()


def holds_markers(text: str) -> bool:
    """Return whether a text has a line that opens or closes a block, which no block could quote."""
    return any(_kind(line) in {"search", "replace"} for line in text.split("\n"))


def parse_edits(reply: str) -> ParsedEdits:
    """Read the search/replace blocks of a reply; never raises an error.

    Text around the blocks (prose, code fences) is ignored. A marker is a line of its own, indented or not, of five to
    nine characters. If all lines of a block have the indentation of its first marker, it is removed. A block without an
    end, or not with exactly one dividing line, is a problem and not an edit.
    """
    edits: list[Edit] = []
    problems: list[str] = []
    block: list[str] = []
    for line in [*reply.split("\n"), SEARCH]:  # the additional opening line ends a block that is still open
        kind = _kind(line)
        if block and kind in {"search", "replace"}:
            read = _read(block, closed=kind == "replace")
            if isinstance(read, Edit):
                edits.append(read)
            else:
                problems.append(read)
            block = []
        if block or kind == "search":
            block.append(line.removesuffix("\r"))
    return ParsedEdits(tuple(edits), tuple(problems))


def _kind(line: str) -> str | None:
    match = _MARK.fullmatch(line.strip())
    return match.lastgroup if match else None


def _read(block: Sequence[str], *, closed: bool) -> Edit | str:
    """Read a block, given with its first line but without its last; return a problem if it can't be read."""
    dividers = [number for number, line in enumerate(block) if _kind(line) == "divider"]
    # Beside a divider of the usual length, others are underlines of headings.
    dividers = [number for number in dividers if block[number].strip() == DIVIDER] or dividers
    if not closed or len(dividers) != 1:
        divider = f"{'more than one' if dividers else 'no'} line {DIVIDER!r}"
        problem = divider if closed else f"no line {REPLACE!r} at its end"
        return f"a block has {problem}: {abridge(' '.join(block[1:4]), _EXCERPT)!r}"
    indent = block[0][: len(block[0]) - len(block[0].lstrip())]
    parts: list[str] = []
    for lines in (block[1 : dividers[0]], block[dividers[0] + 1 :]):
        indented = all(line.startswith(indent) for line in lines if line.strip())
        parts.append("\n".join(line.removeprefix(indent) if indented else line for line in lines))
    return Edit(*parts)
