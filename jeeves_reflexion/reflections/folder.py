"""The folder of one agent's reflections: what its files say, and how they are added, archived and removed.

::

    memory/reflections/<agent-name>/YYYY-MM-DD-<short-title>.md      active, the last 30
    memory/reflections/<agent-name>/archive/YYYY/<the same name>     older ones, by the year of their date

Writers come one at a time under a lock of the agent's own, also those of other processes. A file is written whole or
not at all, and archived by renaming it, so that a crash loses nothing and leaves none twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import filelock

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.files import not_written, read_regular, replace_file, sync_folder
from jeeves_reflexion.reflections.markdown import Entry, MarkdownError, from_markdown, to_markdown
from jeeves_reflexion.reflections.naming import file_name, slug

ARCHIVE: Final = "archive"
LOCK_SECONDS: Final = 30.0
MOST_BYTES: Final = 200_000
"""A larger file is no reflection; reading is bounded by it."""

_NAME: Final = re.compile(r"\d{4}-\d{2}-\d{2}-.+\.md")
_ID: Final = re.compile(r'"id":"([0-9a-zA-Z_-]{1,64})"')


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry and the file that it stands in. ``digest`` is that of the file's bytes; ``id`` is never empty."""

    path: Path
    entry: Entry
    id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A file that is no reflection, and why; it is left alone. ``id`` is the one that it names, if it names one."""

    path: Path
    problem: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What folders hold: reflections from the oldest to the newest, and what could not be read."""

    stored: tuple[Stored, ...] = ()
    malformed: tuple[Malformed, ...] = ()

    def __add__(self, other: Listing) -> Listing:
        stored = sorted((*self.stored, *other.stored), key=order)
        return Listing(tuple(stored), (*self.malformed, *other.malformed))


def order(stored: Stored) -> tuple[object, ...]:
    """What "the last 30" goes by: the date, then when it was written, then the name."""
    return (stored.entry.date, stored.entry.created_at, stored.path.name)


def agents(root: Path) -> list[str]:
    """Return the names of the agents that have a folder."""
    with _reported(root, "read"):
        if not root.exists():
            return []
        return sorted(
            path.name
            for path in root.iterdir()
            if path.is_dir() and not path.name.startswith(".") and not path.is_symlink()
        )


def read_folder(root: Path, agent: str, *, archived: bool = False) -> Listing:
    """Return the active reflections of an agent, or the archived ones."""
    folder = root / agent
    with _reported(folder, "read"):
        if folder.is_symlink():
            raise LessonStoreError(
                f"{folder} is a link: reflections are kept in a folder of their own; remove the link"
            )
        years = folder / ARCHIVE
        found = sorted(years.glob("[0-9]*/*.md") if archived else folder.glob("*.md"))
    stored: list[Stored] = []
    malformed: list[Malformed] = []
    seen: set[str] = set()
    for path in found:
        one = read_file(path, agent)
        if isinstance(one, Malformed):
            malformed.append(one)
        elif one is not None:
            if one.id in seen:  # a copy, made by hand: it is a reflection of its own
                one = Stored(path, one.entry, _id_of(path, agent), one.digest)
            seen.add(one.id)
            stored.append(one)
    return Listing(tuple(sorted(stored, key=order)), tuple(malformed))


def read_file(path: Path, agent: str) -> Stored | Malformed | None:
    """Read one file; None if it has gone."""
    try:
        data = read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Malformed(path, f"it can't be read: {error}")
    named = _ID.search(data.decode("utf-8", "replace"))
    id = named[1] if named else _id_of(path, agent)
    if not _NAME.fullmatch(path.name):
        return Malformed(path, "its name must be YYYY-MM-DD-<short-title>.md: rename it", id)
    try:
        entry = from_markdown(data.decode("utf-8"))
    except (UnicodeDecodeError, MarkdownError) as error:
        kind = "it is no UTF-8 text: save it as UTF-8: " if isinstance(error, UnicodeDecodeError) else ""
        return Malformed(path, f"{kind}{error}", id)
    return Stored(path, entry, entry.id or _id_of(path, agent), hashlib.sha256(data).hexdigest()[:32])


def write_entry(root: Path, entry: Entry) -> Stored:
    """Put an entry into a file of its own, whatever has its name already; durable when it returns."""
    folder = root / entry.agent
    text = to_markdown(entry)
    with _locked(folder):
        for left in folder.glob("*.part"):  # of a writer that was killed
            left.unlink(missing_ok=True)
        archive = folder / ARCHIVE / f"{entry.date.year:04d}"
        # The reflection's own words: the tasks of one kind begin alike.
        title = entry.reflection.lesson if slug(entry.reflection.lesson) else entry.summary
        name = file_name(entry.date, title, lambda name: _there(folder / name) or _there(archive / name))
        path = folder / name
        try:
            replace_file(path, text)
        except OSError as error:
            raise LessonStoreError(f"the reflection {not_written(path, error)}") from error
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
    return Stored(path, entry, entry.id or _id_of(path, entry.agent), digest)


def archive_older(root: Path, agent: str, keep: int) -> list[Stored]:
    """Move all but the last ``keep`` reflections of an agent to the archive; return them as they were."""
    folder = root / agent
    if len(read_folder(root, agent).stored) <= keep:
        return []
    with _locked(folder):
        stored = read_folder(root, agent).stored
        older = list(stored[: max(len(stored) - keep, 0)])
        for one in older:
            years = folder / ARCHIVE / f"{one.entry.date.year:04d}"
            _make(years)
            one.path.rename(_free(years / one.path.name))
            sync_folder(years)
        sync_folder(folder)
    return older


def remove_files(root: Path, agent: str, paths: Sequence[Path]) -> None:
    """Remove files of an agent; those that have gone are passed over."""
    folder = root / agent
    with _locked(folder):
        for path in paths:
            path.unlink(missing_ok=True)
            if path.parent.exists():
                sync_folder(path.parent)


@contextlib.contextmanager
def locked(root: Path, agent: str) -> Iterator[Path]:
    """Hold the lock of an agent's folder, which is made if there is none; gives the folder."""
    with _locked(root / agent):
        yield root / agent


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with _reported(folder, "written"):
        _make(folder.parent)
        if folder.is_symlink():
            raise LessonStoreError(
                f"{folder} is a link: reflections are kept in a folder of their own; remove the link"
            )
        _make(folder)
        with filelock.FileLock(folder / ".lock", timeout=LOCK_SECONDS):
            yield


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _free(path: Path) -> Path:
    found, number = path, 2
    while _there(found):
        found, number = path.with_name(f"{path.stem}-{number}.md"), number + 1
    return found


def _id_of(path: Path, agent: str) -> str:
    return hashlib.sha256(f"{agent}/{path.name}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


@contextlib.contextmanager
def _reported(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except filelock.Timeout as error:
        raise LessonStoreError(
            f"{path} can't be {doing}: another writer has held its lock for {LOCK_SECONDS:.0f} seconds"
        ) from error
    except OSError as error:
        raise LessonStoreError(f"{path} can't be {doing}: {error}") from error
