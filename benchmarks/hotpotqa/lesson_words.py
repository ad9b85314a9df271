"""The sentences by which the offline agent and its reflector speak: written here, and read here.

    When a question asks "what year", answer with a year in digits; for "In what year was ... formed" the answer is not
    "1984", so read "Bon Jovi" as well.

What stands before the semicolon holds for every question of that wording, what follows it for one question. Where the
reflector knows of no kind, there is the second half alone, with a capital letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .scorer import normalize_answer
from .wording import PHRASES, Kind, wording_of

_GENERAL: Final = re.compile(
    r"When a question asks \"(?P<wording>[^\"]+)\", answer with (?P<phrase>[^;]+?)\.?(?:;|$)"
)
# From its first word to its last: "do not read ... as well" must not be read as its opposite.
_OWN: Final = re.compile(
    r"(?:; f|^F)or \"(?P<question>[^\"]+)\" (?:say something rather than nothing)?"
    r"(?:the answer is not (?P<answers>\"[^\"]*\"(?: or \"[^\"]*\")*)(?:, so (?=read)|(?=\.?$)))?"
    r"(?:read \"(?P<page>[^\"]+)\" as well)?\.?$"
)
_QUOTED: Final = re.compile(r"\"([^\"]+)\"")
_KIND_OF: Final = {phrase: kind for kind, phrase in PHRASES.items()}
_EXCERPT: Final = 90
_SHOWN: Final = 60
_MOST_REFUSED: Final = 4


@dataclass(frozen=True, slots=True)
class Advice:
    """What the lessons tell about one question. ``used`` are those that say something about it.

    ``refused`` are answers that were wrong, normalised; ``pages`` are titles to read.
    """

    kind: Kind | None = None
    refused: frozenset[str] = frozenset()
    pages: tuple[str, ...] = ()
    used: tuple[str, ...] = ()


def write_lesson(question: str, *, kind: Kind | None, refused: Sequence[str] = (), page: str = "") -> str:
    """Return one sentence: the kind of answer wanted, the last answers that were wrong, and a page to read."""
    shown = [f'"{_plain(answer)}"' for answer in refused if _plain(answer)][-_MOST_REFUSED:]
    told = [f"the answer is not {' or '.join(shown)}"] if shown else []
    told += [f'read "{_plain(page)}" as well'] if _plain(page) else []
    if kind is None and not told:
        told = ["say something rather than nothing"]
    parts = [f'When a question asks "{wording_of(question)}", answer with {PHRASES[kind]}'] if kind else []
    parts += [f'{"for" if parts else "For"} "{excerpt(question)}" {", so ".join(told)}'] if told else []
    return "; ".join(parts) + "."


def read_lessons(question: str, lessons: Iterable[str]) -> Advice:
    """Return what lessons tell about a question; the first kind counts: recall puts the nearest first."""
    kind: Kind | None = None
    refused: set[str] = set()
    pages: dict[str, None] = {}
    used: list[str] = []
    wording, own = wording_of(question), excerpt(question)
    for lesson in lessons:
        general, special = _GENERAL.match(lesson), _OWN.search(lesson)
        told = False
        if general is not None and general["wording"] == wording and general["phrase"] in _KIND_OF:
            kind = kind or _KIND_OF[general["phrase"]]
            told = True
        if special is not None and special["question"] == own:
            told = True
            if special["answers"]:
                refused |= {normalize_answer(answer) for answer in _QUOTED.findall(special["answers"])}
            if special["page"]:
                pages[special["page"]] = None
        if told:
            used.append(lesson)
    return Advice(kind, frozenset(refused), tuple(pages), tuple(used))


def is_refused(answer: str, advice: Advice) -> bool:
    """Whether an answer was wrong before, as a lesson would write it."""
    return normalize_answer(_plain(answer)) in advice.refused


def excerpt(question: str) -> str:
    """Return the beginning of a question as lessons quote it."""
    return _plain(question, _EXCERPT)


def _plain(text: str, room: int = _SHOWN) -> str:
    """A text that can stand within a sentence: no quotation mark ends it early, and no full stop ends the sentence."""
    text = " ".join(re.sub(r"[\"“”;?!]", " ", text).split())
    return re.sub(r"\.(?=\s|$)", "", text)[:room].strip()
