"""Reads the texts of an ALFWorld game: things, openings and observations.

Both dialects are read: classic games answer `You arrive at loc 30.` and `You put the mug 1 in/on the desk 1.`; games
with the grammar of the current ALFWorld wheel answer `You arrive at desk 1.` and `You move the mug 1 to the desk 1.`
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

_THING = re.compile(r"\b([a-z]+) (\d{1,6})\b")
_OPENING_LIST = re.compile(r"you see (.+?)\.\s", re.IGNORECASE | re.DOTALL)
_LISTING = re.compile(
    r"\b(?:on|in) (?:the )?(it|[a-z]+ \d+), you see (.+?)\.(?:\s|$)", re.IGNORECASE | re.DOTALL
)
_STATE = re.compile(r"\bthe ([a-z]+ \d+) is (open|closed)\.", re.IGNORECASE)
_ARRIVAL = re.compile(r"^\s*you arrive at (loc )?", re.IGNORECASE)


class Thing(NamedTuple):
    """An object or a receptacle as games name it, by kind and number: `mug 1`."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


class UnreadableOpeningError(ValueError):
    """The opening names no receptacle, so there is nowhere to go."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one observation says.

    Attributes:
        nothing_happened: the command had no effect.
        place: the receptacle that is described, if any.
        closed: the receptacle is closed, so its contents are unknown.
        contents: what is in or on it; `None` if the text doesn't say.
        says_move: the dialect, if the text shows it: `True` for `move X to Y`, `False` for `put X in/on Y`.
    """

    nothing_happened: bool = False
    place: Thing | None = None
    closed: bool = False
    contents: tuple[Thing, ...] | None = None
    says_move: bool | None = None


def things_in(text: str) -> tuple[Thing, ...]:
    """Return every `kind number` of the text, in order."""
    return tuple(Thing(kind, int(number)) for kind, number in _THING.findall(text.lower()))


def read_opening(opening: str) -> tuple[Thing, ...]:
    """Return the receptacles that the opening of a game lists, in order.

    Raises:
        UnreadableOpeningError: the opening has no list of receptacles.
    """
    found = _OPENING_LIST.search(opening + "\n")
    places = tuple(dict.fromkeys(things_in(found.group(1)))) if found else ()
    if not places:
        raise UnreadableOpeningError(
            f"no list of receptacles ('you see a cabinet 1, ...') in the opening: {opening[:200]!r}"
        )
    return places


def read_observation(text: str) -> Reading:
    """Read one observation. An unknown text gives an empty `Reading`."""
    if text.strip().lower().startswith("nothing happens"):
        return Reading(nothing_happened=True)
    arrival = _ARRIVAL.match(text)
    says_move = None if arrival is None else arrival.group(1) is None
    state = _STATE.search(text)
    place = things_in(state.group(1))[0] if state else None
    if state and state.group(2).lower() == "closed":
        return Reading(place=place, closed=True, says_move=says_move)
    listing = _LISTING.search(text)
    if listing is None:
        return Reading(place=place, says_move=says_move)
    named = things_in(listing.group(1))
    return Reading(
        place=named[0] if named else place, contents=things_in(listing.group(2)), says_move=says_move
    )
