"""Where, when and which way: the prepositions before a thing, and which of them can't be said for another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from jeeves_reflexion.lessons.likeness.wording import (
    BREAKS,
    CONTRASTING,
    DETERMINERS,
    DIRECTED,
    EITHER_WAY,
    EMPTY,
    NUMBERS,
    PREPOSITIONS,
    RELATION_OF,
    stem,
)

_MOST_WORDS: Final = 3
"""So many words of a thing's description are read behind its preposition."""
_PARTICLES: Final = frozenset({"in", "out"})
"""Words that may belong to the verb before them; "on" and "off", "up" and "down" are opposites wherever they stand."""
_NONE: Final[frozenset[str]] = frozenset()
_ENDS: Final = BREAKS | RELATION_OF.keys() | PREPOSITIONS | DIRECTED | {"and", "or"}
_IN_ON: Final = frozenset({"in", "on"})
_VERB: Final = " "
"""Behind the stem of a verb that a particle belongs to, which is not the thing of that name."""

Placed: TypeAlias = Mapping[str, frozenset[str]]


def placed_by(tokens: Sequence[str]) -> Placed:
    """Return the stems of what stands behind prepositions, each with the relations that it is in.

    "Put the cup in the cabinet" gives ``{"cup": ..., "cabinet": {"in"}}``; a verb with a particle ("sign in") counts
    as what the particle stands behind.
    """
    found: dict[str, set[str]] = {}
    for at, token in enumerate(tokens):
        relation = RELATION_OF.get(token)
        before = tokens[at - 1] if at else ""
        if relation is None:
            continue
        way_out = relation == "out"
        behind = at + 1 + (way_out and tokens[at + 1 : at + 2] == ["of"])
        # "out" by itself is no preposition.
        things = [] if way_out and behind == at + 1 else _things(tokens, behind)
        if not things and token in _PARTICLES and before and before not in EMPTY:
            things = [stem(before) + _VERB]
        for thing in things:
            found.setdefault(thing, set()).add(relation)
    return {thing: frozenset(relations) for thing, relations in found.items()}


def contrasted(mine: Placed, theirs: Placed, twins: Mapping[str, str]) -> bool:
    """Whether something that two texts share stands in relations that exclude each other."""
    for thing, here in mine.items():
        verb = thing.endswith(_VERB)
        other = twins.get(thing.removesuffix(_VERB), "")
        there = theirs.get(f"{other}{_VERB}" if verb else other, _NONE)
        either = not verb and bool({thing, other} & EITHER_WAY)
        if there and all(_exclude(x, y, either=either) for x in here for y in there):
            return True
    return False


def _exclude(one: str, other: str, *, either: bool) -> bool:
    pair = frozenset((one, other))
    return pair in CONTRASTING and not (either and pair == _IN_ON)


def _things(tokens: Sequence[str], start: int) -> list[str]:
    found: list[str] = []
    for token in tokens[start : start + _MOST_WORDS + 1]:
        if token in _ENDS or token in NUMBERS or token[0].isdigit():  # how much is no place
            break
        if token not in DETERMINERS and token not in EMPTY:
            found.append(stem(token))
    return found[:_MOST_WORDS]
