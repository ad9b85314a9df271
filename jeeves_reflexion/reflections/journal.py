"""The journal: reflections as Markdown files in a folder for each agent, shared by the processes of a machine.

::

    memory/reflections/<agent-name>/YYYY-MM-DD-<short-title>.md      active, the last 30
    memory/reflections/<agent-name>/archive/YYYY/<the same name>     older ones, by the year of their date

Writers take turns under a lock for each agent. A file is written as a whole or not at all, and archived by renaming it,
so that a crash neither loses nor doubles a file.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import filelock

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.files import not_written, read_regular, replace_file, sync_folder
from jeeves_reflexion.reflections.markdown import (
    Entry,
    MarkdownError,
    agent_slug,
    from_markdown,
    slug,
    title_slug,
    to_markdown,
)
from jeeves_reflexion.values import check_whole

DEFAULT_FOLDER: Final = Path("memory/reflections")
KEEP: Final = 30
LOCK_SECONDS: Final = 30.0
MOST_BYTES: Final = 200_000
"""A larger file is not read."""

_NAME: Final = re.compile(r"\d{4}-\d{2}-\d{2}-.+\.md")


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry and its file. ``digest`` is the digest of the file's bytes; ``id`` is never empty."""

    path: Path
    entry: Entry
    id: str
    digest: str

    @property
    def order(self) -> tuple[datetime.date, float, str]:
        """The sort key of entries: the date, then the time of writing, then the name."""
        return (self.entry.date, self.entry.source.created_at, self.path.name)


@dataclass(frozen=True, slots=True)
class Malformed:
    """A file that can't be read, and why. It stays where it is."""

    path: Path
    problem: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The contents of folders: reflections, oldest first, and files that can't be read."""

    stored: tuple[Stored, ...] = ()
    malformed: tuple[Malformed, ...] = ()


class ReflectionJournal:
    """Reflections under ``folder``, by default ``memory/reflections`` below the working directory.

    The last ``keep`` of each agent stay active; older ones move to the archive of their year and are never deleted.
    Dates are in UTC, so that all machines agree. Methods block: from async code, call them in a worker thread. They
    raise :class:`LessonStoreError` for a failure. A ``ReflectionLibrary`` writes: it redacts and screens.
    """

    def __init__(self, folder: str | os.PathLike[str] = DEFAULT_FOLDER, *, keep: int = KEEP) -> None:
        self.folder = Path(folder)
        self.keep = check_whole("keep", keep)

    def list(self, agent: str | None = None, *, archived: bool = False) -> Listing:
        """Return the reflections of an agent, or of all agents, oldest first, and the files that can't be read."""
        stored: list[Stored] = []
        malformed: list[Malformed] = []
        ids = set[str]()
        folders = [] if agent is None else [self.folder / agent_slug(agent)]
        if agent is None:
            with _reported(self.folder, "read"):
                found = sorted(self.folder.iterdir()) if self.folder.exists() else []
                folders = [
                    path for path in found if path.is_dir() and path.name[0] != "." and not path.is_symlink()
                ]
        for folder in folders:
            with _reported(folder, "read"):
                _refuse_link(folder)
                paths = sorted((folder / "archive").glob("[0-9]*/*.md") if archived else folder.glob("*.md"))
            for path in paths:
                one = read_file(path, folder.name)
                if isinstance(one, Malformed):
                    malformed.append(one)
                elif one is not None:
                    # A file that a person copied, also from another agent, is a reflection with an id of its own.
                    stored.append(replace(one, id=_id_of(path, folder.name)) if one.id in ids else one)
                    ids.add(one.id)
        return Listing(tuple(sorted(stored, key=lambda one: one.order)), tuple(malformed))

    def everything(self, agent: str | None = None) -> tuple[Stored, ...]:
        """Return the reflections of an agent, or of all agents: the active ones, then those in the archive."""
        return (*self.list(agent).stored, *self.list(agent, archived=True).stored)

    def write(self, entry: Entry) -> Stored:
        """Write an entry to a new file, which is durable when this returns."""
        folder, text = self.folder / entry.agent, to_markdown(entry)
        year = folder / "archive" / f"{entry.date.year:04d}"
        with _locked(folder):
            for left in folder.glob("*.md.part"):  # of a writer that was killed
                left.unlink(missing_ok=True)
            # The words of the reflection, because tasks of one kind begin alike.
            title = entry.reflection.lesson if slug(entry.reflection.lesson) else entry.summary
            path = _free_path(folder, f"{entry.date}-{title_slug(title)}", year)
            try:
                replace_file(path, text)
            except OSError as error:
                raise LessonStoreError(f"the reflection {not_written(path, error)}") from error
        digest = _digest(text.encode("utf-8", "replace"))
        return Stored(path, entry, entry.id or _id_of(path, entry.agent), digest)

    def archive_older(self, agent: str) -> tuple[Stored, ...]:
        """Archive all but the last ``keep`` reflections of an agent; return them as they were before."""
        if len(self.list(agent).stored) <= self.keep:
            return ()
        folder = self.folder / agent_slug(agent)
        with _locked(folder):
            older = self.list(agent).stored[: -self.keep]
            for one in older:
                year = folder / "archive" / f"{one.entry.date.year:04d}"
                year.mkdir(parents=True, exist_ok=True, mode=0o700)
                one.path.rename(_free_path(year, one.path.stem))
                sync_folder(year)
            sync_folder(folder)
        return older

    def remove(self, stored: Stored) -> None:
        """Remove the file of a reflection, if it still exists."""
        with _locked(self.folder / stored.path.relative_to(self.folder).parts[0]):
            stored.path.unlink(missing_ok=True)
            if stored.path.parent.exists():
                sync_folder(stored.path.parent)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is created for this user alone if it does not exist."""
    with _reported(folder, "written"):
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _refuse_link(folder)
        folder.mkdir(exist_ok=True, mode=0o700)
        with filelock.FileLock(folder / ".lock", timeout=LOCK_SECONDS):
            yield


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():  # files would go elsewhere
        raise LessonStoreError(
            f"{folder} is a link, but reflections need a folder of their own: remove the link"
        )


@contextlib.contextmanager
def _reported(path: Path, doing: str) -> Iterator[None]:
    """Raise errors of the file system as a :class:`LessonStoreError` that names ``path``."""
    try:
        yield
    except filelock.Timeout as error:
        raise LessonStoreError(
            f"{path} can't be {doing}: another writer has held its lock for {LOCK_SECONDS:.0f} seconds"
        ) from error
    except OSError as error:
        raise LessonStoreError(f"{path} can't be {doing}: {error}") from error


def _free_path(folder: Path, stem: str, *others: Path) -> Path:
    """Return ``<stem>.md``, or the first of ``<stem>-2.md`` and so on, that is free in all the folders."""
    for number in itertools.count(1):
        name = f"{stem}.md" if number == 1 else f"{stem}-{number}.md"
        # lexists, because a broken link takes its name too.
        if not any(os.path.lexists(each / name) for each in (folder, *others)):
            break
    return folder / name


def read_file(path: Path, agent: str) -> Stored | Malformed | None:
    """Read one file; returns None if it does not exist. Blocks."""
    try:
        data = read_regular(path, MOST_BYTES)
        if not _NAME.fullmatch(path.name):
            return Malformed(path, "its name must be YYYY-MM-DD-<short-title>.md: rename it")
        entry = from_markdown(data.decode("utf-8"))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        return Malformed(path, f"it is not UTF-8 text: save it as UTF-8: {error}")
    except (OSError, MarkdownError) as error:
        return Malformed(path, str(error))
    return Stored(path, entry, entry.id or _id_of(path, agent), _digest(data))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _id_of(path: Path, agent: str) -> str:
    return _digest(f"{agent}/{path.name}".encode("utf-8", "surrogatepass"))
