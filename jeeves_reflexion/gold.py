"""Takes what a gold answer says out of a text that goes to an agent or a reflector."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jeeves_reflexion.types import JSON

WITHHELD = "[withheld]"


class Hider:
    """Replaces the texts of a reference, longest first, wherever they stand as words of their own.

    Also where they are quoted as Python or JSON would write them, or with other white space.
    """

    def __init__(self, reference: JSON) -> None:
        leaves = _leaves(reference)
        texts = {*leaves, *(form[1:-1] for leaf in leaves for form in (repr(leaf), json.dumps(leaf)))}
        joined = "|".join(map(_spaced, sorted(texts, key=len, reverse=True)))
        self.pattern = re.compile(rf"(?<!\w)(?:{joined})(?!\w)", re.IGNORECASE) if joined else None

    def __call__(self, text: str) -> str:
        """Return a text with :data:`WITHHELD` in the place of each of them."""
        return text if self.pattern is None else self.pattern.sub(WITHHELD, text)


def _spaced(text: str) -> str:
    return r"\s+".join(re.escape(word) for word in text.split())


def _leaves(value: JSON) -> list[str]:
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, Sequence):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None or isinstance(value, bool) else [str(value)]
