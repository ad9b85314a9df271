"""What a folder of reflections that people edit has that its readers don't know yet. Only looks; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.folder import Listing, Malformed, Stored


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a file: the digest of its bytes, and where it was, below the journal's folder."""

    digest: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between a folder and what is known of it.

    ``removed`` holds ids, ``places`` where their files were, as far as that is known. A file that became unreadable is
    ``malformed`` and not removed: what is known of it stays until it is mended or deleted. ``moved`` are files that
    only have another name.
    """

    added: tuple[Stored, ...] = ()
    changed: tuple[Stored, ...] = ()
    moved: tuple[Stored, ...] = ()
    removed: tuple[str, ...] = ()
    malformed: tuple[Malformed, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to apply."""
        return not (self.added or self.changed or self.moved or self.removed)

    def describe(self, root: Path) -> list[str]:
        """Return one line for each change, for people who decide whether to apply it."""
        files = (("added", self.added), ("changed", self.changed), ("moved", self.moved))
        lines = [f"{what}: {place(one.path, root)}{_secret(one)}" for what, found in files for one in found]
        lines += [f"removed: {self.places.get(id) or id}" for id in self.removed]
        return lines + [f"left alone: {place(bad.path, root)}: {bad.problem}" for bad in self.malformed]


def compare(listing: Listing, known: Mapping[str, Known], root: Path) -> Changes:
    """Compare the folder ``root`` with what is known of it, by the ids of its reflections."""
    there = {one.id for one in listing.stored}
    broken = {bad.id for bad in listing.malformed} | {place(bad.path, root) for bad in listing.malformed}
    added, changed, moved = [], [], []
    for one in listing.stored:
        before = known.get(one.id)
        if before is None:
            added.append(one)
        elif before.digest != one.digest:
            changed.append(one)
        elif before.path and before.path != place(one.path, root):
            moved.append(one)
    removed = [
        id
        for id, before in known.items()
        if id not in there and id not in broken and before.path not in broken
    ]
    places = {id: known[id].path for id in removed if known[id].path}
    return Changes(tuple(added), tuple(changed), tuple(moved), tuple(removed), listing.malformed, places)


def place(path: Path, root: Path) -> str:
    """Return where a file is below a folder, in words that hold on every system."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _secret(one: Stored) -> str:
    text = "\n".join((one.entry.summary, *one.entry.reflection.fields.values()))
    return (
        " (holds what looks like a secret: only its readers are spared it, so delete it)"
        if redact(text) != text
        else ""
    )
