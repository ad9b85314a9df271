"""Whether a word of one text stands for a word of another: a synonym, a slip of the fingers, or a slip of a synonym."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from jeeves_reflexion.lessons.likeness.sense import Sense
from jeeves_reflexion.lessons.likeness.spelling import slipped
from jeeves_reflexion.lessons.likeness.wording import ELSEWHERE, SAME_AS, SAME_BESIDE, forms, is_word

SHORTEST_TYPO: Final = 4
_LONG_NAME: Final = 7
_NOWHERE: Final[frozenset[str]] = frozenset()


def elsewhere(word: str, other: str, a: Sense, b: Sense) -> bool:
    """Whether one of two words means something else beside the words that it stands with."""
    beside = ELSEWHERE.get(word, _NOWHERE) | ELSEWHERE.get(other, _NOWHERE)
    return bool(beside) and not (beside.isdisjoint(a.all) and beside.isdisjoint(b.all))


def same_here(word: str, other: str, a: Sense, b: Sense) -> bool:
    """Whether two words say the same beside a word that either text has."""
    beside = SAME_BESIDE.get((word, other), _NOWHERE)
    return bool(beside) and not (beside.isdisjoint(a.all) and beside.isdisjoint(b.all))


def synonyms(_: str, word: str, __: str, other: str) -> bool:
    """Whether two stems say the same wherever they stand."""
    return other in SAME_AS.get(word, ())


@lru_cache(maxsize=65536)
def mistyped(written: str, word: str, said: str, other: str) -> bool:
    """Whether one word, as it was written and by its stem, is the other with one slip of the fingers."""
    return _slip_of(written, said, other) or _slip_of(said, written, word)


@lru_cache(maxsize=65536)
def mistyped_synonyms(written: str, word: str, said: str, other: str) -> bool:
    """Whether one word, as it was written, is a word that says the same as the other with one slip of the fingers."""
    return any(_slip_of(written, partner, partner) for partner in SAME_AS.get(other, ())) or any(
        _slip_of(said, partner, partner) for partner in SAME_AS.get(word, ())
    )


def _slip_of(written: str, whole: str, root: str) -> bool:
    """Whether a word as it was written is no word, and another, in any form of it, with one slip of the fingers."""
    if len(written) < SHORTEST_TYPO or not (written.isalpha() and root.isalpha()):
        return False
    if is_word(written, common=True):
        return False
    if root in SAME_AS or is_word(whole):
        return any(slipped(written, form) for form in (whole, *forms(root)))
    # Neither is known: names that differ by a letter ("mongod", "mongos") are more frequent than slips.
    return slipped(written, whole) and (len(whole) >= _LONG_NAME or sorted(written) == sorted(whole))
