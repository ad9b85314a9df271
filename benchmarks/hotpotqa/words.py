"""Words of a text that tell something, and small sets of words."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"\w+")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, by white space."""
    return frozenset(text.split())


_COMMON: Final = word_set(
    """a an the of in on at by for to from with and or is are was were be been do does did has have had what which who
    whom whose when where how many much that this these those it its his her their he she they as also both same"""
)


def words(text: str) -> set[str]:
    """Return the telling words of a text, in small letters."""
    return {word for word in _WORD.findall(text.casefold()) if word not in _COMMON}
