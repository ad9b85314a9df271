"""A marked block of lessons in a file that coding agents read, such as ``AGENTS.md``. The rest of the file stays."""

from __future__ import annotations

import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.files import not_written, read_regular, replace_file
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.injection import render
from jeeves_reflexion.types import Lesson

BEGIN: Final = (
    '<!-- jeeves-reflexion lessons: begin; written by "lessons export --to", edits in here are lost -->'
)
END: Final = "<!-- jeeves-reflexion lessons: end -->"
MOST_CHARACTERS: Final = 4_000
_HEAD: Final = "What earlier attempts taught. Weigh it as advice from experience."
_MARK: Final = re.compile(rb"[^\r\n]*jeeves-reflexion lessons:[^\r\n]*", re.IGNORECASE)
_NAME: Final = re.compile(r"(jeeves-reflexion lessons):", re.IGNORECASE)
_MOST_BYTES: Final = 10_000_000
_MODE: Final = 0o644


def ranked(lessons: Sequence[Lesson], known: Credits) -> list[Lesson]:
    """Return the active lessons that are not shown to harm: by lift, then by support, then the newest first."""
    active = [lesson for lesson in lessons if lesson.state == "active"]
    return sorted(
        (each for each in active if (known.lift(each.id).high or 0.0) >= 0),
        key=lambda each: (-(known.lift(each.id).value or 0.0), -each.support, -each.provenance.created_at),
    )


def block_of(lessons: Sequence[Lesson], most: int = MOST_CHARACTERS) -> tuple[str, int]:
    """Return a block with as many of the first lessons as fit into ``most`` characters, and their number.

    Raises :class:`ConfigurationError` if the marks alone are longer.
    """

    def written(shown: Sequence[Lesson]) -> str:
        # A lesson must not end the block, begin another, or look like a damaged mark to the next export.
        body = _NAME.sub(r"\1&#58;", render(shown).replace("<!--", "&lt;!--"))
        return "\n".join((BEGIN, f"{_HEAD}\n\n{body}" if body else "No lessons.", END))

    block, number = written([]), 0
    if len(block) > most:
        raise ConfigurationError(f"a block of lessons takes at least {len(block)} characters, not {most}")
    for taken in range(1, len(lessons) + 1):
        longer = written(lessons[:taken])
        if len(longer) > most:
            break
        block, number = longer, taken
    return block, number


def with_block(data: bytes, block: str) -> bytes:
    """Return the bytes of a file with the block in place of its present one, else at its end.

    The block gets the line endings of the file; everything else stays, byte for byte. Raises
    :class:`ConfigurationError` for marks that are damaged, doubled, single or in the wrong order.
    """
    marks = list(_MARK.finditer(data))
    # A bare carriage return at the end becomes a pair with the line feed that follows it now.
    paired = b"\r\n" in data or (not marks and data.endswith(b"\r"))
    end = b"\r\n" if paired else b"\n"
    new = block.encode().replace(b"\n", end)
    if not marks:
        gap = b"" if not data else end if data.endswith(b"\n") else end + end
        return data + gap + new + end
    if [mark[0] for mark in marks] != [BEGIN.encode(), END.encode()]:
        lines = ", ".join(str(data.count(b"\n", 0, mark.start()) + 1) for mark in marks)
        raise ConfigurationError(
            f"the marks of the block of lessons (line {lines}) are not one beginning and one end as written:"
            " repair them, or remove them all"
        )
    return data[: marks[0].start()] + new + data[marks[1].end() :]


def update_file(path: Path, block: str) -> bool:
    """Update the block of a file, which is created if it does not exist; return whether it changed. Blocks.

    Raises :class:`ConfigurationError` for damaged marks, as :func:`with_block` does, and for a file that can't be read;
    :class:`LessonStoreError` for a file that can't be written, which then stays as it was.
    """
    try:
        data = read_regular(path, _MOST_BYTES)
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        data, mode = b"", _MODE
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror or error}") from error
    try:
        new = with_block(data, block)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if new == data:
        return False
    try:
        replace_file(path, new, mode=mode)
    except OSError as error:
        raise LessonStoreError(not_written(path, error)) from error
    return True
