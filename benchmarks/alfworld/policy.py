"""The offline player of ALFWorld: rules over plain text, without a model and without any knowledge of the game.

It plays like a novice with common sense: it understands the task, opens what is closed, knows which appliance cleans,
heats and cools, and never looks twice into one place. It does not know where things are, so it searches in a random
order by its seed. Only the words of lessons change that order.
"""

import random
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .goal import APPLIANCES, Treatment, parse_goal
from .notebook import Notebook
from .observations import Thing, read_opening, things_in
from .record import visited, witnessed
from .search_plan import KIND_BARREN, KIND_SEEN, SEEN_THERE, UNKNOWN, SearchPlan

_REASONS = {
    SEEN_THERE: "a lesson says it was there",
    KIND_SEEN: "a lesson says that others of its kind held one",
    UNKNOWN: "I know nothing better",
    KIND_BARREN: "the better places are done, though lessons say its kind held none",
}
_LAST_RESORT = "only places that a lesson calls empty are left"
_OF_LESSONS = re.compile("a lesson (?:says|calls)|lessons say")


class Move(NamedTuple):
    """A thought and a command."""

    thought: str
    command: str


class Explorer:
    """Plays one attempt at one game.

    Args:
        opening: the first text of a game: the receptacles in sight and the task.
        lessons: sentences recalled for this game, the most relevant first.
        record: commands of earlier attempts at this game, with the game's answers if they are known.
        seed: decides the order in which the player searches the room without lessons.

    Raises:
        GoalNotUnderstoodError: the task is none of ALFWorld's six types.
        UnreadableOpeningError: the opening lists no receptacles.
    """

    def __init__(
        self,
        opening: str,
        *,
        lessons: Sequence[str] = (),
        record: Iterable[tuple[str, str]] = (),
        seed: int = 0,
    ) -> None:
        self._goal = parse_goal(opening)
        places = list(read_opening(opening))
        random.Random(seed).shuffle(places)
        self._places = tuple(places)
        self._plan = SearchPlan(places, self._goal, lessons)
        self._recorded = tuple(record)
        self._visited = visited(self._recorded)
        for advice in witnessed(self._recorded, self._goal.wanted):
            self._plan.hear(advice)
        self._book = Notebook()
        self._given_up: set[Thing] = set()
        self._put_tried: set[Thing] = set()
        self._last: str | None = None

    @property
    def read_lessons(self) -> tuple[str, ...]:
        """The lessons that say something about this task in this room."""
        return self._plan.useful

    def next(self, observation: str) -> Move:
        """Return the next move after the game's answer to the last one (at first, its opening)."""
        if self._last is not None:
            seen = self._book.note(self._last, observation)
            if seen.nothing_happened:
                self._learn_from_nothing(self._last)
            elif self._last.startswith("examine ") and seen.contents is None and not seen.closed:
                self._given_up.update(things_in(self._last))
        move = self._decide()
        self._last = move.command
        return move

    def _learn_from_nothing(self, command: str) -> None:
        verb, things = command.split(maxsplit=1)[0], things_in(command)
        if verb == "go":
            # The player is there already: several receptacles can share one spot.
            self._book.at = things[0]
        elif verb in {"put", "move"} and things[1] not in self._put_tried:
            # Try the other dialect first.
            self._put_tried.add(things[1])
            self._book.says_move = verb == "put"
        elif things:
            self._given_up.add(things[0] if verb in {"take", "open", "examine", "use"} else things[1])

    def _decide(self) -> Move:
        goal, held = self._goal, self._book.holding
        if held is None:
            return self._fetch()
        if goal.lamp is not None:
            return self._use_lamp(goal.lamp, held)
        if goal.treatment is not None and held not in self._book.treated:
            return self._treat(goal.treatment, held)
        return self._deliver(held)

    def _fetch(self) -> Move:
        target = self._goal.target
        home = self._destination() if self._goal.count == 2 else None
        for thing, place in self._nearest(self._book.where(target)):
            if place != home and thing not in self._book.placed:
                why = f"The {thing} is at {place}; I need it."
                return self._reach(place, why) or Move(why, f"take {thing} from {place}")
        return self._search(target)

    def _nearest(self, found: Iterable[tuple[Thing, Thing]]) -> list[tuple[Thing, Thing]]:
        usable = [(thing, place) for thing, place in found if thing not in self._given_up]
        return sorted(usable, key=lambda pair: pair[1] != self._book.at)

    def _search(self, thing: str) -> Move:
        for place in sorted(self._plan.order(thing), key=lambda place: place in self._visited):
            if place in self._book.contents or place in self._given_up:
                continue
            reason = _REASONS.get(self._plan.rank(thing, place), _LAST_RESORT)
            if self._recorded:
                reason = _OF_LESSONS.sub("I saw", reason)
            why = f"I look for a {thing} at {place}: {reason}."
            return self._reach(place, why) or Move(why, f"examine {place}")
        return Move(f"I have searched every place for a {thing}.", "look")

    def _use_lamp(self, lamp: str, held: Thing) -> Move:
        for light, place in self._nearest(self._book.where(lamp)):
            why = f"I hold the {held}; the {light} is at {place}."
            return self._reach(place, why) or Move(why, f"use {light}")
        return self._search(lamp)

    def _treat(self, treatment: Treatment, held: Thing) -> Move:
        appliance = APPLIANCES[treatment]
        place = self._choose(appliance)
        if place is None:
            return Move(f"There is no {appliance} I could {treatment} the {held} with.", "look")
        why = f"I {treatment} the {held} with {place}."
        return self._reach(place, why, inside=False) or Move(why, f"{treatment} {held} with {place}")

    def _deliver(self, held: Thing) -> Move:
        place = self._destination()
        if place is None:
            return Move(f"There is no {self._goal.destination} I could put the {held} in.", "look")
        why = f"The {held} belongs in {place}."
        command = f"move {held} to {place}" if self._book.says_move else f"put {held} in/on {place}"
        return self._reach(place, why) or Move(why, command)

    def _destination(self) -> Thing | None:
        """Return the place for the held thing; of two things, the second goes where the first is."""
        kind = self._goal.destination
        if self._goal.count == 2:
            filled = [place for _, place in self._book.where(self._goal.target) if place.kind == kind]
            if filled:
                return max(filled, key=filled.count)
        return None if kind is None else self._choose(kind)

    def _choose(self, kind: str) -> Thing | None:
        """Return a receptacle of a kind: the one at which the player is, else one known to be open, else any."""
        usable = [place for place in self._places if place.kind == kind and place not in self._given_up]
        book = self._book
        return min(usable, key=lambda place: (place != book.at, place not in book.contents), default=None)

    def _reach(self, place: Thing, why: str, *, inside: bool = True) -> Move | None:
        """Return the move that is still needed to be at a place (and see inside), or `None`."""
        if self._book.at != place:
            return Move(why, f"go to {place}")
        if inside and place in self._book.closed:
            return Move(why, f"open {place}")
        return None
