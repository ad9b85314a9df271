"""Writes reflections with their vectors until it is killed: python library_writer.py FOLDER."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import anyio
from protocol_parts import TASK, at, important, source

from jeeves_reflexion.reflections.journal import ReflectionJournal
from jeeves_reflexion.reflections.library import ReflectionLibrary
from jeeves_reflexion.reflections.streams import Streams
from vectorstores import FaissVectorStore, HashingEmbedder


async def main(folder: Path) -> None:
    async with FaissVectorStore(folder / "index", embedder=HashingEmbedder(), namespace="tests") as index:
        journal = ReflectionJournal(folder / "reflections", keep=3)
        async with ReflectionLibrary(journal, index, streams=Streams(index)) as library:
            for number in itertools.count():
                lesson = await library.record(TASK, important(), provenance=source("a", at(1) + number))
                print(lesson.id, flush=True)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
