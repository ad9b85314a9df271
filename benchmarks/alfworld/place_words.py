"""Words for places: `cabinets 1 to 4 and 7, drawer 2 and fridge 1`, written and read."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from benchmarks.alfworld.observations import Thing

_IRREGULAR = {"shelf": "shelves", "knife": "knives", "butterknife": "butterknives", "loaf": "loaves"}
_SINGULAR = {plural: singular for singular, plural in _IRREGULAR.items()}
_HISSING = ("ss", "x", "ch", "sh")
_HISSING_PLURALS = tuple(ending + "es" for ending in _HISSING)
_TO = frozenset({"to", "through", "until", "till"})
_JOIN = frozenset({",", "and", "or", "nor", "&"})
_WIDEST_RANGE = 60


class Place(NamedTuple):
    """A receptacle that a sentence names; without a number it means all of its kind."""

    kind: str
    number: int | None


def plural(noun: str) -> str:
    """The plural of a noun: `cabinets`, `boxes`, `shelves`."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    return noun + ("es" if noun.endswith(_HISSING) else "s")


def singular(noun: str) -> str:
    """The singular of a noun as `plural` writes it; a word that is no plural comes back as it is."""
    if noun in _SINGULAR:
        return _SINGULAR[noun]
    if noun.endswith(_HISSING_PLURALS):
        return noun[:-2]
    return noun[:-1] if noun.endswith("s") and not noun.endswith(("ss", "us")) else noun


def join_words(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def write_places(places: Iterable[Thing]) -> str:
    """A list of receptacles as a person writes it: kinds together, runs of three and more as a range.

    Raises:
        ValueError: there is no place to write.
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


def read_numbers(tokens: Sequence[str], start: int) -> tuple[tuple[int, ...], int]:
    """Read `1 to 4, 6 and 7` from `tokens[start]` on; returns the numbers and the index after them."""
    numbers: list[int] = []
    at = start
    while at < len(tokens) and tokens[at].isdecimal():
        first = last = int(tokens[at])
        at += 1
        if at + 1 < len(tokens) and tokens[at] in _TO and tokens[at + 1].isdecimal():
            last = int(tokens[at + 1])
            at += 2
        # A range no room could have is read as its two ends: text is data, and may be anything.
        numbers += range(first, last + 1) if 0 <= last - first <= _WIDEST_RANGE else (first, last)
        after = _after_joint(tokens, at)
        if after >= len(tokens) or not tokens[after].isdecimal():
            break
        at = after
    return tuple(dict.fromkeys(numbers)), at


def _after_joint(tokens: Sequence[str], at: int) -> int:
    while at < len(tokens) and tokens[at] in _JOIN:
        at += 1
    return at
