"""What recalled lessons make a reader believe about where things are."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .goal import Goal
from .lesson_words import Advice, read_advice
from .observations import Thing

# From the best place to look to the worst. Neighbours of a place share its kind only.
SEEN_THERE, KIND_SEEN, UNKNOWN, KIND_BARREN, ABSENT_THERE = range(5)

# Fewer searched in vain say nothing about the rest of their kind.
_BARREN_FROM = 3


@dataclass(slots=True)
class _Beliefs:
    """About one kind of thing; the first (most relevant) lesson that speaks of a place is believed."""

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
    """The order in which to search a room for things, given the lessons a reader has room for.

    An exact place is taken as a guess to try first where the room has one of that name: the reader can't know
    whether the lesson is about this very room. What a lesson says of some places carries over to others of
    their kind, weakly.

    Args:
        places: the receptacles of the room, in the order a reader without lessons would search them.
        goal: names the kinds of things to be found.
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
        """Believe what is said of a thing that is wanted, as far as nothing said before speaks of the same place."""
        self._beliefs[advice.thing].hear(advice)

    def rank(self, thing: str, place: Thing) -> int:
        """How good a place is to look for that kind of thing, from `SEEN_THERE` to `ABSENT_THERE`."""
        beliefs = self._beliefs[thing]
        return beliefs.places.get(place, beliefs.kinds.get(place.kind, UNKNOWN))

    def order(self, thing: str) -> list[Thing]:
        """All places, the best for that kind of thing first; equally good ones as without lessons."""
        return sorted(self._places, key=lambda place: self.rank(thing, place))
