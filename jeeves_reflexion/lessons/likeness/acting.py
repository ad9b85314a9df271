"""What a lesson wants done: its verbs, those that carry little, and those that say nothing and yet are an act."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from jeeves_reflexion.lessons.likeness.pairing import same_here
from jeeves_reflexion.lessons.likeness.sense import Sense, sense_of
from jeeves_reflexion.lessons.likeness.spelling import misspelt
from jeeves_reflexion.lessons.likeness.wording import LIGHT, MAKING, PROVIDING, SAME_AS, stem

LIGHT_STEMS: Final = frozenset(map(stem, LIGHT))
MAKE: Final = stem("make")
_MAKING: Final = frozenset(map(stem, MAKING))


def acts(text: str) -> frozenset[str]:
    """Return the stems of the words that stand in a text where a verb does."""
    sense = sense_of(text)
    return sense.heads | sense.states


def says_what_to_do(text: str) -> bool:
    """Whether a text has a verb of its own, be it one that says nothing else ("make", "needs")."""
    sense = sense_of(text)
    return bool(sense.heads or sense.states or sense.needy or sense.acting)


def weighty(words: frozenset[str]) -> frozenset[str]:
    """Return those of some stems that carry more than the noun that they come with ("call" carries little)."""
    return words - LIGHT_STEMS


def other_act_in(words: set[str], own: Sense, other: Sense, matched: Collection[str]) -> bool:
    """Whether one text says another act where the other has a verb that says nothing by itself.

    "The valve leaks oil" is no way to say "the valve needs oil", nor "block a request" one to say "make a request".
    """
    empty = (other.acting & _MAKING) - own.acting
    if not (empty or other.needy):
        return False
    for word in words - own.aside - LIGHT_STEMS:
        if misspelt(own.surface.get(word, word)):
            continue
        if any((thing, word) in own.after for thing in other.needy - own.needy):
            return True
        if word not in own.acting or own.needy:
            continue
        if any(word in SAME_AS.get(verb, ()) or same_here(word, verb, own, other) for verb in empty):
            continue
        if not (other.needy and word in PROVIDING):
            return any(near in matched for part in own.parts if word in part for near in part)
    return False


def provided(words: set[str], own: Sense, other: Sense) -> set[str]:
    """Return the verbs that give a thing what another text says that it needs."""
    return words & own.acting & PROVIDING if other.needy else set()
