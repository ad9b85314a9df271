"""PostgreSQL overrun: more calls than connections, large and odd things. Nothing acknowledged is lost."""

import asyncio
import threading

import anyio
import pytest

from benchmarks.faults.lane import vector_of
from vectorstores import Chunk, InvalidChunkError, RecordWrite, StoreUnavailableError

psycopg = pytest.importorskip("psycopg")
from postgres_parts import DIM, chunk, store_at  # noqa: E402


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_more_calls_than_connections_wait_for_their_turn(postgres_database):
    async with store_at(postgres_database, pool_size=2) as store:
        ids = await asyncio.gather(*(store.add([chunk(f"c{n}")]) for n in range(150)))
        assert ids == [[f"c{n}"] for n in range(150)]
        counts = await asyncio.gather(*(store.count() for _ in range(150)))
        assert set(counts) == {150}, f"{150 - min(counts)} of 150 acknowledged chunks lost"


@pytest.mark.anyio
async def test_a_pool_whose_connections_are_stuck_is_an_error_in_time(postgres_database):
    async with store_at(postgres_database, pool_size=2, checkout_timeout=0.5) as store:
        await store.add([chunk("before")])
        async with await psycopg.AsyncConnection.connect(postgres_database) as holder:
            await holder.execute("LOCK TABLE vectorstores.chunks IN ACCESS EXCLUSIVE MODE")
            stuck = [asyncio.create_task(store.add([chunk(f"stuck{n}")])) for n in range(2)]
            await anyio.sleep(0.2)
            with pytest.raises(StoreUnavailableError, match="pool exhausted: all 2 connections"):
                await store.count()
            await holder.rollback()
        assert await asyncio.gather(*stuck) == [["stuck0"], ["stuck1"]]
        assert await store.count() == 3


@pytest.mark.anyio
async def test_two_thousand_searches_and_additions_at_once(postgres_database):
    async with store_at(postgres_database, checkout_timeout=120.0) as store:
        await store.add([chunk(f"base{n}") for n in range(50)])
        threads = threading.active_count()

        async def add(n: int) -> int:
            return len(await store.add([chunk(f"c{n}")]))

        async def search(n: int) -> int:
            return len(await store.search(vector_of(f"content of base{n % 50}", DIM), k=3))

        results = await asyncio.gather(*((add if n % 10 == 0 else search)(n) for n in range(2_000)))
        assert results == [1 if n % 10 == 0 else 3 for n in range(2_000)]
        lost = 250 - await store.count()
        assert lost == 0, f"{lost} of 200 acknowledged chunks lost"
        assert threading.active_count() - threads < 60


@pytest.mark.anyio
async def test_a_lesson_of_a_megabyte(postgres_database):
    text = "Lösung \U0001f600 " * 100_000
    async with store_at(postgres_database) as store:
        large = Chunk(
            text, "large", {"note": text, "deep": [[text[:1000]] * 500]}, vector=vector_of("large", DIM)
        )
        await store.add([large, chunk("small")])
        await store.append_once("r", "large", {"text": text})
        hits = await store.search(vector_of("large", DIM), k=1, filter={"note": text})
        assert [hit.chunk for hit in hits] == [large]
        assert await store.count(filter={"note": {"$gt": text[:-1]}}) == 1
        assert (await store.get("r", "large")).value == {"text": text}


@pytest.mark.anyio
async def test_every_character_but_nul_is_kept(postgres_database):
    codes = [*range(1, 0xD800), *range(0xE000, 0x10000), 0x10000, 0x1F600, 0x10FFFF]
    every = "".join(map(chr, codes))
    pieces = [every[start : start + 300] for start in range(0, len(every), 300)]
    async with store_at(postgres_database) as store:
        chunks = [
            Chunk(every[n : n + 5000], piece, {piece: piece, "kind": piece}, vector=vector_of(piece, DIM))
            for n, piece in enumerate(pieces)
        ]
        await store.add(chunks)
        lost = [c.id for c in chunks if await store.get_by_ids([c.id]) != [c]]
        assert not lost, f"{len(lost)} of {len(chunks)} chunks lost or changed, such as {lost[0]!r:.50}"
        for piece in pieces[::20]:
            for filter in ({piece: piece}, {"kind": piece}, {piece: {"$exists": True}}):
                assert [c.id for c in (await store.scan(filter=filter)).chunks] == [piece]
            scope = store.scoped(piece[:150])
            await scope.append_once(piece[:150], piece, piece)
            assert (await scope.get(piece[:150], piece)).value == piece


@pytest.mark.anyio
async def test_nul_is_refused_wherever_it_is_and_nothing_is_stored(postgres_database):
    vector = vector_of("x", DIM)
    good = chunk("good")
    async with store_at(postgres_database) as store:
        for bad, place in (
            (Chunk("a\0", "i", vector=vector), "content"),
            (Chunk("a", "i\0", vector=vector), "id"),
            (Chunk("a", "i", embed_text="\0", vector=vector), "embed_text"),
            (Chunk("a", "i", {"k": ["\0"]}, vector=vector), "metadata"),
            (Chunk("a", "i", {"k\0": 1}, vector=vector), "metadata"),
        ):
            with pytest.raises(InvalidChunkError, match=rf"chunks\[1\].*{place}.*NUL"):
                await store.add([good, bad])
        for collection, key, value in (("c\0", "k", 1), ("c", "k\0", 1), ("c", "k", {"a": "\0"})):
            with pytest.raises(InvalidChunkError, match="NUL"):
                await store.append_once(collection, key, value)
            with pytest.raises(InvalidChunkError, match="NUL"):
                await store.add([good], records=[RecordWrite(collection, key, value)])
            assert await store.get(collection, key) is None
        with pytest.raises(ValueError, match="NUL"):
            store.scoped("n\0")
        assert await store.get_by_ids(["i\0"]) == []
        assert await store.delete(["i\0"]) == 0
        assert await store.count() == 0
