"""Search/replace edits: each quotes a passage of a text, and says what is to stand there instead.

All edits of a list apply to the text as it was. What no edit names stays as it is, byte for byte, its line endings too.
A model writes them as blocks, a form that it knows from coding assistants::

    <<<<<<< SEARCH
    lines quoted from the text
    =======
    lines to stand there instead
    >>>>>>> REPLACE
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jeeves_reflexion.text import abridge

_EXCERPT: Final = 60
SEARCH: Final = "<<<<<<< SEARCH"
DIVIDER: Final = "======="
REPLACE: Final = ">>>>>>> REPLACE"
# Of a line, or of a blank line within a passage.
_BEGINS: Final = r"(?:\A|(?<=\n))"
_GOES_ON: Final = r"(?=\r?\n)"
_ENDS: Final = r"(?=\r?\n|\Z)"


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
class Edited:
    """The text after the edits that applied, and for each other one why it did not."""

    text: str
    applied: tuple[Edit, ...] = ()
    refused: tuple[str, ...] = ()


class _Place(NamedTuple):
    """Where in a text an edit applies, and what it puts there; with plain newlines."""

    edit: Edit
    start: int
    end: int
    replace: str


def apply_edits(text: str, edits: Sequence[Edit]) -> Edited:
    """Apply edits to a text, each where its ``search`` stands exactly once: as whole lines, or else anywhere.

    An edit whose passage stands nowhere or in several places, that overlaps an earlier one of the list, or that changes
    nothing, is refused.
    """
    places: list[_Place] = []
    refused: list[str] = []
    for edit in edits:
        found = _place(text, edit)
        if isinstance(found, _Place):
            rival = next((one for one in places if one.start < found.end and found.start < one.end), None)
            if rival is None:
                places.append(found)
                continue
            found = f"it overlaps {rival.edit}"
        refused.append(f"{edit} was not applied: {found}")
    applied = tuple(place.edit for place in places)
    return Edited(_replaced(text, places), applied, tuple(refused))


def _place(text: str, edit: Edit) -> _Place | str:
    """Return where an edit applies, or why it does not."""
    search, replace = (part.replace("\r\n", "\n") for part in (edit.search, edit.replace))
    if not search.strip():
        if not replace.strip():
            return "it changes nothing"
        return _Place(edit, len(text), len(text), replace.removesuffix("\n"))
    found = _found(text, search)
    if not found:  # it may quote a blank line too many
        search, replace = search.strip("\n"), replace.strip("\n")
        found = _found(text, search)
    if len(found) > 1:
        return "its search text stands in several places: quote more lines around it"
    if not found:
        return "its search text does not stand in the text: quote the text exactly"
    if search == replace:
        return "it changes nothing"
    return _Place(edit, *found[0], replace)


def _found(text: str, search: str) -> list[tuple[int, int]]:
    """Return where a passage stands, as whole lines or else anywhere, whatever the line endings; two places at most.

    A line break at an end of the passage is that of a blank line, never of the line next to it alone: an edit
    that quotes one blank line too many must not glue lines together.
    """
    lines = (re.escape(line).replace("\r", r"r(?!\n)") for line in search.split("\n"))
    passage = r"\r?\n".join(lines)
    starts, ends = search[0] == "\n", search[-1] == "\n"
    forms = [rf"{_BEGINS * starts}{passage}{_GOES_ON * ends}"]
    if not (starts or ends):
        forms.insert(0, rf"{_BEGINS}{passage}{_ENDS}")
    for form in forms:
        pattern = re.compile(form)
        if first := pattern.search(text):
            second = pattern.search(text, first.start() + 1)  # which may overlap
            return [match.span() for match in (first, second) if match]
    return []


def _replaced(text: str, places: Sequence[_Place]) -> str:
    parts: list[str] = []
    cursor = 0
    for edit, start, end, replace in sorted(places, key=lambda place: place[1:3]):
        first, last = start, end
        newline = re.search(r"\r?\n", text[start:end]) or re.search(r"\r?\n", text)
        if not edit.search.strip():
            line = f"{replace}\n" if text.endswith("\n") else f"\n{replace}"
            replace = line if text or parts else replace  # noqa: PLW2901
        elif not replace:
            first, last = _with_line_ending(text, start, end)
        parts += (text[cursor:first], replace.replace("\n", newline[0] if newline else "\n"))
        cursor = last
    return "".join([*parts, text[cursor:]])


def _with_line_ending(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a passage to delete: whole lines with the line ending after them, else the one before them."""
    if start and text[start - 1] != "\n":
        return start, end
    if after := re.compile(r"\r?\n").match(text, end):
        return start, after.end()
    before = text[:start].removesuffix("\n").removesuffix("\r")
    return (len(before), end) if end == len(text) else (start, end)


# -- blocks ---------------------------------------------------------------------------------------------------------

_MARK: Final = re.compile(
    r"(?P<search><{5,9} ?SEARCH)|(?P<divider>={5,9})|(?P<replace>>{5,9} ?REPLACE)", re.IGNORECASE
)


class ParsedEdits(NamedTuple):
    """The edits of a reply in order, and what in it looked like one and could not be read."""

    edits: tuple[Edit, ...] = ()
    problems: tuple[str, ...] = ()


def holds_markers(text: str) -> bool:
    """Whether a text has a line that opens or closes a block, so that a block could not quote it."""
    return any(_kind(line) in {"search", "replace"} for line in text.split("\n"))


def parse_edits(reply: str) -> ParsedEdits:
    """Read the search/replace blocks of a reply; never raises, whatever the reply.

    What stands around the blocks (prose, code fences) is left out. A marker is a line of its own, indented or not, of
    five to nine characters. The indentation of a block's first marker is taken off its lines if all have it. A block
    that does not end, or that has no dividing line or several, is a problem and no edit.
    """
    edits: list[Edit] = []
    problems: list[str] = []
    block: list[str] = []
    for line in [*reply.split("\n"), SEARCH]:  # one more opening line ends a block that is open at the end
        kind = _kind(line)
        if block and kind in {"search", "replace"}:
            read = _read(block) if kind == "replace" else _broken(block, f"no line {REPLACE!r} at its end")
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


def _read(block: Sequence[str]) -> Edit | str:
    """Read a block with its first line, without its last."""
    dividers = [number for number, line in enumerate(block) if _kind(line) == "divider"]
    # A line of another length than the usual underlines a heading.
    dividers = [number for number in dividers if block[number].strip() == DIVIDER] or dividers
    if len(dividers) != 1:
        return _broken(block, f"{'more than one' if dividers else 'no'} line {DIVIDER!r}")
    indent = block[0][: len(block[0]) - len(block[0].lstrip())]
    search, replace = block[1 : dividers[0]], block[dividers[0] + 1 :]
    return Edit(_outdented(search, indent), _outdented(replace, indent))


def _outdented(lines: Sequence[str], indent: str) -> str:
    if all(line.startswith(indent) for line in lines if line.strip()):
        lines = [line.removeprefix(indent) for line in lines]
    return "\n".join(lines)


def _broken(block: Sequence[str], problem: str) -> str:
    return f"a block has {problem}: {abridge(' '.join(block[1:4]), _EXCERPT)!r}"
