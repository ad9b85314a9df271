"""Words of advice: what says nothing, what says the same, what says the opposite, what turns a clause round.

English, from ``wording.toml``. A word that stands in no table is compared by its stem, so that other languages and
trades lose the finer points alone. Add to the tables rather than to the code.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib import resources
from typing import Final

_DATA: Final = tomllib.loads(
    resources.files(__package__).joinpath("wording.toml").read_text(encoding="utf-8")
)


def _words(name: str) -> frozenset[str]:
    return frozenset(_DATA[name].split())


EMPTY: Final = _words("empty")
LIGHT: Final = _words("light")
REASONS: Final = _words("reasons")
PURPOSES: Final = _words("purposes")
NEGATORS: Final = _words("negators")
DETERMINERS: Final = _words("determiners")
DIRECTED: Final = _words("directed")
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
_IRREGULAR: Final[dict[str, str]] = _DATA["irregular"]


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Return the light stem of a lower-case word: without plural, -ing, -ed, -ly and a last e."""
    word = _IRREGULAR.get(word, word)
    if len(word) > 3 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-2] if word.endswith(("ches", "shes", "sses", "xes", "zes")) else word[:-1]
    for ending, least in (("ing", 3), ("ed", 3), ("ly", 4)):
        if len(word) - len(ending) >= least and word.endswith(ending) and _VOWEL.search(word[: -len(ending)]):
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word


def _partners(name: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for row in _DATA[name].strip().splitlines():
        stems = {stem(word) for word in row.split()}
        for word in stems:
            found.setdefault(word, set()).update(stems - {word})
    return {word: frozenset(others) for word, others in found.items()}


SAME_AS: Final = _partners("same")
OPPOSITE_OF: Final = _partners("opposite")
EXCLUDED_BY: Final = _partners("exclusive")


def in_a_table(root: str) -> bool:
    """Whether a stem is known: then it is a word of its own and no typing error of another."""
    return root in SAME_AS or root in OPPOSITE_OF or root in EXCLUDED_BY
