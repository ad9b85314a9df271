"""Slips of the fingers that are words themselves ("place", "pace"), judged by what a whole family of copies says.

Pure. One text can't tell such a slip from another lesson. A lesson that was learned often, with the wordings and notes
that it keeps, can: where it says a word all the time, a word one letter away that it never says, said fifty times less
often by a lesson that is the same in everything else, is that word mistyped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, cast

from jeeves_reflexion.lessons.likeness.sense import sense_of
from jeeves_reflexion.lessons.likeness.spelling import slipped
from jeeves_reflexion.lessons.likeness.wording import (
    BREAKS,
    DIRECTED,
    EMPTY,
    EXCLUDED_BY,
    NEGATORS,
    NUMBERS,
    OPPOSITE_OF,
    SAME_AS,
    forms,
    is_word,
    stem,
)
from jeeves_reflexion.lessons.merging import COPIES, WORDINGS, listed, wordings
from jeeves_reflexion.types import JSON, Lesson

SLIP_IN: Final = 50
"""So many times as often a lesson must have been learned as a word that differs by a letter was said, for a slip."""
_SHORTEST: Final = 4
_BOTH: Final = 2
_FEW: Final = 4
"""A text with more words that a lesson never says is no slip of it."""
_TOKEN: Final = re.compile(r"[^\W_]+")
_WORD: Final = re.compile(r"[^\W_]{4,}")
_OFTENER: Final = 2
"""So many times as many texts of one lesson must say a word as say a slip of it."""
_STRUCTURE: Final = NEGATORS | NUMBERS.keys() | BREAKS | DIRECTED
"""Words that turn, count or order what is said are not read out of a text, nor into it for a common word."""
_LONGER_EMPTY: Final = tuple(sorted(word for word in EMPTY - _STRUCTURE if len(word) > 4))


def mended(copy: Lesson, known: Lesson) -> Iterator[tuple[Lesson, bool]]:
    """Yield a lesson with one slip of its text mended by the words of one that was learned far more often.

    The word meant stands beside the same word in that one: "plate" in "put the plate" is no slip of a "place" that
    only begins its sentences. With each comes whether the word meant is one that says nothing: then nothing but the
    slip may differ.
    """
    if known.support < SLIP_IN:
        return
    texts = (known.text, *wordings(known), *_noted(known))
    said = frozenset().union(*map(_words, texts))
    other = _words(copy.text) - said - _STRUCTURE - EMPTY
    for word in sorted(other) if len(other) <= _FEW else ():
        if len(word) < _SHORTEST or stem(word) in sense_of(copy.text).names:
            continue
        meant = [(each, False) for each in _meant(word, (copy.text,), texts)]
        meant += [(each, True) for each in _empty_words_meant(word)]
        if meant and known.support >= SLIP_IN * _said_at_most(copy, word):
            for each, empty in meant:
                yield _with(copy, {word: each}), empty


def settled(lesson: Lesson) -> Lesson:
    """Return a lesson that was learned often with the slips mended that a few of its kept wordings have."""
    kept = wordings(lesson)
    found = _slips_in(lesson.text, kept, _noted(lesson)) if kept and lesson.support >= SLIP_IN else None
    return _with(lesson, found) if found else lesson


@lru_cache(maxsize=1024)
def _slips_in(text: str, kept: tuple[str, ...], noted: tuple[str, ...]) -> Mapping[str, str]:
    """Return the words of some wordings that are slips of words which far more texts say, with those."""
    texts = (text, *kept, *noted)
    many = Counter(word for each in texts for word in _words(each))
    found = {}
    for word in sorted(frozenset().union(*map(_words, kept)) - _words(text) - _STRUCTURE):
        meant = _meant(word, kept, texts) if len(word) >= _SHORTEST else []
        often = [each for each in meant if many[each] >= _OFTENER * many[word]]
        if often:
            found[word] = often[0]
    return found


def _meant(word: str, own: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the words of some texts that a word may be a slip of where it stands, and such that say the same."""
    places = [place for text in own for place in _places(text) if place[1] == word]
    before = {one for one, _, _ in places if one}
    behind = {other for _, _, other in places if other}
    sides: Counter[tuple[int, str]] = Counter()
    for text in texts:
        for one, each, other in _places(text):
            if each != word and (one in before or other in behind):
                sides[(one in before) + (other in behind), each] += 1
    often = sorted(sides, key=lambda found: (-sides[found], found))
    meant = [each for _, each in often if _is_slip(word, each)]
    # A word that nobody said is read into a text only where both sides of it say the same.
    meant += [form for both, each in often if both == _BOTH for form in _slip_of_synonym(word, each)]
    return list(dict.fromkeys(meant))


@lru_cache(maxsize=16384)
def _slip_of_synonym(word: str, said: str) -> tuple[str, ...]:
    others = sorted(SAME_AS.get(stem(said), ()))
    return tuple(
        form for other in others for form in sorted(forms(other)) if _is_slip(word, form) and is_word(form)
    )


@lru_cache(maxsize=16384)
def _empty_words_meant(word: str) -> tuple[str, ...]:
    return tuple(each for each in _LONGER_EMPTY if _is_slip(word, each))


@lru_cache(maxsize=16384)
def _words(text: str) -> frozenset[str]:
    return frozenset(_TOKEN.findall(text.casefold()))


@lru_cache(maxsize=16384)
def _places(text: str) -> tuple[tuple[str, str, str], ...]:
    """Return each word of a text between the one in front of it and the one behind it."""
    tokens = _TOKEN.findall(text.casefold())
    return tuple(zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False))


def _said_at_most(lesson: Lesson, word: str) -> int:
    """How often a word can have been said by those that taught a lesson: the notes that lack it are no part of that."""
    without = sum(word not in _words(text) for text in _noted(lesson))
    return max(lesson.support - without, 1)


def _noted(lesson: Lesson) -> tuple[str, ...]:
    notes = cast("Sequence[Mapping[str, JSON]]", listed(lesson, COPIES))
    return tuple(str(note["text"]) for note in notes)


@lru_cache(maxsize=65536)
def _is_slip(word: str, meant: str) -> bool:
    root, other = stem(word), stem(meant)
    return (
        word[0] == meant[0]
        and word.isalpha()
        and root != other
        and (meant not in _STRUCTURE or not is_word(word, common=True))
        and other not in OPPOSITE_OF.get(root, ())
        and other not in EXCLUDED_BY.get(root, ())
        and slipped(word, meant)
    )


def _with(lesson: Lesson, meant: Mapping[str, str]) -> Lesson:
    """Return a lesson with other words in the place of some, in its text and its kept wordings."""

    def mend(text: str) -> str:
        return _WORD.sub(lambda found: meant.get(found[0].casefold(), found[0]), text)

    metadata: dict[str, JSON] = {**lesson.metadata}
    if said := wordings(lesson):
        metadata[WORDINGS] = [mend(text) for text in said]
    return replace(lesson, text=mend(lesson.text), metadata=metadata)
