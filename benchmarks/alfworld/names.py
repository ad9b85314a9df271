"""ALFWorld's names for the things in a game, such as "cabinet 3" for ``Cabinet_bar__plus_01...``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

_SEPARATOR: Final = "_bar_"
_CODES: Final = (("|", "_bar_"), ("-", "_minus_"), ("+", "_plus_"), (".", "_dot_"), (",", "_comma_"))


def encode_id(text: str) -> str:
    """Encode an id such as ``Cabinet|+00.68|-02.20`` for PDDL, which allows none of ``| - + . ,``."""
    for character, code in _CODES:
        text = text.replace(character, code)
    return text


def number_names(ids: Iterable[str]) -> dict[str, str]:
    """Return the name of every id of a game, by the rule of ALFWorld's ``Demangler`` (``agents/utils/misc.py``).

    The part of an id before the first ``_bar_`` is the type, with ``basin`` added if the id contains it. The things of
    one type, sorted by id, are numbered downwards from their count. An id without ``_bar_`` keeps its text.
    ``ids`` must be in lower case, as the engine's PDDL reader makes them.
    """
    types = {identifier: _type_of(identifier) for identifier in sorted(ids)}
    left = Counter(kind for identifier, kind in types.items() if _SEPARATOR in identifier)
    names = {}
    for identifier, kind in types.items():
        if _SEPARATOR not in identifier:
            # ALFWorld leaves a blank after a name without a number, and our texts must equal its texts.
            names[identifier] = f"{identifier} "
            continue
        names[identifier] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names


def _type_of(identifier: str) -> str:
    kind = identifier.partition(_SEPARATOR)[0]
    return f"{kind}basin" if "basin" in identifier and _SEPARATOR in identifier else kind
