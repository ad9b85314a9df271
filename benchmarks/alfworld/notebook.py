"""Notes of what a player has seen and done in one room, made only from commands and their observations."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .observations import Reading, Thing, read_observation, things_in


@dataclass(slots=True)
class Notebook:
    """Notes of one attempt.

    Attributes:
        at: the receptacle at which the player is.
        contents: the things in each receptacle that was looked into.
        closed: receptacles known to be closed.
        first_seen: where each thing was first seen.
        holding: the thing in the player's hand.
        treated: things that were cleaned, heated or cooled.
        placed: things that were put down, and where.
        wasted: commands that changed nothing.
        says_move: the dialect, `None` until the game shows it.
    """

    at: Thing | None = None
    contents: dict[Thing, list[Thing]] = field(default_factory=dict)
    closed: set[Thing] = field(default_factory=set)
    first_seen: dict[Thing, Thing] = field(default_factory=dict)
    holding: Thing | None = None
    treated: set[Thing] = field(default_factory=set)
    placed: dict[Thing, Thing] = field(default_factory=dict)
    wasted: list[str] = field(default_factory=list)
    says_move: bool | None = None

    def note(self, command: str, observation: str) -> Reading:
        """Note a command and its observation, and return the observation as read."""
        seen = read_observation(observation)
        if seen.nothing_happened:
            self.wasted.append(command)
            return seen
        verb = command.split(maxsplit=1)[0] if command.strip() else ""
        self._note_action(verb, things_in(command))
        if seen.says_move is not None:
            self.says_move = seen.says_move
        if seen.place is not None or seen.contents is not None:
            self._note_place(seen)
        return seen

    def _note_action(self, verb: str, things: Sequence[Thing]) -> None:
        match verb, things:
            case "go", [place, *_]:
                self.at = place
            case "close", [place, *_]:
                self.closed.add(place)
            case "open", [place, *_]:
                self.closed.discard(place)
            case "take", [thing, place, *_]:
                self.holding = thing
                self.first_seen.setdefault(thing, place)
                self.placed.pop(thing, None)
                if thing in self.contents.get(place, ()):
                    self.contents[place].remove(thing)
            case (("put" | "move"), [thing, place, *_]) if thing == self.holding:
                self.holding = None
                self.placed[thing] = place
                self.contents.setdefault(place, []).append(thing)
            case (("clean" | "heat" | "cool"), [thing, *_]):
                self.treated.add(thing)
            case _:
                pass

    def _note_place(self, seen: Reading) -> None:
        place = seen.place or self.at
        if place is None:
            return
        if seen.closed:
            self.closed.add(place)
            return
        self.closed.discard(place)
        if seen.contents is not None:
            self.contents[place] = list(seen.contents)
            for thing in seen.contents:
                if thing not in self.placed:
                    self.first_seen.setdefault(thing, place)

    def where(self, kind: str) -> list[tuple[Thing, Thing]]:
        """Return the known things of a kind, each with its place, in the order in which they were noted."""
        return [
            (thing, place)
            for place, things in self.contents.items()
            for thing in things
            if thing.kind == kind
        ]
