"""Read advice about where things are out of a lesson, in the words of the offline reflector and no others.

The forms are those of :mod:`benchmarks.alfworld.rules_reflector`. A sentence in other words is passed over: a reader
that guessed at words it does not know would take some sentences for their opposite.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .place_words import Place, read_places

Stance: TypeAlias = Literal["seen", "absent", "search"]

_PLACE = r"(?P<places>[a-z]+ \d+)"
# A list of places ends where a clause does.
_PLACES = r"(?P<places>[a-z]+ \d+.*?)(?=, because\b|[;.:]|$)"
_FORMS: tuple[tuple[Stance, re.Pattern[str]], ...] = (
    ("seen", re.compile(rf"\b(?:take|and) (?P<thing>[a-z]+) \d+ from {_PLACE}")),
    ("seen", re.compile(rf"\bremember that (?P<thing>[a-z]+) \d+ is in {_PLACE}")),
    ("seen", re.compile(rf"\buse (?P<thing>[a-z]+) \d+, which is on {_PLACE}")),
    ("search", re.compile(rf"\blook for the (?P<thing>[a-z]+) in {_PLACES}")),
    ("absent", re.compile(rf"\bbecause there was no (?:other )?(?P<thing>[a-z]+) in {_PLACES}")),
)


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing a sentence says of `thing`: where it is (`seen`), is not (`absent`) or may be (`search`)."""

    thing: str
    stance: Stance
    places: tuple[Place, ...]


def read_advice(text: str, *, wanted: Collection[str]) -> tuple[Advice, ...]:
    """What a lesson says about where the `wanted` kinds of things are, in its order; empty for other words."""
    found = [
        (match.start(), Advice(match["thing"], stance, read_places(match["places"])))
        for stance, form in _FORMS
        for match in form.finditer(text.lower())
        if match["thing"] in wanted
    ]
    return tuple(advice for _, advice in sorted(found, key=lambda each: each[0]))
