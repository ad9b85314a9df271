"""How a question asks, and what kind of answer such a wording wants.

The table of kinds is what the offline reflector knows about questions. The offline agent does not look at it: what a
wording wants, it is told by lessons alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from .words import word_set

Kind: TypeAlias = Literal[
    "yes_no", "option", "year", "date", "number", "person", "place", "name", "description"
]

KINDS: Final = get_args(Kind)

PHRASES: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "yes_no": "yes or no",
        "option": "one of the two that it names",
        "year": "a year in digits",
        "date": "a date",
        "number": "a number",
        "person": "the name of a person",
        "place": "the name of a place",
        "name": "the name of a thing",
        "description": "the words that say what it is",
    }
)
"""How a lesson says each kind."""

_HEADS: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "year": "year decade",
        "date": "date day birthday",
        "number": "number age population",
        "person": "actor actress author writer director singer player artist person character president founder "
        "composer musician producer politician novelist performer",
        "place": "state city county country town village airport stadium museum region continent place location "
        "building arena street island province nation",
        "name": "band film movie company book novel album song award team group show series episode magazine "
        "university college school station game organization brewery campaign project war battle festival dance "
        "contest party label program club role name title mascot brand airline empire",
        "description": "kind type field profession occupation occupations services genre nationality",
    }
)
_KIND_OF: Final = {head: kind for kind, heads in _HEADS.items() for head in heads.split()}
_ASKS: Final = re.compile(r"\b(who|whom|whose|when|where|how many|how much|what|which|how)\b", re.IGNORECASE)
_CLOSED: Final = re.compile(r"^(are|is|was|were|do|does|did|has|have|had|can)\b", re.IGNORECASE)
_CHOICE: Final = re.compile(r"(?:,|\bis\b|\bof\b|\bfirst\b).* or (?=[A-Z\"'])")
_EITHER: Final = re.compile(r" or (?=[A-Z\"'])")
_WHICH_OF: Final = re.compile(r"(which|who) of [A-Z].* (?:and|or) [A-Z]", re.IGNORECASE)
_SIMPLE: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "who": "person",
        "whom": "person",
        "when": "date",
        "where": "place",
        "how many": "number",
        "how much": "number",
    }
)
_STOPS: Final = word_set(
    """is are was were do does did has have had can that of in by the a an which who whom to for from on at with as
    about his her their its this these those will would could"""
)
_RELATIVE: Final = word_set("who whom whose which when where")
_BEFORE_ASKING: Final = word_set("in at on of for from by with to as is was are were and")
_WORD: Final = re.compile(r"[\w'\u2019.-]*\w")
_MAX_NOUNS: Final = 6


def wording_of(question: str) -> str:
    """Return the words by which a question asks, such as ``what year`` or ``are ... both``; in small letters.

    Two questions of one wording want the same kind of answer, as far as words can tell.
    """
    text = question.strip()
    if opening := _CLOSED.match(text):
        either = _EITHER.search(text) and not re.search(r"\bboth\b", text)
        return f"{opening[1].lower()} ... or" if either else f"{opening[1].lower()} ..."
    if which := _WHICH_OF.match(text):
        return f"{which[1].lower()} ... or"
    asked = _asking(text)
    if asked is None:
        return "no question word"
    word = asked[1].lower()
    choice = " ... or" if _CHOICE.search(text) else ""
    if word in {"what", "which"}:
        head = _head(text[asked.end() :])
        return f"{word} {head}{choice}" if head else f"{word} ...{choice}"
    return word + choice


def wanted(wording: str) -> Kind | None:
    """Return the kind of answer that a wording wants; None where words alone don't say it."""
    first, _, rest = wording.partition(" ")
    if wording.endswith("... or"):
        return "option"
    if _CLOSED.match(wording):
        return "yes_no"
    if first in {"what", "which"}:
        return _KIND_OF.get(rest, _KIND_OF.get(rest.removesuffix("s")))
    return _SIMPLE.get(wording)


def _asking(text: str) -> re.Match[str] | None:
    """The word that asks; "who" and "which" behind a noun only tell which one is meant."""
    found = list(_ASKS.finditer(text))
    asking = [m for m in found if not _tells(text, m)] or found
    return min(asking, key=lambda m: (m[1].lower() == "who" and m.start() > 0, m.start()), default=None)


def _tells(text: str, match: re.Match[str]) -> bool:
    """Whether this is a relative pronoun: it stands behind a word that is no preposition."""
    before = _WORD.findall(text[: match.start()])
    return match[1].lower() in _RELATIVE and bool(before) and before[-1].lower() not in _BEFORE_ASKING


def _head(rest: str) -> str:
    """The noun that a "what" or "which" goes with: the last word before a verb or a preposition."""
    words: list[str] = []
    for word in _WORD.findall(rest.split(",", maxsplit=1)[0])[:_MAX_NOUNS]:
        if word.lower() in _STOPS:
            break
        words.append(word)
    # A noun phrase ends at its last common noun: "Hawaii county", "European culture"; a verb may follow it.
    small = [word for word in words if word[0].islower()]
    known = [word for word in small if word in _KIND_OF or word.removesuffix("s") in _KIND_OF]
    return known[-1] if known else next(iter(small), "")
