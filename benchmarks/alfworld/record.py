"""Reads the record of a player's earlier attempts at a game: where it went and what it saw."""

import re
from collections.abc import Iterable, Iterator, Sequence

from .lesson_words import Advice
from .notebook import Notebook
from .observations import Thing, things_in

_STEP = re.compile(
    r"^Action \d+: (.*)$(?:\n^Observation \d+: ((?:(?!^(?:Thought|Action) \d+: ).*\n?)*))?", re.MULTILINE
)


def read_record(text: str) -> list[tuple[str, str]]:
    """Return the commands of a record with their observations, which are empty if the record has commands only."""
    return [(command, observation.strip()) for command, observation in _STEP.findall(text)]


def visited(record: Iterable[tuple[str, str]]) -> frozenset[Thing]:
    """Return the places that a record without observations went to."""
    went_to = (things_in(command) for command, seen in record if not seen and command.startswith("go to "))
    return frozenset(place for places in went_to for place in places)


def witnessed(record: Sequence[tuple[str, str]], wanted: Iterable[str]) -> Iterator[Advice]:
    """Return where things were seen and where none were: the most that a lesson about the attempts could say."""
    book = Notebook()
    for command, observation in record:
        book.note(command, observation)
    for kind in wanted:
        there = tuple(dict.fromkeys(place for thing, place in book.first_seen.items() if thing.kind == kind))
        yield Advice(kind, absent=False, places=there)
        yield Advice(kind, absent=True, places=tuple(place for place in book.contents if place not in there))
