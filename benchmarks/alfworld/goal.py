"""The task sentence of an ALFWorld game, for the six task types of the benchmark."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .place_words import plural

Treatment: TypeAlias = Literal["clean", "heat", "cool"]

# The adjective of each treatment in task sentences, and the receptacle that does it.
ADJECTIVES: dict[Treatment, str] = {"clean": "clean", "heat": "hot", "cool": "cool"}
APPLIANCES: dict[Treatment, str] = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}

# Things are put in these receptacles, and on all others.
_CONTAINERS = frozenset(
    {
        "bathtubbasin",
        "cabinet",
        "coffeemachine",
        "drawer",
        "fridge",
        "garbagecan",
        "laundryhamper",
        "microwave",
        "safe",
        "sinkbasin",
    }
)
_TREATMENT_OF: dict[str, Treatment] = {
    "clean": "clean",
    "hot": "heat",
    "heat": "heat",
    "cool": "cool",
    "cold": "cool",
}
_SENTENCE = re.compile(r"your task is to:\s*(.+?)\s*\.?\s*$", re.IGNORECASE | re.MULTILINE)
_WORD = r"([a-z]+)"
_INTO = r"(?:in/on|into|inside|onto|in|on|to)"
_THE = r"(?:(?:a|an|the|some) )?"
_LOOK = re.compile(rf"(?:look at|examine) {_THE}{_WORD} (?:under|with|using|in the light of) {_THE}{_WORD}")
_TWO = re.compile(rf"(?:put|find) two {_WORD}(?: and put them)? {_INTO} {_THE}{_WORD}")
_TREATED = re.compile(rf"put {_THE}(clean|hot|cool|cold) {_WORD} {_INTO} {_THE}{_WORD}")
_TREAT_AND_PUT = re.compile(rf"(clean|heat|cool) {_THE}{_WORD} and put it {_INTO} {_THE}{_WORD}")
_PUT = re.compile(rf"put {_THE}{_WORD} {_INTO} {_THE}{_WORD}")


class GoalNotUnderstoodError(ValueError):
    """The task sentence is none of the six task types."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a game asks for.

    Attributes:
        target: the kind of object.
        destination: the kind of receptacle for the object; `None` if the task is to look at it under a lamp.
        treatment: what must be done to the object first.
        lamp: the kind of lamp; `None` unless the task is to look at the object.
        count: how many objects are needed, 1 or 2.
    """

    target: str
    destination: str | None = None
    treatment: Treatment | None = None
    lamp: str | None = None
    count: int = 1

    @property
    def wanted(self) -> tuple[str, ...]:
        """The kinds of things to find in the room."""
        return (self.target,) if self.lamp is None else (self.target, self.lamp)

    def __str__(self) -> str:
        if self.lamp is not None:
            return f"look at the {self.target} under the {self.lamp}"
        if self.count == 2:
            return f"put two {plural(self.target)} {self.where_to}"
        words = f"{'' if self.treatment is None else ADJECTIVES[self.treatment] + ' '}{self.target}"
        return f"put {'an' if words[0] in 'aeiou' else 'a'} {words} {self.where_to}"

    @property
    def where_to(self) -> str:
        """The destination in words, `in the cabinet` or `on the desk`; empty if there is none."""
        if self.destination is None:
            return ""
        return f"{'in' if self.destination in _CONTAINERS else 'on'} the {self.destination}"

    def verbs_at(self, kind: str) -> tuple[str, ...]:
        """Return the verbs of the commands that a player gives at receptacles of a kind when it holds the thing."""
        putting = ("put", "move") if kind == self.destination else ()
        return (
            (*putting, self.treatment) if self.treatment and APPLIANCES[self.treatment] == kind else putting
        )


def parse_goal(text: str) -> Goal:
    """Return the goal of an opening (its line `Your task is to: ...`) or of a bare task sentence.

    Raises:
        GoalNotUnderstoodError: the sentence is none of the six task types (none of which has slices).
    """
    found = _SENTENCE.search(text)
    sentence = " ".join((found.group(1) if found else text).lower().rstrip(" .\n").split())
    if match := _LOOK.fullmatch(sentence):
        return Goal(match[1], lamp=match[2])
    if match := _TWO.fullmatch(sentence):
        return Goal(match[1], match[2], count=2)
    if match := _TREATED.fullmatch(sentence) or _TREAT_AND_PUT.fullmatch(sentence):
        return Goal(match[2], match[3], _TREATMENT_OF[match[1]])
    if match := _PUT.fullmatch(sentence):
        return Goal(match[1], match[2])
    raise GoalNotUnderstoodError(f"not one of ALFWorld's six task types: {sentence[:200]!r}")
