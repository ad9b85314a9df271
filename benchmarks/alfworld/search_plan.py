"""The order of a search, by what recalled lessons say about where things are."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .goal import Goal
from .lesson_words import Advice, read_advice
from .observations import Thing

# From the best place to look to the worst. The KIND ranks are for other places of the same kind.
SEEN_THERE, KIND_SEEN, UNKNOWN, KIND_BARREN, ABSENT_THERE = range(5)

# Fewer places searched in vain say nothing about the others of their kind.
_BARREN_FROM = 3


@dataclass(slots=True)
class _Beliefs:
    """Beliefs about one kind of thing. The first (most relevant) lesson that names a place is believed."""

    places: dict[Thing, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)

    def hear(self, advice: Advice) -> None:
        for place in advice.places:
            self.places.setdefault(place, ABSENT_THERE if advice.absent else SEEN_THERE)
        for kind in {place.kind for place in advice.places}:
            if not advice.absent:
                self.kinds[kind] = KIND_SEEN
            elif sum(kind == place.kind for place in advice.places) >= _BARREN_FROM:
                self.kinds.setdefault(kind, KIND_BARREN)


class SearchPlan:
    """The order in which to search a room for things, given lessons.

    A place that a lesson names is tried first if the room has one of that name, although the lesson may be about
    another room. What a lesson says about some places also applies, more weakly, to others of their kind.

    Args:
        places: the receptacles of the room, in the order of a search without lessons.
        goal: names the kinds of things to find.
        lessons: sentences, the most relevant first.
    """

    def __init__(self, places: Sequence[Thing], goal: Goal, lessons: Sequence[str]) -> None:
        self._places = tuple(places)
        self._beliefs = {thing: _Beliefs() for thing in goal.wanted}
        kinds = {place.kind for place in self._places}
        useful: list[str] = []
        for lesson in lessons:
            here = [
                piece
                for piece in read_advice(lesson, goal, kinds)
                if any(place.kind in kinds for place in piece.places)
            ]
            for piece in here:
                self.hear(piece)
            if here:
                useful.append(lesson)
        self.useful = tuple(useful)

    def hear(self, advice: Advice) -> None:
        """Believe advice on a wanted thing, except about places that earlier advice names."""
        self._beliefs[advice.thing].hear(advice)

    def rank(self, thing: str, place: Thing) -> int:
        """Return how good a place is to look for a kind of thing, from `SEEN_THERE` to `ABSENT_THERE`."""
        beliefs = self._beliefs[thing]
        return beliefs.places.get(place, beliefs.kinds.get(place.kind, UNKNOWN))

    def order(self, thing: str) -> list[Thing]:
        """Return all places, the best for a kind of thing first, and equally good ones in the order without lessons."""
        return sorted(self._places, key=lambda place: self.rank(thing, place))
