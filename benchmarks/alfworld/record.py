"""What a player makes of the record of its own earlier attempts at a game: where it was and what it saw, no advice."""

import re
from collections.abc import Iterable, Iterator, Sequence

from .lesson_words import Advice
from .notebook import Notebook
from .observations import Thing, things_in

_STEP = re.compile(
    r"^Action \d+: (.*)$(?:\n^Observation \d+: ((?:(?!^(?:Thought|Action) \d+: ).*\n?)*))?", re.MULTILINE
)


def read_record(text: str) -> list[tuple[str, str]]:
    """Read the commands of a record, each with its observation; without one where the record has commands alone."""
    return [(command, observation.strip()) for command, observation in _STEP.findall(text)]


def visited(record: Iterable[tuple[str, str]]) -> frozenset[Thing]:
    """The places that a record of commands alone went to."""
    gone = (things_in(command) for command, seen in record if not seen and command.startswith("go to "))
    return frozenset(place for places in gone for place in places)


def witnessed(record: Sequence[tuple[str, str]], wanted: Iterable[str]) -> Iterator[Advice]:
    """Where things were seen, and in which places none was: what a lesson about the attempt could say at most."""
    book = Notebook()
    for command, observation in record:
        book.note(command, observation)
    for kind in wanted:
        there = tuple(dict.fromkeys(place for thing, place in book.first_seen.items() if thing.kind == kind))
        yield Advice(kind, absent=False, places=there)
        yield Advice(kind, absent=True, places=tuple(place for place in book.contents if place not in there))
