"""Words of advice: what says nothing, what says the same, what says the opposite, what turns a clause round.

English, from ``wording.toml``. A word that stands in no table is compared by its stem, so that other languages and
trades lose the finer points alone. Add to the tables rather than to the code.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from itertools import combinations
from typing import Final

_DATA: Final = tomllib.loads(
    resources.files(__package__).joinpath("wording.toml").read_text(encoding="utf-8")
)


def _words(name: str) -> frozenset[str]:
    return frozenset(_DATA[name].split())


EMPTY: Final = _words("empty")
LIGHT: Final = _words("light")
DESCRIBING: Final = _words("describing")
REASONS: Final = _words("reasons")
NEEDING: Final = _words("needing")
MAKING: Final = _words("making")
PURPOSES: Final = _words("purposes")
NEGATORS: Final = _words("negators")
DETERMINERS: Final = _words("determiners")
DIRECTED: Final = _words("directed")
PREPOSITIONS: Final = _words("prepositions")
AUXILIARIES: Final = _words("auxiliaries")
STOPS: Final = frozenset(",;:.()")
BREAKS: Final = (
    STOPS
    | (_words("conditions") - {"as"})
    | {"-", "then", "but", "before", "after", "until", "instead", "without", "otherwise", "once"}
)
"""What ends a clause and opens the next."""
PHRASES: Final[dict[str, str]] = _DATA["phrases"]
"""Several words that stand for one."""

_COUNTED: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
)
_TENS: Final = {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "hundred": "100",
    "thousand": "1000",
}
NUMBERS: Final = {word: str(value) for value, word in enumerate(re.findall(r"\w+", _COUNTED))} | _TENS
LOOSE_NUMBERS: Final = frozenset({"1", "2"})
"""Numbers that are often said in passing when written as words ("the two requests", "one of them")."""
UNITS: Final = {
    "s": "second",
    "sec": "second",
    "secs": "second",
    "ms": "millisecond",
    "min": "minute",
    "h": "hour",
}

BESIDE: Final = frozenset(
    pair
    for row, below in (("qwertyuiop", "asdfghjkl"), ("asdfghjkl", "zxcvbnm"), ("zxcvbnm", ""))
    for at, key in enumerate(row)
    for other in row[at + 1 : at + 2] + below[max(at - 1, 0) : at + 1]
    for pair in (key + other, other + key)
)
"""Letters that lie beside each other on a keyboard, as pairs."""

_VOWEL: Final = re.compile("[aeiouy]")
_SYLLABLE: Final = re.compile("[^aeiouy]*[aeiouy][^aeiouywx]")
"""One short syllable: "plan" doubles its n in "planning", so that "planing" is of "plane"."""
_IRREGULAR: Final[dict[str, str]] = _DATA["irregular"]
_DOUBLED: Final = re.compile("[^aeiouy][aeiouy][^aeiouywx]$")
_UNCHANGED: Final = _words("unchanged")


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Return the light stem of a lower-case word: without plural, -ing, -ed, -ly and, unless it is short, a last e."""
    if word in _UNCHANGED:
        return word
    word = _IRREGULAR.get(word, word)
    if len(word) > 3 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-2] if word.endswith(("ches", "shes", "sses", "xes", "zes")) else word[:-1]
    for ending, least in (("ing", 3), ("ed", 3), ("ly", 4)):
        rest = word[: -len(ending)]
        if len(rest) >= least and word.endswith(ending) and not word.endswith("eed") and _VOWEL.search(rest):
            if len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz":
                return rest[:-1]
            word = rest + "e" if ending != "ly" and _SYLLABLE.fullmatch(rest) else rest
            break
    if len(word) > 3 and word.endswith("e") and not _SYLLABLE.fullmatch(word[:-1]):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word


def _bent() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for word, whole in _IRREGULAR.items():
        found.setdefault(stem(whole), set()).add(word)
    return {root: frozenset(words) for root, words in found.items()}


_BENT: Final = _bent()
"""The irregular forms of a stem."""


@lru_cache(maxsize=16384)
def forms(root: str) -> frozenset[str]:
    """Return what a stem may have been before: the word, and the word with each ending that a stem goes without."""
    doubled = root + root[-1] if _DOUBLED.search(root) else root
    found = {root + ending for ending in ("", "e", "s", "es", "ly", "ed", "ing", "ings")}
    found |= {doubled + ending for ending in ("ed", "ing", "ings")}
    if root.endswith("i"):
        found = {root, root + "s"} | {root[:-1] + ending for ending in ("y", "ies", "ied", "ying", "ily")}
    elif root.endswith("e"):
        found |= {root[:-1] + ending for ending in ("ed", "ing", "ings")}
    found |= _BENT.get(root, frozenset())
    return frozenset(form for form in found if form == root or stem(form) == root)


def _partners(rows: Iterable[str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for row in rows:
        stems = {stem(word) for word in row.split()}
        for word in stems:
            found.setdefault(word, set()).update(stems - {word})
    return {word: frozenset(others) for word, others in found.items()}


def _rows(name: str) -> list[str]:
    return [row for row in str(_DATA[name]).strip().splitlines() if row and row[0] != "#"]


def _lines(file: str) -> list[str]:
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line[:1] != "#"]


OPPOSITE_OF: Final = _partners(_rows("opposite"))
EXCLUDED_BY: Final = _partners(_rows("exclusive"))
SMALL: Final = {word: tuple(row.split()) for row in _rows("small") for word in row.split()}
"""Small words by each of them: one of a row in one text stands for any other of it."""
RELATION_OF: Final = {word: row.split()[0] for row in _rows("relations") for word in row.split()}
"""The relation to a thing that each preposition says."""
CONTRASTING: Final = frozenset(frozenset(row.split()) for row in _rows("contrasting"))
"""Pairs of relations that exclude each other."""
EITHER_WAY: Final = frozenset(map(stem, _words("either_way")))
"""Stems of things in and on which is the same."""
SAME_AS: Final = _partners([*_rows("same"), *filter(None, _lines("synonyms.txt"))])
PROVIDING: Final = frozenset(map(stem, _words("providing")))
"""Stems of verbs by which a thing gets what it needs."""
ELSEWHERE: Final = {
    stem(word): frozenset(map(stem, beside.split())) for word, beside in _DATA["elsewhere"].items()
}
"""Words beside which a word means something else than its synonyms."""


def _bound_to_others() -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], frozenset[str]] = {}
    for row in _rows("beside"):
        words, _, others = row.partition("|")
        stems = sorted({stem(word) for word in words.split()})
        for one, other in combinations(stems, 2):
            known = found.get((one, other), frozenset())
            found[one, other] = found[other, one] = known | {stem(word) for word in others.split()}
    return found


SAME_BESIDE: Final = _bound_to_others()
"""Pairs that say the same beside one of some words."""


@lru_cache(maxsize=1)
def _contrasts() -> frozenset[str]:
    words = f"{_DATA['telling_apart']} {' '.join(_lines('contrasts.txt'))}".split()
    return frozenset(map(stem, words)) | OPPOSITE_OF.keys() | EXCLUDED_BY.keys()


def tells_apart(root: str) -> bool:
    """Whether a stem, beside a thing, says which one of several: "old", "first", "backup"."""
    return root in _contrasts()


@lru_cache(maxsize=1)
def _lexicon() -> tuple[frozenset[str], frozenset[str]]:
    common, rare = "\n".join(_lines("words.txt")).split("\n\n")
    return frozenset(common.split()) | frozenset(map(stem, _words("trade"))), frozenset(rare.split())


@lru_cache(maxsize=65536)
def is_word(word: str, *, common: bool = False) -> bool:
    """Whether a lower-case word is one of English, or of the tables; a ``common`` one is no typing error of another."""
    if word in EMPTY or word in _IRREGULAR:
        return True
    root = stem(word)
    often, seldom = _lexicon()
    if not (root in often or in_a_table(root) or (not common and root in seldom)):
        return False
    return word == root or word in forms(root)


@lru_cache(maxsize=1)
def known_stems() -> frozenset[str]:
    """Return the stems of the words that everybody knows, and of those of the tables."""
    tables = (SAME_AS, OPPOSITE_OF, EXCLUDED_BY)
    return common_stems() | frozenset(root for table in tables for root in table)


def common_stems() -> frozenset[str]:
    """Return the stems of the words that everybody knows."""
    return _lexicon()[0]


def in_a_table(root: str) -> bool:
    """Whether a stem is known: then it is a word of its own and no typing error of another."""
    return root in SAME_AS or root in OPPOSITE_OF or root in EXCLUDED_BY
