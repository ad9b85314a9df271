"""Moving a store to another embedder while it is in use."""

import anyio
import pytest

from vectorstores import (
    Chunk,
    EmbedderMismatchError,
    EmbeddingError,
    HashingEmbedder,
    StoreUnavailableError,
    open_store,
    origin_of,
    reembed,
)

pytestmark = pytest.mark.anyio

OLD, NEW = HashingEmbedder(64), HashingEmbedder(128)


@pytest.fixture(params=["disk", "postgres"])
def place(request, tmp_path, anyio_backend):
    """Where a store is made: a folder, or a fresh database."""
    if request.param == "disk":
        return tmp_path
    if anyio_backend == "trio":
        pytest.skip("psycopg runs on asyncio only")
    return request.getfixturevalue("postgres_database")


@pytest.fixture
def database(anyio_backend, request):
    """A fresh PostgreSQL database, where others write while it is moved."""
    if anyio_backend == "trio":
        pytest.skip("psycopg runs on asyncio only")
    return request.getfixturevalue("postgres_database")


class Slow(HashingEmbedder):
    """Calls back before each batch, and fails when it is told to."""

    def __init__(self, dim, between):
        super().__init__(dim)
        self.between = between
        self.texts = []

    async def embed(self, texts):
        self.texts += texts
        await self.between(len(self.texts))
        return await super().embed(texts)


def chunks(count, prefix="text"):
    return [
        Chunk(f"{prefix} number {n}", id=f"{prefix}{n}", metadata={"n": n}, embed_text=f"{prefix} key {n}")
        for n in range(count)
    ]


async def filled(place, count=30):
    async with open_store(place, embedder=OLD, namespace="a") as store:
        await store.add(chunks(count))
        await store.scoped("b").add(chunks(3, "other"))
        await store.append_once("notes", "k", 1)


async def found_by_own_key(place, embedder, namespace="a"):
    async with open_store(place, embedder=embedder, namespace=namespace) as store:
        page = await store.scan(limit=1000)
        for chunk in page.chunks:
            (hit,) = await store.search(chunk.embed_text, k=1)
            assert hit.chunk == chunk
            assert hit.score == pytest.approx(1.0, abs=1e-6)
        return [chunk.id for chunk in page.chunks]


async def test_every_chunk_of_every_namespace_moves(place):
    await filled(place)
    seen = []
    done = await reembed(place, embedder=NEW, batch=8, on_progress=seen.append)
    assert (done.done, done.total) == (33, 33)
    assert [step.done for step in seen] == [8, 16, 24, 32, 33]
    assert origin_of(place).id == NEW.id
    assert await found_by_own_key(place, NEW) == [f"text{n}" for n in range(30)]
    assert await found_by_own_key(place, NEW, "b") == ["other0", "other1", "other2"]
    async with open_store(place, embedder=NEW, namespace="a") as store:
        assert (await store.get("notes", "k")).value == 1
        assert await store.count(filter={"n": {"$lt": 5}}) == 5
    with pytest.raises(EmbedderMismatchError):
        await found_by_own_key(place, OLD)


async def test_a_store_of_this_embedder_is_left_as_it_is(place):
    await filled(place)

    async def never(_):
        raise AssertionError("asked to embed")

    done = await reembed(place, embedder=Slow(64, never))
    assert (done.done, done.total) == (33, 33)


async def test_old_vectors_serve_and_writes_of_others_are_taken_along(database):
    await filled(database)
    store = open_store(database, embedder=OLD, namespace="a")
    steps = []

    async def meanwhile(seen):
        step = len(steps)
        steps.append(seen)
        (hit,) = await store.search("text key 7", k=1)
        assert hit.chunk.id == "text7"
        if step == 1:
            await store.add([Chunk("late", id="late", embed_text="came in late")])
            await store.add([Chunk("changed", id="text2", embed_text="another key")])
            await store.add([Chunk("in this very batch", id="text9", embed_text="yet another key")])
            await store.delete(["text3", "text20"])

    async with store:
        await reembed(database, embedder=Slow(128, meanwhile), batch=8)
        with pytest.raises(EmbedderMismatchError, match="re-embedded"):
            await store.search("text key 7")
        with pytest.raises(EmbedderMismatchError, match="re-embedded"):
            await store.add([Chunk("too late")])
    ids = await found_by_own_key(database, NEW)
    assert sorted(ids) == sorted({f"text{n}" for n in range(30)} - {"text3", "text20"} | {"late"})
    async with open_store(database, embedder=NEW, namespace="a") as store:
        (chunk,) = await store.get_by_ids(["text4"])
        assert chunk.metadata == {"n": 4}


async def test_a_move_that_was_stopped_goes_on_where_it_was(database):
    await filled(database)

    async def fail_at_third(seen):
        if seen > 16:
            raise ConnectionError("gone")

    with pytest.raises(EmbeddingError, match="gone"):
        await reembed(database, embedder=Slow(128, fail_at_third), batch=8)
    assert await found_by_own_key(database, OLD) == [f"text{n}" for n in range(30)]

    async def nothing(_):
        pass

    rest = Slow(128, nothing)
    await reembed(database, embedder=rest, batch=8)
    assert len(rest.texts) == 33 - 16
    assert len(await found_by_own_key(database, NEW)) == 30


async def test_a_cancelled_move_goes_on_where_it_was(database):
    await filled(database)
    with anyio.CancelScope() as scope:

        async def cancel_at_third(seen):
            if seen > 16:
                scope.cancel()
            await anyio.lowlevel.checkpoint()

        await reembed(database, embedder=Slow(128, cancel_at_third), batch=8)
    assert scope.cancelled_caught
    seen = []
    await reembed(database, embedder=NEW, batch=8, on_progress=seen.append)
    assert seen[0].done == 24


async def test_a_move_to_a_third_embedder_replaces_one_that_was_begun(database):
    await filled(database)
    other = HashingEmbedder(32)

    async def change_of_mind(seen):
        if seen <= 8:
            await reembed(database, embedder=other, batch=100)

    with pytest.raises(StoreUnavailableError, match="another process"):
        await reembed(database, embedder=Slow(128, change_of_mind), batch=8)
    assert len(await found_by_own_key(database, other)) == 30


async def test_two_moves_to_the_same_embedder_help_each_other(database):
    await filled(database)
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(lambda: reembed(database, embedder=NEW, batch=4))
    assert len(await found_by_own_key(database, NEW)) == 30


async def test_a_folder_answers_by_its_old_vectors_and_takes_no_writes_while_it_is_moved(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("vectorstores.sqlite_faiss.database.BUSY_TIMEOUT", 0.05)
    await filled(tmp_path)
    store = open_store(tmp_path, embedder=OLD, namespace="a")
    refused = []

    async def meanwhile(seen):
        (hit,) = await store.search("text key 7", k=1)
        assert hit.chunk.id == "text7"
        with pytest.raises(StoreUnavailableError, match="another process has been writing") as caught:
            await store.add([Chunk("late", id="late")])
        refused.append(caught.value)

    async with store:
        await store.count()
        await reembed(tmp_path, embedder=Slow(128, meanwhile), batch=8)
        for call in (lambda: store.search("text key 7"), lambda: store.add([Chunk("too late")])):
            with pytest.raises(EmbedderMismatchError, match="re-embedded"):
                await call()
    assert len(refused) == 5
    assert await found_by_own_key(tmp_path, NEW) == [f"text{n}" for n in range(30)]


async def test_a_search_for_a_new_text_does_not_wait_for_the_move_of_a_folder(tmp_path):
    """Only writes do: what would be remembered of it is left out."""
    await filled(tmp_path)
    store = open_store(tmp_path, embedder=OLD, namespace="a")

    async def meanwhile(seen):
        with anyio.fail_after(60):
            for n in range(3):
                (hit,) = await store.search(f"number key {n}", k=1, filter={"n": n})
                assert hit.chunk.id == f"text{n}"

    async with store:
        await reembed(tmp_path, embedder=Slow(128, meanwhile), batch=40)


async def test_what_was_moved_is_moved_where_the_log_cannot_be_cleared(tmp_path, monkeypatch, caplog):
    await filled(tmp_path)

    def refuse(database):
        raise StoreUnavailableError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("vectorstores.sqlite_faiss.database.Database.scrub", refuse)
        assert (await reembed(tmp_path, embedder=NEW)).done == 33
    assert "no room" in caplog.text
    assert await found_by_own_key(tmp_path, NEW) == [f"text{n}" for n in range(30)]


@pytest.mark.parametrize("way", ["failed", "cancelled"])
async def test_a_move_of_a_folder_that_was_stopped_leaves_it_as_it_was(tmp_path, way):
    await filled(tmp_path)
    with anyio.CancelScope() as scope:

        async def stop_at_third(seen):
            if seen > 16 and way == "failed":
                raise ConnectionError("gone")
            if seen > 16:
                scope.cancel()
            await anyio.lowlevel.checkpoint()

        try:
            await reembed(tmp_path, embedder=Slow(128, stop_at_third), batch=8)
        except EmbeddingError as error:
            assert "gone" in str(error)  # noqa: PT017 - a cancelled one raises nothing
    assert scope.cancelled_caught is (way == "cancelled")
    async with open_store(tmp_path, embedder=OLD, namespace="a") as store:
        await store.add([Chunk("more", id="more", embed_text="one more")])
    assert await found_by_own_key(tmp_path, OLD) == [*(f"text{n}" for n in range(30)), "more"]
    await reembed(tmp_path, embedder=NEW)
    assert len(await found_by_own_key(tmp_path, NEW)) == 31


async def test_whoever_handles_the_error_of_a_failed_move_can_write_to_the_folder(tmp_path, monkeypatch):
    """What the error's traceback keeps alive must not keep the folder locked."""
    monkeypatch.setattr("vectorstores.sqlite_faiss.database.BUSY_TIMEOUT", 0.05)
    await filled(tmp_path)

    async def fail_at_second(seen):
        if seen > 8:
            raise ConnectionError("gone")

    with pytest.raises(EmbeddingError, match="gone") as caught:
        await reembed(tmp_path, embedder=Slow(128, fail_at_second), batch=8)
    async with open_store(tmp_path, embedder=OLD, namespace="a") as store:
        await store.add([Chunk("more")])
        assert await store.count() == 31
    assert caught.tb is not None


async def test_the_old_vectors_leave_the_disk(tmp_path):
    await filled(tmp_path)
    vector = (await OLD.embed(["text key 5"]))[0].tobytes()
    assert any(vector in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    await reembed(tmp_path, embedder=NEW)
    assert not any(vector in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


async def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(StoreUnavailableError, match="no store"):
        await reembed(tmp_path / "nothing", embedder=NEW)
    with pytest.raises(StoreUnavailableError, match="memory"):
        await reembed("memory://", embedder=NEW)
    with pytest.raises(ValueError, match="batch"):
        await reembed(tmp_path, embedder=NEW, batch=0)
    for batch in (True, 2.5, "8"):
        with pytest.raises(TypeError, match="batch"):
            await reembed(tmp_path, embedder=NEW, batch=batch)
    assert not (tmp_path / "nothing").exists()
