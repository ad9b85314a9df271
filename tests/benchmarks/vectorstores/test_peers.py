"""The line protocol to another store, with a store that is none."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.vectorstores.lines import Run, Settings
from benchmarks.vectorstores.peers import client
from benchmarks.vectorstores.peers.client import Peer, PeerError, PeerSide, write_files
from benchmarks.vectorstores.peers.starting import Parts, peers_at
from benchmarks.vectorstores.vectors import clustered, exact, identity, recall

WORKER = """
import sys
sys.path.insert(0, {folder!r})
import asyncio, os, worker
import numpy as np

class Plain:
    def __init__(self, folder, dim, dsn):
        self.rows = {{}}
    async def add(self, rows, vectors):
        self.rows |= {{row["id"]: (row, vector) for row, vector in zip(rows, vectors)}}
    async def search(self, query, k, where):
        kept = [(-float(v @ query), id) for id, (row, v) in self.rows.items()
                if not where or all(row["metadata"][key] == value for key, value in where.items())]
        return [id for _, id in sorted(kept)[:k]]
    async def delete(self, ids):
        for id in ids:
            del self.rows[id]

worker.PEERS["plain"] = ("numpy", Plain)
channel = os.fdopen(os.dup(1), "w")
print("what a store prints is not an answer", file=sys.stderr)
asyncio.run(worker.serve(sys.argv[1], channel))
"""


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peer:
    script = tmp_path / "plain.py"
    script.write_text(WORKER.format(folder=str(client._WORKER.parent)))
    monkeypatch.setattr(client, "_WORKER", script)
    return Peer(Path(sys.executable), "plain", tmp_path / "log")


@pytest.mark.anyio
async def test_a_peer_loads_searches_adds_and_deletes(
    plain: Peer, tmp_path: Path, anyio_backend: str
) -> None:
    corpus = clustered(210, 12, dim=8)
    files = write_files(corpus, tmp_path / "corpus")
    async with plain as peer:
        assert peer.version
        said = {"vectors": str(files.vectors), "queries": str(files.queries), "rows": str(files.rows)}
        answer = await peer.ask("load", {**said, "folder": str(tmp_path), "n": 200, "k": 5})
        assert answer["seconds"] > 0
        search = PeerSide(peer, "search")
        assert len(await search.burst(range(12))) == 12
        truth = exact(corpus.first(200))
        assert recall([search.found[number] for number in range(12)], truth) == 1.0
        picked = PeerSide(peer, "search", where={"kind": "some"})
        await picked.burst(range(12))
        admitted = exact(corpus.first(200), corpus.first(200).labels["kind"] == "some")
        assert recall([picked.found[number] for number in range(12)], admitted) == 1.0
        assert len(await PeerSide(peer, "add").burst(range(200, 210))) == 10
        await search.burst(range(12, 24))
        assert recall([search.found[number] for number in range(12, 24)], exact(corpus)) == 1.0
        await PeerSide(peer, "delete").burst(range(200, 210))
        with pytest.raises(PeerError, match=f"KeyError.*{identity(200)}"):
            await PeerSide(peer, "delete").burst([200])


@pytest.mark.anyio
async def test_a_slow_peer_makes_one_call_a_burst(plain: Peer, tmp_path: Path, anyio_backend: str) -> None:
    corpus = clustered(20, 2, dim=4)
    files = write_files(corpus, tmp_path / "corpus")
    async with plain as peer:
        said = {"vectors": str(files.vectors), "queries": str(files.queries), "rows": str(files.rows)}
        await peer.ask("load", {**said, "folder": str(tmp_path), "n": 20, "k": 5})
        answer = await peer.ask("search", {"calls": [0, 1], "k": 5, "limit": 0.0})
        assert len(answer["seconds"]) == 1


@pytest.mark.anyio
async def test_an_interpreter_without_the_store_is_refused(tmp_path: Path, anyio_backend: str) -> None:
    peer = Peer(Path(sys.executable), "no-such-store", tmp_path / "log")
    with pytest.raises(PeerError, match="no-such-store"):
        async with peer:
            pass


def test_the_rows_on_disk_are_those_of_the_corpus(tmp_path: Path) -> None:
    corpus = clustered(7, 1, dim=4)
    rows = [json.loads(line) for line in write_files(corpus, tmp_path).rows.read_text().splitlines()]
    assert [row["id"] for row in rows] == [identity(place) for place in range(7)]
    assert [row["metadata"] for row in rows] == [corpus.metadata(place) for place in range(7)]


@pytest.mark.anyio
async def test_a_peer_that_is_not_installed_is_left_out_and_said_so(
    tmp_path: Path, anyio_backend: str
) -> None:
    run = Run(Settings(peers=(20,)), tmp_path, lambda line: None)
    parts = Parts(peer_python=Path(sys.executable))
    async with peers_at(run, parts, clustered(20, 2, dim=4), 20, names=("no-such-store",)) as peers:
        assert peers == {}
    assert run.left_out == ["no-such-store at 20: no-such-store: KeyError: 'no-such-store'"]
    async with peers_at(run, parts, clustered(30, 2, dim=4), 30) as peers:
        assert peers == {}
    assert len(run.left_out) == 1
