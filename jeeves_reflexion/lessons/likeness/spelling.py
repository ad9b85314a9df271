"""Typing errors: whether a word is another with one slip of the fingers, and which word a slip stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from string import ascii_lowercase
from typing import Final

from jeeves_reflexion.lessons.likeness.wording import (
    AUXILIARIES,
    BESIDE,
    BREAKS,
    EMPTY,
    NEGATORS,
    NUMBERS,
    PHRASES,
    in_a_table,
    is_word,
    known_stems,
    stem,
)

_LONG: Final = 5
_SHORTEST: Final = 5
"""Shorter words are too near to too many others."""
_PHRASE_WORDS: Final = frozenset(word for words in PHRASES for word in words.split())
_TELLING: Final = NEGATORS | NUMBERS.keys() | BREAKS
_STRUCTURE: Final = _TELLING | EMPTY | _PHRASE_WORDS


def _mendable(word: str) -> bool:
    # "mustt" before a "not" of its own must not become a second one.
    return len(word) >= _LONG and not (word in PHRASES and PHRASES[word].endswith(" not"))


_BY_LETTER: Final = {
    letter: tuple(sorted(word for word in _STRUCTURE if word[0] == letter and _mendable(word)))
    for letter in ascii_lowercase
}
_PAIRS_OF_WORDS: Final = tuple(words.split() for words in PHRASES if words.count(" ") == 1)
_FIRST_OF: Final = {last: {a for a, b in _PAIRS_OF_WORDS if b == last} for _, last in _PAIRS_OF_WORDS}
_LAST_OF: Final = {first: {b for a, b in _PAIRS_OF_WORDS if a == first} for first, _ in _PAIRS_OF_WORDS}
_BEFORE_LAST: Final = re.compile(rf"\b([a-z]{{4,}}) ({'|'.join(sorted(_FIRST_OF))})\b")
_AFTER_FIRST: Final = re.compile(rf"\b({'|'.join(sorted(_LAST_OF))}) ([a-z]{{4,}})\b")
_CONTRACTED: Final = re.compile(r"\b([a-z]{2,})n't\w?\b")


@lru_cache(maxsize=16384)
def mended(word: str) -> str:
    """Return the word of structure that a mistyped word stands for: "nver" must not be read as if it were not there."""
    if len(word) < 4 or word in _STRUCTURE:
        return word
    known = is_word(word, common=True)
    for whole in _BY_LETTER.get(word[0], ()):
        if known and (whole not in NEGATORS or _wrong_letter(word, whole)):
            continue  # "noting" may be "nothing", and "shipping" is no "skipping"
        if (
            len(whole) == _LONG
            and len(word) <= _LONG
            and in_a_table(stem(whole))
            and sorted(word) != sorted(whole)
        ):
            continue  # "plae" may be a plate as well as a place
        if one_off(word, whole, wrong_from=_LONG if whole in _TELLING else _LONG + 1):
            return whole
    return word


def _wrong_letter(word: str, whole: str) -> bool:
    return len(word) == len(whole) and sorted(word) != sorted(whole)


def one_off(word: str, whole: str, *, wrong_from: int = _LONG) -> bool:
    """Whether ``word`` is ``whole`` with a letter too few or too many, with two swapped, or with one wrong.

    The first letter is right. A wrong letter counts in words of ``wrong_from`` letters or more.
    """
    if abs(len(word) - len(whole)) > 1 or word[0] != whole[0]:
        return False
    if len(word) != len(whole):
        longer, shorter = (word, whole) if len(word) > len(whole) else (whole, word)
        at = next((n for n, letter in enumerate(shorter) if letter != longer[n]), len(shorter))
        return longer[at + 1 :] == shorter[at:]
    wrong = [at for at in range(len(whole)) if word[at] != whole[at]]
    if len(wrong) == 1:
        return len(whole) >= wrong_from or (
            len(whole) == wrong_from - 1 and word[wrong[0]] + whole[wrong[0]] in BESIDE
        )
    if len(wrong) != 2 or wrong[1] != wrong[0] + 1:
        return False
    return word[wrong[0]] == whole[wrong[1]] and word[wrong[1]] == whole[wrong[0]]


def contractions(text: str) -> str:
    """Write the "n't" of a lower-case text out, also after an auxiliary that is mistyped ("muatn't")."""
    return _CONTRACTED.sub(lambda found: f"{found[1] if found[1] in AUXILIARIES else 'do'} not", text)


def phrases_mended(text: str) -> str:
    """Mend a word that is none, or a rare one, where it completes a known phrase: "gven out", "in odrer"."""
    text = _BEFORE_LAST.sub(lambda found: f"{_completing(found[1], found[2], _FIRST_OF)} {found[2]}", text)
    return _AFTER_FIRST.sub(lambda found: f"{found[1]} {_completing(found[2], found[1], _LAST_OF)}", text)


def _completing(word: str, partner: str, partners: dict[str, set[str]]) -> str:
    if is_word(word, common=True):
        return word
    return next((whole for whole in sorted(partners[partner]) if slipped(word, whole)), word)


@lru_cache(maxsize=16384)
def corrected(word: str) -> str:
    """Return the one common word that a lower-case word is a slip of; the word itself if it is known, or in doubt.

    Two slips of one word would otherwise have to be told from two names, and can't be.
    """
    if len(word) < _SHORTEST or not (word.isascii() and word.isalpha()) or is_word(word):
        return word
    known = known_stems()
    found = {
        other
        for other in _neighbours(word)
        if stem.__wrapped__(other) in known and slipped(word, other) and is_word(other, common=True)
    }
    # Letters that changed places, or one that was struck twice, say more than one that is missing or another.
    sure = {other for other in found if sorted(other) == sorted(word) or _struck_twice(word, other)}
    stems = {stem(other) for other in sure or found}
    return min(sure or found) if len(stems) == 1 else word


def _struck_twice(word: str, whole: str) -> bool:
    return any(word[at] == word[at - 1] and word[:at] + word[at + 1 :] == whole for at in range(1, len(word)))


@lru_cache(maxsize=4096)
def misspelt(word: str) -> bool:
    """Whether a lower-case word is none, and a slip of one: few unknown names are."""
    return (
        len(word) > 3
        and not is_word(word)
        and any(is_word(other) and slipped(word, other) for other in _neighbours(word))
    )


def slipped(written: str, form: str) -> bool:
    """Whether two letters changed places, or one slip is within: an ending carries meaning ("caller", "callee")."""
    if len(form) < 4 or not one_off(written, form, wrong_from=4):
        return False
    return written[-1] == form[-1] or sorted(written) == sorted(form)


def _neighbours(word: str) -> Iterator[str]:
    """Words with one slip less, none of it in front of where the word stops to begin like a known one."""
    for at in range(1, _known_until(word) + 1):
        yield word[:at] + word[at + 1 :]
        yield word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
        for letter in ascii_lowercase:
            yield word[:at] + letter + word[at:]
            yield word[:at] + letter + word[at + 1 :]


def _known_until(word: str) -> int:
    """Return how far a slip may lie in: past the letters that a known word begins with, nothing can mend it."""
    beginnings = _beginnings()
    for end in range(2, len(word)):
        if word[:end] not in beginnings:
            whole = word[: end - 1] in known_stems() or word[: end - 2] in known_stems()
            return len(word) - 1 if whole else end - 1
    return len(word) - 1


@lru_cache(maxsize=1)
def _beginnings() -> frozenset[str]:
    return frozenset(root[:end] for root in known_stems() for end in range(2, len(root) + 1))
