"""Folders of Markdown files: the names in them, one writer at a time, and what can't be read.

::

    memory/reflections/<agent-name>/YYYY-MM-DD-<short-title>.md      active, the last 30
    memory/reflections/<agent-name>/archive/YYYY/<the same name>     older ones, by the year of their date

Names are readable, lower case, redacted, and unable to lead anywhere else.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import filelock

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.redaction import redact

LOCK_SECONDS: Final = 30.0
TITLE_WORDS: Final = 5
MOST_NAME_BYTES: Final = 80
"""A file system gives a name 255 bytes; the date, a number and an ending come on top."""

_RESERVED: Final = frozenset(
    ["con", "prn", "aux", "nul", "archive", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)
"""What Windows keeps for devices, and the name of the archive."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A file that can't be read, and why; it is left alone."""

    path: Path
    problem: str


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if there is none; it is for this user alone.

    What fails within, a lock that is not to be had and a folder that is a link are a :class:`LessonStoreError`.
    """
    with reported(folder, "written"):
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse_link(folder)
        folder.mkdir(exist_ok=True, mode=0o700)
        with filelock.FileLock(folder / ".lock", timeout=LOCK_SECONDS):
            yield


def refuse_link(folder: Path) -> None:
    """Raise :class:`LessonStoreError` for a folder that is a link: what is written there would lie elsewhere."""
    if folder.is_symlink():
        raise LessonStoreError(
            f"{folder} is a link: reflections are kept in a folder of their own; remove the link"
        )


@contextlib.contextmanager
def reported(path: Path, doing: str) -> Iterator[None]:
    """Raise what the file system refuses within as a :class:`LessonStoreError` that names ``path``."""
    try:
        yield
    except filelock.Timeout as error:
        raise LessonStoreError(
            f"{path} can't be {doing}: another writer has held its lock for {LOCK_SECONDS:.0f} seconds"
        ) from error
    except OSError as error:
        raise LessonStoreError(f"{path} can't be {doing}: {error}") from error


def place(path: Path, root: Path) -> str:
    """Return where a file is below a folder, in words that hold on every system."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def slug(text: str, *, words: int | None = None) -> str:
    """Return a text as lower-case words joined by hyphens, the first ``words`` of them; empty if it has none.

    Accents go where the letter below is plain Latin; letters and digits of other scripts stay. Everything else, such
    as slashes, dots and characters that hide, is no part of a name. Two long names that begin alike stay apart.
    """
    flat = unicodedata.normalize("NFKD", text).casefold()
    flat = re.sub(r"(?<=[a-z])[\u0300-\u036f]+", "", flat)
    flat = re.sub(r"(?<=\w)['\u2019](?=\w)", "", unicodedata.normalize("NFKC", flat))
    data = "-".join(re.findall(r"[^\W_]+", flat)[:words]).encode("utf-8", "replace")
    if len(data) <= MOST_NAME_BYTES:
        return data.decode("utf-8").replace("?", "")
    digest = hashlib.sha256(data).hexdigest()[:8]
    return f"{data[: MOST_NAME_BYTES - 9].decode('utf-8', 'ignore').rstrip('-')}-{digest}"


def agent_slug(name: str) -> str:
    """Return the name of an agent's folder; names that read alike are one agent. ``agent`` for one without words."""
    found = slug(redact(name)) or "agent"
    return f"{found}-agent" if found in _RESERVED else found


def title_slug(title: str) -> str:
    """Return the short title of a file: at most five words, ``untitled`` for one without any."""
    return slug(redact(title), words=TITLE_WORDS) or "untitled"


def free_path(folder: Path, stem: str, *others: Path) -> Path:
    """Return ``<stem>.md`` in a folder, or the first of ``<stem>-2.md`` and so on that neither it nor ``others`` has.

    A link that leads nowhere has its name too.
    """
    for number in itertools.count(1):
        name = f"{stem}.md" if number == 1 else f"{stem}-{number}.md"
        paths = [place / name for place in (folder, *others)]
        if not any(path.is_symlink() or path.exists() for path in paths):
            break
    return paths[0]
