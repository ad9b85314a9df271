"""Writes and reads lists of places such as `cabinets 1 to 4 and 7, drawer 2 and fridge 1`."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from .observations import Thing

_IRREGULAR = {"shelf": "shelves", "knife": "knives", "butterknife": "butterknives", "loaf": "loaves"}
_SINGULAR = {plural: singular for singular, plural in _IRREGULAR.items()}
_HISSING = ("ss", "x", "ch", "sh")
_HISSING_PLURALS = tuple(ending + "es" for ending in _HISSING)
_WIDEST_RANGE = 60
_RUN = r"(\d{1,6})(?:\s*(?:-|to)\s*(\d{1,6}))?"
_AND = r"(?:,\s*(?:(?:and|or)\s+)?|\s+(?:and|or)\s+)"
_NUMBERS = rf"{_RUN}(?:{_AND}{_RUN})*"
_NAMED = rf"[a-z]+ (?:\({_NUMBERS}\)|{_NUMBERS})"


def plural(noun: str) -> str:
    """Return the plural of a noun: `cabinets`, `boxes`, `shelves`."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    return noun + ("es" if noun.endswith(_HISSING) else "s")


def singular(noun: str) -> str:
    """Return the singular of a plural that `plural` makes; other words are returned unchanged."""
    if noun in _SINGULAR:
        return _SINGULAR[noun]
    if noun.endswith(_HISSING_PLURALS):
        return noun[:-2]
    return noun[:-1] if noun.endswith("s") and not noun.endswith(("ss", "us")) else noun


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Join words as in `a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def write_places(places: Iterable[Thing]) -> str:
    """Write a list of receptacles by kind, with three or more consecutive numbers as a range.

    Raises:
        ValueError: there are no places.
    """
    groups = []
    for kind, members in groupby(sorted(set(places)), key=lambda place: place.kind):
        numbers = [member.number for member in members]
        groups.append(f"{kind if len(numbers) == 1 else plural(kind)} {join_words(_runs(numbers))}")
    if not groups:
        raise ValueError("no places to write")
    return join_words(groups)


def _runs(numbers: Sequence[int]) -> list[str]:
    written: list[str] = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        written += [f"{values[0]} to {values[-1]}"] if len(values) > 2 else [str(value) for value in values]
    return written


def list_pattern(without: Iterable[str] = ()) -> re.Pattern[str]:
    """Return the pattern of lists that `read_places` reads, except for the kinds in ``without``."""
    named = rf"\b(?!(?:{'|'.join(without)})s? ){_NAMED}"
    return re.compile(rf"{named}(?:{_AND}{named})*")


def read_places(text: str) -> tuple[Thing, ...]:
    """Return the receptacles of a list: `cabinets 1 to 4 and 7, drawer 2`, `cabinet (1-4) or drawer 2`."""
    places: dict[Thing, None] = {}
    for named in re.finditer(_NAMED, text):
        kind, numbers = named[0].split(" ", 1)
        for first, last in re.findall(_RUN, numbers):
            end = int(last or first)
            # Text may contain anything: of a range that is too wide for a room, only the two ends are read.
            within = range(int(first), end + 1) if end - int(first) <= _WIDEST_RANGE else (int(first), end)
            places.update(dict.fromkeys(Thing(singular(kind), number) for number in within))
    return tuple(places)
