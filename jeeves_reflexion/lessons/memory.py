"""Named text blocks that outlive a run: in memory, or as files of a folder."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import anyio.to_thread
import filelock

from jeeves_reflexion.callables import aside
from jeeves_reflexion.errors import LessonRefusedError, LessonStoreError
from jeeves_reflexion.files import not_written, read_regular, replace_file
from jeeves_reflexion.lessons.gate import EXCERPT_CHARACTERS, clean_prompt, clean_task
from jeeves_reflexion.lessons.screening.characters import clean_characters, inert
from jeeves_reflexion.lessons.screening.rules import screen
from jeeves_reflexion.protocols import Memory
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import logger
from jeeves_reflexion.text import abridge, one_line
from jeeves_reflexion.types import Lesson, Provenance, Reflection, Task

LOCK_SECONDS = 10.0
MOST_BYTES = 10_000_000


class TransientMemory:
    """Blocks that live as long as this object."""

    def __init__(self) -> None:
        self._blocks: dict[str, str] = {}

    async def read(self, name: str) -> str:
        """Return a block; empty if it was never written."""
        return self._blocks.get(name, "")

    async def append(self, name: str, line: str) -> None:
        """Add a line to a block, unless the block has it already.

        Raises :class:`LessonRefusedError` for one that gives orders to its readers.
        """
        self._blocks[name] = with_line(self._blocks.get(name, ""), line)


class FileMemory:
    """Blocks as text files of a folder, one each, shared by the processes of one machine; durable when a call returns.

    A write goes to a new file, which is renamed under a lock, so that no reader sees half a block and no line is lost.
    Raises :class:`LessonStoreError` if the lock is held for more than 10 seconds or the folder can't be used.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    async def read(self, name: str) -> str:
        """Return a block; empty if it was never written."""
        return await anyio.to_thread.run_sync(self._read, self._path(name))

    async def append(self, name: str, line: str) -> None:
        """Add a line to a block, unless the block has it already; safe beside other writers.

        Raises :class:`LessonRefusedError` for one that gives orders to its readers.
        """
        await anyio.to_thread.run_sync(self._append, self._path(name), line)

    def _path(self, name: str) -> Path:
        """Return the file of a block; its readable name is unique to the block and stays within the folder."""
        readable = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:48]
        if readable != name or not name:
            readable = f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
        return self.folder / f"{readable}.md"

    def _read(self, path: Path) -> str:
        try:
            return read_regular(path, MOST_BYTES).decode("utf-8")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise LessonStoreError(f"the memory block {path} can't be read: {error}") from error

    def _append(self, path: Path, line: str) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with filelock.FileLock(path.with_suffix(".lock"), timeout=LOCK_SECONDS):
                replace_file(path, with_line(self._read(path), line))
        except (OSError, filelock.Timeout) as error:
            raise LessonStoreError(f"the memory block {not_written(path, error)}") from error


async def read_block(memory: Memory, name: str) -> str:
    """Return a block of a memory, made safe for a prompt by :func:`sound_block`."""
    return await aside(sound_block, await memory.read(name))


def sound_block(block: str) -> str:
    """Return a block without items that give orders to their readers, without secrets and hidden characters.

    An appended line was checked before; a file that was edited by hand was not.
    """
    if not block:
        return block
    items = re.split(r"^(?=- )", block, flags=re.MULTILINE)
    kept = [item for item in items if not any(map(screen, {item.rstrip("\n"), one_line(item)}))]
    if len(kept) < len(items):
        logger.warning(
            "%d items of a memory block give orders to their readers: left out", len(items) - len(kept)
        )
    return "".join(inert(redact(clean_characters(item))) for item in kept)


def with_line(block: str, line: str) -> str:
    """Return a block with another line, unless it has that line already.

    Raises :class:`LessonRefusedError` for one that gives orders to its readers.
    """
    if finding := screen(line):
        raise LessonRefusedError(f"the line was refused ({finding.kind}): it {finding.why}", "")
    return _appended(block, redact(clean_characters(line)))


def _appended(block: str, clean: str) -> str:
    item = f"- {inert(one_line(clean))}"
    if item in block.splitlines():
        return block
    return f"{block.rstrip()}\n{item}" if block.strip() else item


def with_reflection(block: str, reflection: Reflection | None) -> str:
    """Return a block as the next attempt of the same run sees it, with the last lesson.

    The lesson is screened again, because a memory of the user's own may have stored it unscreened. It holds no secrets.
    """
    if reflection is None or screen(reflection.lesson):
        return block
    return _appended(block, reflection.lesson)


def lesson_of_line(task: Task, reflection: Reflection, provenance: Provenance) -> Lesson:
    """Return a line of a block as a lesson; equal lines have one id. The reflection holds no secrets."""
    text, task = inert(one_line(clean_characters(reflection.lesson))), clean_task(task)
    return Lesson(
        id=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        text=text,
        task_id=task.id,
        task_excerpt=abridge(clean_prompt(task.prompt), EXCERPT_CHARACTERS),
        provenance=provenance,
        task_kind=task.kind,
        tools=task.tools,
        outcome=reflection.outcome,
        evidence=reflection.evidence,
    )
