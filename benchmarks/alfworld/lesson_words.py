"""Reads from a lesson where things are, by names of places and by negation, whatever the wording.

A place belongs to the thing that its clause names, or the clause beside it if that one names no place. The thing is at
the place unless a negation precedes one of the two. The words of negation are those of NLTK's ``mark_negation`` and of
VADER (Hutto and Gilbert 2014); as in the former, a negation reaches to the end of its clause. What the player itself
does to a thing at a place ("put it in cabinet 1", "clean it with sinkbasin 1") does not say where the thing was.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from .goal import Goal
from .observations import Thing
from .place_words import list_pattern, read_places, singular

_NEGATION = re.compile(
    r"n['\u2019]t\b|\b(?:no|not|never|none|noone|nope|nor|neither|nothing|nowhere|cannot|without|rarely|seldom|despite|uhuh|"
    r"uhuh|(?:ai|are|ca|could|dare|did|do|does|had|has|have|is|might|must|need|ought|sha|should|was|were|wo|would)nt)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_CLAUSE = re.compile(r"[,:;]\s+|\s+and\s+")
_NOUN = re.compile(r"\b([a-z]+)( \(?\d)?")
_LISTED = re.compile("\x00(\\d+)\x00")


@dataclass(frozen=True, slots=True)
class Advice:
    """A sentence's statement on `thing`: that it was at these places, or (`absent`) at none of them."""

    thing: str
    absent: bool
    places: tuple[Thing, ...]


def read_advice(text: str, goal: Goal, kinds: Collection[str]) -> tuple[Advice, ...]:
    """Return what a lesson says about the places of a goal's things, in order.

    Args:
        text: the lesson, in any words.
        goal: names the kinds of things to find, and what will be done with them where.
        kinds: the kinds of receptacles in the room.
    """
    lists: list[tuple[Thing, ...]] = []

    def mark(found: re.Match[str]) -> str:
        places = read_places(found[0])
        if not any(place.kind in kinds for place in places):
            return found[0]
        lists.append(places)
        return f"\x00{len(lists) - 1}\x00"

    # A list of places has commas, which end a clause elsewhere.
    marked = list_pattern(goal.wanted).sub(mark, text.lower().replace("\x00", ""))
    return tuple(
        advice
        for sentence in _SENTENCE.split(marked)
        for advice in _read_sentence(_CLAUSE.split(sentence), lists, goal)
    )


def _read_sentence(
    clauses: Sequence[str], lists: Sequence[tuple[Thing, ...]], goal: Goal
) -> Iterator[Advice]:
    nouns = [_nouns(clause, goal) for clause in clauses]
    for here, clause in enumerate(clauses):
        beside = [n for n in (here + 1, here - 1) if 0 <= n < len(clauses) and "\x00" not in clauses[n]]
        about = next((n for n in (here, *beside) if nouns[n]), -1)
        for listed in _LISTED.finditer(clause) if about >= 0 else ():
            start = listed.start() if about == here else 0
            thing = min(nouns[about], key=lambda noun: abs(noun[0] - start))[1]
            if thing not in goal.wanted:
                continue
            last = max(at for at, noun in nouns[about] if noun == thing)
            absent = _negated(clauses[about], last) or _negated(clause, listed.start())
            places = lists[int(listed[1])]
            if not absent:
                words = f"{clause} {clauses[about]}"
                places = tuple(place for place in places if not _brings(words, goal, place.kind))
            yield Advice(thing, absent, places)


def _brings(words: str, goal: Goal, kind: str) -> bool:
    return any(re.search(rf"\b{verb}", words) for verb in goal.verbs_at(kind))


def _nouns(clause: str, goal: Goal) -> list[tuple[int, str]]:
    """Return the wanted things that a clause names, and others that it names with a number, with their positions."""
    found = ((noun.start(), singular(noun[1]), noun[2]) for noun in _NOUN.finditer(clause))
    return [(at, kind) for at, kind, number in found if number or kind in goal.wanted]


def _negated(clause: str, at: int) -> bool:
    negation = _NEGATION.search(clause)
    return negation is not None and negation.start() < at
