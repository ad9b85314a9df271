"""Starts the other stores that an interpreter has, with rows in them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.vectorstores.lines import PeerLine, Run, single
from benchmarks.vectorstores.peers.client import EMBEDDED, Peer, PeerError, PeerSide, write_files
from benchmarks.vectorstores.vectors import NEAREST, Corpus

if TYPE_CHECKING:
    from vectorstores.base import JSON, Filter


# As its own warning has it.
_MOST: Final = {"qdrant-client": 20_000}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made of: the FAISS store, a PostgreSQL server or ``embedded``, an interpreter with other stores."""

    faiss: bool = True
    postgres: str | None = None
    peer_python: Path | None = None


def sides(peers: Mapping[str, Peer], op: str, where: Filter | None = None) -> dict[str, PeerSide]:
    """Return the peers as sides that make calls of one kind."""
    return {name: PeerSide(peer, op, where=where) for name, peer in peers.items()}


def loads(run: Run, n: int, seconds: float, peers: Mapping[str, Peer]) -> None:
    """Keep what our load took, where peers were loaded with the same rows."""
    if peers:
        run.peer_lines.append(PeerLine(f"load {n:,}", "jeeves-reflexion", single(n / seconds, "per s")))


@asynccontextmanager
async def peers_at(
    run: Run, parts: Parts, corpus: Corpus, n: int, *, names: tuple[str, ...] = EMBEDDED, dsn: str = ""
) -> AsyncIterator[dict[str, Peer]]:
    """Start the peers that are installed, with the first ``n`` rows in them; none at a size they are not run at."""
    loaded: dict[str, Peer] = {}
    if parts.peer_python is None or n not in run.settings.peers or not names:
        if parts.peer_python is None and not any("peer-python" in reason for reason in run.left_out):
            run.left_out.append("other stores: `--peer-python`")
        yield loaded
        return
    scratch = run.folder / "peers"
    files = write_files(corpus, scratch / f"corpus-{n}")
    async with AsyncExitStack() as stack:
        for name in names:
            if n > _MOST.get(name, n):
                run.left_out.append(
                    f"{name} at {n:,}: made for {_MOST[name]:,} rows at most without a server"
                )
                continue
            try:
                peer = await stack.enter_async_context(Peer(parts.peer_python, name, scratch / f"{name}.log"))
                said: dict[str, JSON] = {
                    "vectors": str(files.vectors),
                    "queries": str(files.queries),
                    "rows": str(files.rows),
                    "folder": str(scratch / f"{name}-{n}"),
                    "n": n,
                    "k": NEAREST,
                    "dsn": dsn,
                }
                answer = await peer.ask("load", said)
            except PeerError as error:
                run.left_out.append(f"{name} at {n:,}: {error}")
                run.say(str(error))
                continue
            loaded[name] = peer
            run.versions[peer.package] = peer.version
            rate = single(n / answer["seconds"], "per s")
            note = f"{answer['bytes_per_row'] / 1e3:.1f} kB of memory a row, the vector included"
            run.peer_lines.append(PeerLine(f"load {n:,}", name, rate, note=note))
            run.say(f"{name}: {n:,} rows in {answer['seconds']:.1f} s")
        yield loaded
    shutil.rmtree(scratch, ignore_errors=True)
