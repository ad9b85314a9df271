"""Runs one other store and times its calls: a script of its own, since it runs where this project is not installed.

Reads a JSON object a line from standard input and answers each with one: ``load``, ``search``, ``add``, ``delete``,
``quit``. Vectors come as ``.npy`` files, the rows' texts as JSON lines.
"""
# ruff: noqa: ANN401 - what others' libraries take and return has no types here

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
import traceback
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

warnings.simplefilter("ignore")
BATCH = 5_000
PAGE = os.sysconf("SC_PAGE_SIZE")


class Jeeves:
    """jeevesagent's stores, given vectors through an embedder that looks them up."""

    def __init__(self, make: Any) -> None:
        self._known: dict[str, Any] = {}
        self._store = make(self)

    async def embed(self, text: str) -> Any:
        """Return the vector of a text that is being added."""
        return self._known[text]

    async def embed_batch(self, texts: list[str]) -> Any:
        """Return the vectors of texts that are being added."""
        return [self._known[text] for text in texts]

    async def add(self, rows: list[dict[str, Any]], vectors: Any) -> None:
        """Store rows."""
        chunk = import_module("jeevesagent.loader.base").Chunk
        # As lists, which is what its embedders return.
        self._known = dict(zip((row["text"] for row in rows), vectors.tolist(), strict=True))
        await self._store.add(
            [chunk(row["text"], row["metadata"]) for row in rows], ids=[row["id"] for row in rows]
        )
        self._known = {}

    async def search(self, query: Any, k: int, where: dict[str, Any] | None) -> list[str]:
        """Return the ids of the nearest rows."""
        return [hit.id for hit in await self._store.search_by_vector(query.tolist(), k=k, filter=where)]

    async def delete(self, ids: list[str]) -> None:
        """Delete rows."""
        await self._store.delete(ids)


def jeeves_faiss(folder: Path, dim: int, dsn: str) -> Jeeves:
    """Return jeevesagent's FAISS store with its defaults; it keeps nothing on disk."""
    module = import_module("jeevesagent.vectorstore.faiss")
    return Jeeves(lambda embedder: module.FAISSVectorStore(embedder, dimension=dim))


def jeeves_postgres(folder: Path, dim: int, dsn: str) -> Jeeves:
    """Return jeevesagent's PostgreSQL store with its defaults."""
    module = import_module("jeevesagent.vectorstore.postgres")
    table = f"peer_{os.getpid()}"
    return Jeeves(lambda embedder: module.PostgresVectorStore(embedder, dsn=dsn, table=table, dimension=dim))


class Chroma:
    """chromadb in a folder: HNSW with its defaults, by cosine."""

    def __init__(self, folder: Path, dim: int, dsn: str) -> None:
        chromadb = import_module("chromadb")
        settings = chromadb.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(path=str(folder), settings=settings)
        self._rows = client.create_collection("rows", metadata={"hnsw:space": "cosine"})

    async def add(self, rows: list[dict[str, Any]], vectors: Any) -> None:
        """Store rows."""
        self._rows.add(
            ids=[row["id"] for row in rows],
            embeddings=vectors,
            documents=[row["text"] for row in rows],
            metadatas=[row["metadata"] for row in rows],
        )

    async def search(self, query: Any, k: int, where: dict[str, Any] | None) -> list[str]:
        """Return the ids of the nearest rows."""
        found = self._rows.query(query_embeddings=[query], n_results=k, where=where)
        return list(found["ids"][0])

    async def delete(self, ids: list[str]) -> None:
        """Delete rows."""
        self._rows.delete(ids=ids)


class Lance:
    """lancedb in a folder: no index, as it is made; hence exact."""

    def __init__(self, folder: Path, dim: int, dsn: str) -> None:
        self._base = import_module("lancedb").connect(folder)
        self._table: Any = None

    async def add(self, rows: list[dict[str, Any]], vectors: Any) -> None:
        """Store rows."""
        pyarrow = import_module("pyarrow")
        flat = pyarrow.array(np.ascontiguousarray(vectors).reshape(-1))
        columns = {
            "id": [row["id"] for row in rows],
            "text": [row["text"] for row in rows],
            **{key: [row["metadata"][key] for row in rows] for key in rows[0]["metadata"]},
            "vector": pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
        }
        table = pyarrow.table(columns)
        if self._table is None:
            self._table = self._base.create_table("rows", table)
        else:
            self._table.add(table)

    async def search(self, query: Any, k: int, where: dict[str, Any] | None) -> list[str]:
        """Return the ids of the nearest rows."""
        search = self._table.search(query).distance_type("cosine")
        if where:
            search = search.where(" AND ".join(f"{key} = '{value}'" for key, value in where.items()))
        return [row["id"] for row in search.select(["id", "text"]).limit(k).to_list()]

    async def delete(self, ids: list[str]) -> None:
        """Delete rows."""
        self._table.delete("id IN ({})".format(", ".join(f"'{id}'" for id in ids)))


class Qdrant:
    """qdrant-client without a server, in a folder: exact, in numpy."""

    def __init__(self, folder: Path, dim: int, dsn: str) -> None:
        models = self._models = import_module("qdrant_client.models")
        self._client = import_module("qdrant_client").QdrantClient(path=str(folder))
        params = models.VectorParams(size=dim, distance=models.Distance.COSINE)
        self._client.create_collection("rows", vectors_config=params)

    async def add(self, rows: list[dict[str, Any]], vectors: Any) -> None:
        """Store rows."""
        points = [
            self._models.PointStruct(
                id=int(row["id"], 16), vector=vector, payload={"text": row["text"]} | row["metadata"]
            )
            for row, vector in zip(rows, vectors.tolist(), strict=True)
        ]
        self._client.upsert("rows", points)

    async def search(self, query: Any, k: int, where: dict[str, Any] | None) -> list[str]:
        """Return the ids of the nearest rows."""
        admitted = where and self._models.Filter(
            must=[
                self._models.FieldCondition(key=key, match=self._models.MatchValue(value=value))
                for key, value in where.items()
            ]
        )
        found = self._client.query_points("rows", query=query, limit=k, query_filter=admitted)
        return [f"{point.id:032x}" for point in found.points]

    async def delete(self, ids: list[str]) -> None:
        """Delete rows."""
        self._client.delete("rows", points_selector=[int(id, 16) for id in ids])


PEERS: dict[str, tuple[str, Any]] = {
    "jeevesagent": ("jeevesagent", jeeves_faiss),
    "jeevesagent-postgres": ("jeevesagent", jeeves_postgres),
    "chromadb": ("chromadb", Chroma),
    "lancedb": ("lancedb", Lance),
    "qdrant-client": ("qdrant-client", Qdrant),
}


class Worker:
    """One store with the rows that it was given."""

    def __init__(self, name: str) -> None:
        self.package, self._make = PEERS[name]
        self._store: Any = None
        self._rows: list[dict[str, Any]] = []
        self._vectors: Any = None
        self._queries: Any = None

    async def load(self, said: dict[str, Any]) -> dict[str, Any]:
        """Fill the store with the first ``n`` rows; the rest are there to be added one by one."""
        self._vectors = np.load(said["vectors"], mmap_mode="r")
        self._queries = np.load(said["queries"])
        self._rows = _read(said["rows"])
        self._store = self._make(Path(said["folder"]), self._vectors.shape[1], said.get("dsn", ""))
        gc.collect()
        before = resident()
        started = time.perf_counter()
        for start in range(0, said["n"], BATCH):
            stop = min(start + BATCH, said["n"])
            await self._store.add(self._rows[start:stop], np.array(self._vectors[start:stop]))
        await self._store.search(self._queries[0], said["k"], None)
        seconds = time.perf_counter() - started
        gc.collect()
        return {"seconds": seconds, "bytes_per_row": (resident() - before) / said["n"]}

    async def search(self, said: dict[str, Any]) -> dict[str, Any]:
        """Search for each of the calls' queries."""

        async def call(number: int) -> list[str]:
            query = self._queries[number % len(self._queries)]
            return list(await self._store.search(query, said["k"], said.get("where")))

        return await self._timed(said, call)

    async def add(self, said: dict[str, Any]) -> dict[str, Any]:
        """Store one row for each of the calls."""

        async def call(number: int) -> None:
            await self._store.add([self._rows[number]], np.array(self._vectors[number : number + 1]))

        return await self._timed(said, call)

    async def delete(self, said: dict[str, Any]) -> dict[str, Any]:
        """Delete one row for each of the calls."""

        async def call(number: int) -> None:
            await self._store.delete([self._rows[number]["id"]])

        return await self._timed(said, call)

    async def _timed(self, said: dict[str, Any], call: Any) -> dict[str, Any]:
        seconds: list[float] = []
        answers: list[Any] = []
        for number in said["calls"]:
            started = time.perf_counter()
            answers.append(await call(number))
            seconds.append(time.perf_counter() - started)
            if sum(seconds) > said["limit"]:
                break
        return {"seconds": seconds, "answers": answers}


def _read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def resident() -> int:
    """Return the anonymous memory of this process in bytes: what is mapped from files is the kernel's to give back."""
    size, shared = map(int, Path("/proc/self/statm").read_text(encoding="ascii").split()[1:3])
    return (size - shared) * PAGE


async def serve(name: str, answers: Any) -> None:
    """Answer one line after the other."""
    worker = Worker(name)
    print(json.dumps({"version": version(worker.package)}), file=answers, flush=True)
    for line in sys.stdin:
        said = json.loads(line)
        if said["op"] == "quit":
            return
        try:
            answer = await getattr(worker, said["op"])(said)
        except Exception as error:  # noqa: BLE001 - told to the other side, which reports it
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    # What the stores print must not come between the answers.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        asyncio.run(serve(sys.argv[1], channel))
    except BaseException as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=channel, flush=True)
        raise
