"""What a player makes of the record of its own earlier attempts at a game: where it was and what it saw, no advice."""

import re
from collections.abc import Iterable

from .notebook import Notebook
from .observations import Thing, things_in

SEEN, UNVISITED, VISITED = range(3)

_STEP = re.compile(
    r"^Action \d+: (.*)$(?:\n^Observation \d+: ((?:(?!^(?:Thought|Action) \d+: ).*\n?)*))?", re.MULTILINE
)


def read_record(text: str) -> list[tuple[str, str]]:
    """Read the commands of a record, each with its observation; without one where the record has commands alone."""
    return [(command, observation.strip()) for command, observation in _STEP.findall(text)]


class Record:
    """Where earlier attempts were: places that held a thing come first, those that were done with last.

    Done with is a place that was looked into, or, by a record of commands alone, one that was gone to.
    """

    def __init__(self, steps: Iterable[tuple[str, str]]) -> None:
        book, visited = Notebook(), set[Thing]()
        for command, observation in steps:
            book.note(command, observation)
            if not observation and command.startswith("go to "):
                visited.update(things_in(command))
        self._done = visited | set(book.contents)
        self._seen = {(thing.kind, place) for thing, place in book.first_seen.items()}

    def rank(self, kind: str, place: Thing) -> int:
        """How good a place is to look for a kind of thing, from :data:`SEEN` to :data:`VISITED`."""
        if (kind, place) in self._seen:
            return SEEN
        return VISITED if place in self._done else UNVISITED
