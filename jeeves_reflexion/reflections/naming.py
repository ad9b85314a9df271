"""Names of folders and files for agents and titles: readable, lower case, and unable to lead anywhere else.

Names are written down too, so they are redacted before they are made.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import re
import unicodedata
from collections.abc import Callable
from typing import Final

from jeeves_reflexion.redaction import redact

TITLE_WORDS: Final = 5
MOST_BYTES: Final = 80
"""A file system gives a name 255 bytes; the date, a number and an ending come on top."""

_RESERVED: Final = frozenset(
    ["con", "prn", "aux", "nul", "archive", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)
"""What Windows keeps for devices, and the name of the archive."""


def slug(text: str, *, words: int | None = None) -> str:
    """Return a text as lower-case words joined by hyphens, the first ``words`` of them; empty if it has none.

    Accents go where the letter below is plain Latin; letters and digits of other scripts stay. Everything else, such
    as slashes, dots and characters that hide, is no part of a name.
    """
    flat = unicodedata.normalize("NFKD", text).casefold()
    flat = re.sub(r"(?<=[a-z])[\u0300-\u036f]+", "", flat)
    flat = re.sub(r"(?<=\w)['\u2019](?=\w)", "", unicodedata.normalize("NFKC", flat))
    found = re.findall(r"[^\W_]+", flat)
    return _within("-".join(found[:words]))


def agent_slug(name: str) -> str:
    """Return the name of an agent's folder; names that read alike are one agent. ``agent`` for one without words."""
    found = slug(redact(name)) or "agent"
    return f"{found}-agent" if found in _RESERVED else found


def title_slug(title: str) -> str:
    """Return the short title of a file: at most five words, ``untitled`` for one without any."""
    return slug(redact(title), words=TITLE_WORDS) or "untitled"


def file_name(date: datetime.date, title: str, taken: Callable[[str], bool]) -> str:
    """Return ``YYYY-MM-DD-<short-title>.md``, with ``-2``, ``-3`` and so on before the ending where it is taken."""
    base = f"{date.isoformat()}-{title_slug(title)}"
    names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(f"{name}.md" for name in names if not taken(f"{name}.md"))


def _within(name: str) -> str:
    """Cut a name to :data:`MOST_BYTES`, so that two long ones that begin alike stay apart."""
    data = name.encode("utf-8", "replace")
    if len(data) <= MOST_BYTES:
        return data.decode("utf-8").replace("?", "")
    digest = hashlib.sha256(data).hexdigest()[:8]
    return f"{data[: MOST_BYTES - 9].decode('utf-8', 'ignore').rstrip('-')}-{digest}"
