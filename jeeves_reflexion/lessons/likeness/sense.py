"""Reads a lesson for comparison: its words with their negation, its numbers and names, and what comes before what."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from jeeves_reflexion.lessons.likeness.wording import (
    BESIDE,
    BREAKS,
    DETERMINERS,
    DIRECTED,
    EMPTY,
    NEGATORS,
    NUMBERS,
    PHRASES,
    PURPOSES,
    REASONS,
    STOPS,
    UNITS,
    in_a_table,
    is_word,
    stem,
)

MOST_CHARACTERS: Final = 2000
"""What lies beyond is not compared: a lesson is one sentence."""

_NEAR: Final = 2
_TOKEN: Final = re.compile(
    r"[^\W_]*\d+(?:[.:,/]\d+)*%?(?:[^\W\d_]\w*)?|[^\W\d_]+(?:_\w+)*|[,;:.()]|(?<=\s)[-\u2013\u2014](?=\s)"
)
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_WITH_UNIT: Final = re.compile(rf"(\d)({'|'.join(sorted(UNITS, key=len, reverse=True))})\b")
_PHRASE: Final = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(PHRASES, key=len, reverse=True)))})\b")
_NOT_UNTIL: Final = re.compile(r"\b(?:do not|never|not) ([^,;:.]+?) (?:until|unless|without|before) ")
_LONG: Final = 5
_PHRASE_WORDS: Final = frozenset(word for words in PHRASES for word in words.split())
_TELLING: Final = NEGATORS | NUMBERS.keys() | BREAKS
_STRUCTURE: Final = _TELLING | EMPTY | _PHRASE_WORDS


def _mendable(word: str) -> bool:
    # "mustt" before a "not" of its own must not become a second one.
    return len(word) >= _LONG and not (word in PHRASES and PHRASES[word].endswith(" not"))


_BY_LETTER: Final = {
    letter: tuple(sorted(word for word in _STRUCTURE if word[0] == letter and _mendable(word)))
    for letter in "abcdefghijklmnopqrstuvwxyz"
}
_SOURCES: Final = frozenset({"from"})
_TARGETS: Final = frozenset({"to", "into", "onto"})
_ONES: Final = DETERMINERS | {"which", "no", "any", "another", "other", "last", "first", "same", "by"}
_EMPTY_STEMS: Final = EMPTY | frozenset(map(stem, EMPTY))


@dataclass(frozen=True, slots=True)
class Sense:
    """What a text says, as far as comparing needs it.

    ``words`` are the stems that carry advice, with 1 (meant), -1 (negated) or 0 (either: before the "not" of their
    clause, or both ways); those of ``aside`` stand in reasons alone. ``surface`` holds words as they were written,
    ``all`` every stem. ``numbers`` are in digits, those of ``spelled`` were written as words; ``bound`` holds the
    numbers that follow a word ("fridge 1"). ``pairs`` are words that stand near each other, ``directed`` words on
    either side of a preposition, ``sources`` and ``targets`` what follows "from" and "to", ``order`` the words of
    what comes first and of what comes later, where the text says so.
    """

    words: Mapping[str, int]
    aside: frozenset[str]
    surface: Mapping[str, str]
    all: frozenset[str]
    numbers: frozenset[str]
    spelled: frozenset[str]
    bound: Mapping[str, frozenset[str]]
    names: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    directed: frozenset[tuple[str, str, str]]
    sources: frozenset[str]
    targets: frozenset[str]
    order: tuple[frozenset[str], frozenset[str]] | None


@dataclass(slots=True)
class _Clause:
    opened_by: str
    reason: bool = False
    negations: int = 0
    before: int = 0
    words: list[str] = field(default_factory=list)

    def signs(self) -> Iterator[tuple[str, int]]:
        """Each word with its sign: what stands before the "not" may be meant or be what is not to be done to."""
        if self.negations % 2 == 0:
            yield from ((word, 1) for word in self.words)
            return
        yield from ((word, 0 if at < self.before else -1) for at, word in enumerate(self.words))


@lru_cache(maxsize=8192)
def sense_of(text: str) -> Sense:
    """Read a text; the last few thousand readings are kept."""
    text = unicodedata.normalize("NFKC", text[:MOST_CHARACTERS])
    tokens = _tokens(text)
    clauses, spelled = _clauses(tokens)
    words: dict[str, int] = {}
    for clause in clauses:
        for word, sign in clause.signs():
            words[word] = sign if words.get(word, sign) == sign else 0
    numbers = frozenset(word for word in words if word[0].isdigit() or any(c.isdigit() for c in word))
    return Sense(
        words=words,
        aside=frozenset(words).difference(*(clause.words for clause in clauses if not clause.reason)),
        surface={stem(token): token for token in tokens},
        all=frozenset(map(stem, tokens)),
        numbers=numbers,
        spelled=frozenset(spelled) & numbers,
        bound=_bound(clauses, numbers),
        names=_names(text) & words.keys(),
        pairs=frozenset(pair for clause in clauses for pair in _pairs(clause.words)),
        directed=_directed(tokens),
        sources=_following(tokens, _SOURCES),
        targets=_following(tokens, _TARGETS),
        order=_order(clauses),
    )


def _tokens(text: str) -> list[str]:
    plain = " ".join(text.casefold().split()).replace("\u2019", "'").replace("n't", " not")
    plain = _WORD.sub(lambda found: _mended(found[0]), plain)
    plain = _PHRASE.sub(lambda found: PHRASES[found[0]], plain)
    plain = _WITH_UNIT.sub(lambda found: f"{found[1]} {UNITS[found[2]]}", plain)
    # "do not write until you have read" says "write after you have read".
    plain = _NOT_UNTIL.sub(r"\1 after ", plain)
    return _TOKEN.findall(plain)


def _clauses(tokens: list[str]) -> tuple[list[_Clause], set[str]]:
    clauses = [_Clause("")]
    spelled: set[str] = set()
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        here = clauses[-1]
        if _breaks(token, following, here):
            here = _Clause(token, reason=_opens_reason(token, here))
            clauses.append(here)
        if token in NEGATORS:
            here.before = here.before if here.negations else len(here.words)
            here.negations += 1
            continue
        number = NUMBERS.get(token)
        if number is not None:
            if token == "one" and (following in ("by", "of") or (at and tokens[at - 1] in _ONES)):  # noqa: S105
                continue
            spelled.add(number)
            here.words.append(number)
        elif token not in _EMPTY_STEMS and token not in BREAKS and (token[0].isalnum()):
            word = stem(token)
            if word not in _EMPTY_STEMS:
                here.words.append(word)
    return clauses, spelled


def _breaks(token: str, following: str, clause: _Clause) -> bool:
    if token == "and":  # noqa: S105
        held = clause.negations or clause.opened_by in ("before", "after")
        return bool(held) and following not in DETERMINERS
    return token in BREAKS or (token == "to" and following in PURPOSES)  # noqa: S105


def _opens_reason(token: str, before: _Clause) -> bool:
    return token in REASONS or token == "to" or (before.reason and token not in STOPS)  # noqa: S105


@lru_cache(maxsize=16384)
def _mended(word: str) -> str:
    """Return the word of structure that a mistyped word stands for: "nver" must not be read as if it were not there."""
    if len(word) < 4 or word in _STRUCTURE or in_a_table(stem(word)):
        return word
    known = is_word(word, common=True)
    for whole in _BY_LETTER.get(word[0], ()):
        if known and whole not in NEGATORS:
            continue
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


def _pairs(words: list[str]) -> set[tuple[str, str]]:
    found = set()
    for at, word in enumerate(words):
        for other in words[at + 1 : at + 1 + _NEAR]:
            found.add((word, other) if word <= other else (other, word))
    return found


def _bound(clauses: list[_Clause], numbers: frozenset[str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for clause in clauses:
        for word, number in zip(clause.words, clause.words[1:], strict=False):
            if number in numbers and word not in numbers:
                found.setdefault(word, set()).add(number)
    return {word: frozenset(with_it) for word, with_it in found.items()}


def _directed(tokens: list[str]) -> frozenset[tuple[str, str, str]]:
    found = set()
    for at in range(1, len(tokens) - 1):
        if tokens[at] in DIRECTED:
            after = next((t for t in tokens[at + 1 : at + 4] if t not in DETERMINERS), "")
            if after and tokens[at - 1] not in _EMPTY_STEMS and after not in _EMPTY_STEMS:
                found.add((stem(tokens[at - 1]), tokens[at], stem(after)))
    return frozenset(found)


def _following(tokens: list[str], heads: frozenset[str]) -> frozenset[str]:
    """Return what follows such a word, as a stem, past articles."""
    found = set()
    for at, token in enumerate(tokens):
        if token in heads:
            after = next((t for t in tokens[at + 1 : at + 4] if t not in DETERMINERS), "")
            if after and after not in _EMPTY_STEMS:
                found.add(stem(after))
    return frozenset(found)


def _order(clauses: list[_Clause]) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the words of what comes first and of what comes later, by the first "before" or "after" with both."""
    for at, clause in enumerate(clauses):
        if clause.opened_by not in ("before", "after") or not clause.words:
            continue
        earlier = [c for c in clauses[:at] if c.words and c.opened_by not in ("before", "after")]
        later = [c for c in clauses[at + 1 :] if c.words]
        other = earlier[-1] if earlier else later[0] if later else None
        if other is not None:
            mine, others = frozenset(clause.words), frozenset(other.words)
            return (mine, others) if clause.opened_by == "after" else (others, mine)
    return None


def _names(text: str) -> frozenset[str]:
    """Return the stems of words written as names: capitals within, or a capital where no sentence begins."""
    if text.isupper():
        return frozenset()
    found = set()
    words = text.split()
    for before, word in zip([".", *words], words, strict=False):
        bare = word.strip(".,;:!?()\"'`")
        inside = bare[1:] != bare[1:].lower() or "_" in bare
        if bare and (inside or (bare[0].isupper() and before[-1] not in ".:,!?-")):
            root = stem(bare.casefold())
            if inside or not in_a_table(root):
                found.add(root)
    return frozenset(found)
