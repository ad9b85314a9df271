"""Our end of a worker's pipes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio.to_thread
import numpy as np

from benchmarks.vectorstores.vectors import NEAREST, Corpus, identity, text

if TYPE_CHECKING:
    from vectorstores.base import JSON

EMBEDDED: Final = ("jeevesagent", "chromadb", "lancedb", "qdrant-client")
"""The peers that need no server."""
LIMIT: Final = 2.0
"""Seconds that a peer may take for a burst of calls; it makes one in any case."""
_WORKER: Final = Path(__file__).with_name("worker.py")


class PeerError(Exception):
    """A peer that is not there, or failed."""


@dataclass(frozen=True, slots=True)
class Files:
    """A corpus on disk, for workers to read."""

    vectors: Path
    queries: Path
    rows: Path


def write_files(corpus: Corpus, folder: Path) -> Files:
    """Write a corpus, all of its rows."""
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / "vectors.npy", folder / "queries.npy", folder / "rows.jsonl")
    np.save(files.vectors, corpus.vectors)
    np.save(files.queries, corpus.queries)
    with files.rows.open("w", encoding="utf-8") as out:
        for place in range(len(corpus)):
            row = {"id": identity(place), "text": text(place), "metadata": corpus.metadata(place)}
            out.write(json.dumps(row) + "\n")
    return files


class Peer:
    """A worker process; ended by ``async with``."""

    def __init__(self, python: Path, name: str, log: Path) -> None:
        self.name = name
        self.version = ""
        self.package = name.removesuffix("-postgres")
        self._command = [str(python), str(_WORKER), name]
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    async def __aenter__(self) -> Self:
        """Start it; raises :class:`PeerError` where its package is not installed."""
        self._process = self._start()
        try:
            self.version = str((await self._answer())["version"])
        except BaseException:
            self._end()
            raise
        return self

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("a", encoding="utf-8") as log:
            return subprocess.Popen(  # noqa: S603 - the interpreter that the user named
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    async def ask(self, op: str, said: Mapping[str, JSON]) -> dict[str, Any]:
        """Send a command and return its answer; raises :class:`PeerError`."""
        process = self._process
        if process is None or process.stdin is None:
            raise PeerError(f"{self.name} has ended")
        try:
            process.stdin.write(json.dumps({"op": op, **said}) + "\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            raise PeerError(f"{self.name} has ended, see {self._log}") from error
        return await self._answer()

    async def _answer(self) -> dict[str, Any]:
        process = self._process
        assert process is not None  # noqa: S101 - held by the callers
        assert process.stdout is not None  # noqa: S101
        line = await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
        if not line:
            raise PeerError(f"{self.name} ended without an answer, see {self._log}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer


class PeerSide:
    """Calls of one kind to a peer, timed there; ``found`` keeps the last answer to each query."""

    def __init__(self, peer: Peer, op: str, *, where: Mapping[str, JSON] | None = None) -> None:
        self._peer = peer
        self._said: dict[str, JSON] = {"op": op, "k": NEAREST, "where": where, "limit": LIMIT}
        self.found: dict[int, list[str]] = {}

    async def burst(self, calls: Sequence[int]) -> Sequence[float]:
        """See :class:`~benchmarks.vectorstores.measure.Side`; may make fewer calls than asked for, at least one."""
        said = {name: value for name, value in self._said.items() if name != "op"}
        answer = await self._peer.ask(str(self._said["op"]), said | {"calls": list(calls)})
        made: Iterable[tuple[int, Any]] = zip(calls, answer["answers"], strict=False)
        self.found |= {number: ids for number, ids in made if ids is not None}
        return [float(taken) for taken in answer["seconds"]]
