"""One stream of writes, determined by its name and seed alone, so that a verifier knows the result of each step.

A lane starts a step when the step before is acknowledged. Whatever happens to its process, the store must hold the
result of the acknowledged steps, and either nothing or all of the one step that was in progress.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from vectorstores import JSON, Chunk, RecordWrite

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

Kind: TypeAlias = Literal["add", "update", "delete", "append", "swap", "count", "race"]
Item: TypeAlias = tuple[str, JSON]
"""The content and metadata of a chunk, or the version (as text) and value of a record."""

LEDGER: Final = "ledger"
"""The collection of records that are written with chunks, or appended."""
NOTES: Final = "notes"
"""The collection of records that are replaced."""
_KINDS: Final[Mapping[Kind, int]] = {
    "add": 10,
    "update": 4,
    "delete": 3,
    "append": 2,
    "swap": 3,
    "count": 2,
    "race": 2,
}
_LARGEST_BATCH: Final = 40


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a store.

    The kind ``count`` adds one to a counter that all lanes share. In a ``race`` all lanes try to append the same
    record, each with its own name as the value.
    """

    kind: Kind
    chunks: tuple[Chunk, ...] = ()
    ids: tuple[str, ...] = ()
    patch: Mapping[str, JSON] = field(default_factory=dict)
    records: tuple[RecordWrite, ...] = ()
    version: int | None = None
    number: int = 0


class Lane:
    """The stream of steps with this name, and the items that its steps so far have left in the store."""

    def __init__(self, name: str, seed: int, dim: int) -> None:
        self.name = name
        self.items: dict[tuple[str, str], Item] = {}
        """The keys are (``""``, id) for a chunk and (collection, key) for a record."""
        self.counted = 0
        """How often this lane has added to the shared counter."""
        self.raced = 0
        """In how many races this lane took part."""
        self._dim = dim
        self._chance = random.Random(f"{seed}/{name}")
        self._made = 0
        self._steps = 0

    def plan(self) -> Step:
        """Decide on the next step. Call :meth:`done` before the next call."""
        self._steps += 1
        kind = self._chance.choices(list(_KINDS), list(_KINDS.values()))[0]
        ids = [key for collection, key in self.items if not collection]
        if kind in ("update", "delete") and not ids:
            kind = "add"
        if kind == "add":
            return self._add(ids)
        if kind == "update":
            patch = {"patched": self._steps, "note": None}
            return Step("update", ids=(self._chance.choice(ids),), patch=patch)
        if kind == "delete":
            some = self._chance.sample(ids, min(len(ids), self._chance.randint(1, 8)))
            return Step("delete", ids=tuple(some), records=self._records())
        if kind == "append":
            return Step("append", records=(self._record(),))
        if kind == "swap":
            return self._swap()
        return Step(kind, number=(self.counted if kind == "count" else self.raced) + 1)

    def _add(self, ids: list[str]) -> Step:
        size = 1 if self._chance.random() < 0.5 else self._chance.randint(2, _LARGEST_BATCH)
        old = self._chance.sample(ids, min(len(ids), size // 3))
        chunks = [self._chunk(id) for id in old]
        for _ in range(size - len(old)):
            self._made += 1
            chunks.append(self._chunk(f"{self.name}/{self._made}"))
        return Step("add", chunks=tuple(chunks), records=self._records())

    def _chunk(self, id: str) -> Chunk:
        content = f"{id} written in step {self._steps}" + " and so on" * self._chance.randint(0, 60)
        metadata: dict[str, JSON] = {"lane": self.name, "step": self._steps, "tags": ["a", {"b": 0.5}]}
        return Chunk(content, id, metadata, vector=vector_of(content, self._dim))

    def _records(self) -> tuple[RecordWrite, ...]:
        return (self._record(),) if self._chance.random() < 0.5 else ()

    def _record(self) -> RecordWrite:
        return RecordWrite(LEDGER, f"{self.name}/{self._steps}", {"step": self._steps})

    def _swap(self) -> Step:
        key = f"{self.name}/{self._chance.randint(0, 3)}"
        known = self.items.get((NOTES, key))
        version = None if known is None else int(known[0])
        return Step("swap", records=(RecordWrite(NOTES, key, {"step": self._steps}),), version=version)

    def done(self, step: Step) -> None:
        """Note that a step was carried out."""
        for chunk in step.chunks:
            self.items["", chunk.id] = (chunk.content, dict(chunk.metadata))
        for id in step.ids:
            if step.kind == "delete":
                del self.items["", id]
            else:
                content, metadata = self.items["", id]
                if isinstance(metadata, dict):  # a chunk's always is
                    self.items["", id] = (content, metadata | dict(step.patch))
        for record in step.records:
            version = (step.version or 0) + 1
            self.items[record.collection, record.key] = (str(version), record.value)
        self.counted += step.kind == "count"
        self.raced += step.kind == "race"


def vector_of(content: str, dim: int) -> FloatArray:
    """Return the unit vector of a chunk with this content."""
    seed = int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "big")
    vector = np.random.default_rng(seed).standard_normal(dim).astype(np.float32)
    unit: FloatArray = vector / np.linalg.norm(vector)
    return unit
