"""What the tests of PostgreSQL share: small stores, and a proxy that cuts connections at chosen moments."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlencode

from psycopg.conninfo import conninfo_to_dict

from benchmarks.faults.lane import vector_of
from vectorstores import Chunk, HashingEmbedder, PostgresVectorStore
from vectorstores.postgres import PostgresOptions

DIM = 16


def store_at(url: str, namespace: str = "test", **options: float) -> PostgresVectorStore:
    embedder = HashingEmbedder(dim=DIM)
    return PostgresVectorStore(
        url, embedder=embedder, namespace=namespace, options=PostgresOptions(**options)
    )


def chunk(name: str, **metadata: object) -> Chunk:
    return Chunk(f"content of {name}", name, metadata, vector=vector_of(f"content of {name}", DIM))


@dataclass
class Traffic:
    """What one client has sent so far."""

    seen: bytes = b""

    def since(self, word: bytes) -> int:
        """Return how many bytes were sent since a word, -1 if it was not."""
        place = self.seen.rfind(word)
        return -1 if place < 0 else len(self.seen) - place


Cut = Callable[[Traffic], str | None]


def in_write(after: int) -> Cut:
    """Cut when so many bytes behind the content of the chunk ``c0`` have been sent."""
    return lambda traffic: "before" if traffic.since(b"content of c0") > after else None


def always(traffic: Traffic) -> str:
    """Stop forwarding, and keep the connection open: what a vanished host looks like."""
    return "stall"


def at_commit(when: str) -> Cut:
    """Cut ``before`` the server hears of COMMIT, or ``after`` it has answered, so that nobody hears of that."""
    return lambda traffic: when if traffic.seen.endswith(b"COMMIT\0") else None


_STARTING = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"


class Proxy:
    """Forwards connections. The next ``cuts`` times that ``cut`` says so, it closes one.

    While ``starting`` is set, it says to new ones what a server says that is about to be there. New ones wait
    until ``passing`` is set; ``accepted`` counts all.
    """

    def __init__(self, dsn: str) -> None:
        self.cut: Cut | None = None
        self.cuts = 0
        self.done = 0
        self.starting = False
        self.accepted = 0
        self.passing = asyncio.Event()
        self.passing.set()
        self._upstream = conninfo_to_dict(dsn)
        self._tasks: set[asyncio.Task] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def arm(self, cut: Cut, cuts: int = 1) -> None:
        self.cut, self.cuts, self.done = cut, cuts, 0

    @property
    def dsn(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        login = self._upstream.get("user", "")
        if self._upstream.get("password"):
            login += f":{self._upstream['password']}"
        options = urlencode({"sslmode": "disable", "gssencmode": "disable"})
        return f"postgresql://{login}@127.0.0.1:{port}/{self._upstream['dbname']}?{options}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._forward(reader, writer)
        except asyncio.CancelledError:
            pass  # the streams module would log it as an error
        finally:
            self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        await self.passing.wait()
        if self.starting:
            await reader.read(4096)
            writer.write(b"E" + (4 + len(_STARTING)).to_bytes(4, "big") + _STARTING)
            writer.close()
            return
        host, port = self._upstream["host"], self._upstream.get("port", 5432)
        if host.startswith("/"):
            server, to_server = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            server, to_server = await asyncio.open_connection(host, int(port))
        replies = asyncio.create_task(self._copy_replies(server, writer))
        traffic = Traffic()
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(4096):
                    traffic.seen = (traffic.seen + data)[-1_000_000:]
                    when = self.cut(traffic) if self.cut and self.cuts else None
                    if when:
                        self.cuts, self.done = self.cuts - 1, self.done + 1
                        if when == "stall":
                            replies.cancel()
                            await asyncio.sleep(3600)
                        if when == "after":
                            replies.cancel()
                            to_server.write(data)
                            await asyncio.wait_for(server.read(4096), 10)
                        return
                    to_server.write(data)
                    await to_server.drain()
        finally:
            replies.cancel()
            await asyncio.gather(replies, return_exceptions=True)
            for each in (writer, to_server):
                each.close()
                with contextlib.suppress(OSError):
                    await each.wait_closed()

    async def _copy_replies(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await server.read(4096):
                writer.write(data)
                await writer.drain()
            writer.close()
