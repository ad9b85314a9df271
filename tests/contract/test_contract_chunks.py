"""What every vector store does with chunks."""

import math
import threading
from dataclasses import replace

import anyio
import numpy as np
import pytest
from tables import table

from vectorstores import (
    Chunk,
    ConflictError,
    EmbeddingError,
    HashingEmbedder,
    InMemoryVectorStore,
    InvalidChunkError,
    InvalidFilterError,
    RecordStore,
    RecordWrite,
    Store,
    StoreClosedError,
    VectorStore,
)
from vectorstores import store as store_module

pytestmark = pytest.mark.anyio
DIM = 64


def unit(*head: float) -> np.ndarray:
    vector = np.zeros(DIM, dtype=np.float32)
    vector[: len(head)] = head
    return vector


def ids(hits) -> list[str]:
    return [hit.chunk.id for hit in hits]


async def fill(store: Store, count: int = 10) -> list[Chunk]:
    """Add chunks ``c0``, ``c1``… whose similarity to ``unit(1)`` falls."""
    chunks = [
        Chunk(f"text {n}", id=f"c{n}", metadata={"n": n, "even": n % 2 == 0}, vector=unit(1, n))
        for n in range(count)
    ]
    await store.add(chunks)
    return chunks


def test_it_is_what_the_protocols_ask_for(store):
    assert isinstance(store, VectorStore)
    assert isinstance(store, RecordStore)


async def test_what_is_added_comes_back(store):
    chunk = Chunk(
        "Look in the cabinet first.", metadata={"kind": "lesson", "score": 0.5, "deep": {"a": [1, None]}}
    )
    assert await store.add([chunk, Chunk("another")]) == [chunk.id, (await store.scan()).chunks[1].id]
    assert await store.get_by_ids([chunk.id]) == [chunk]
    assert await store.count() == 2


async def test_a_text_that_is_known_is_not_embedded_again(make_store):
    embedded: list[str] = []

    class Counting(HashingEmbedder):
        async def embed(self, texts):
            embedded.extend(texts)
            return await super().embed(texts)

    async with make_store(embedder=Counting(dim=DIM)) as store:
        await store.add([Chunk(text) for text in ("a", "b")])
        for text in ("b", "a", "c"):
            assert await store.search(text)
    assert embedded == ["a", "b", "c"]


async def test_adding_nothing_is_fine(store):
    assert await store.add([]) == []
    assert await store.search("anything") == []
    assert await store.count() == 0


async def test_what_can_be_gone_through_once_alone_is_taken_whole(store):
    chunks = (Chunk("x", id=f"c{n}") for n in range(3))
    assert await store.add(chunks, records=(RecordWrite("r", str(n), n) for n in range(2))) == [
        "c0",
        "c1",
        "c2",
    ]
    assert len(await store.get_by_ids(f"c{n}" for n in range(3))) == 3
    assert len((await store.scan_records("r")).records) == 2
    assert await store.delete(f"c{n}" for n in range(3)) == 3
    assert await store.delete_records("r", (str(n) for n in range(2))) == 2


async def test_the_embed_text_is_searched_and_the_content_returned(store):
    await store.add(
        [
            Chunk(
                "Mugs are often in the cabinet.",
                id="lesson",
                embed_text="put a clean mug in the coffee machine",
            ),
            Chunk("put a potato in the fridge", id="other"),
        ]
    )
    hit = (await store.search("put a hot mug in the coffee machine", k=1))[0]
    assert hit.chunk.id == "lesson"
    assert hit.chunk.content == "Mugs are often in the cabinet."
    assert hit.chunk.embed_text == "put a clean mug in the coffee machine"


async def test_nearest_come_first_with_cosine_scores(store):
    await fill(store)
    hits = await store.search(unit(3), k=4)
    assert ids(hits) == ["c0", "c1", "c2", "c3"]
    assert [hit.score for hit in hits] == pytest.approx([1 / math.hypot(1, n) for n in range(4)], abs=1e-6)
    opposite = await store.search(unit(-0.001), k=1)
    assert -1.0 <= opposite[0].score <= 0.0


async def test_equal_vectors_come_in_the_order_of_insertion(store):
    rng = np.random.default_rng(5)
    vector = rng.standard_normal(DIM).astype(np.float32)
    await store.add([Chunk("same", id=f"s{n:02}", vector=vector) for n in range(12)])
    await store.add([Chunk("same", id="s03", vector=vector)])
    hits = await store.search(rng.standard_normal(DIM), k=12)
    assert ids(hits) == [f"s{n:02}" for n in range(12)]


async def test_a_filter_applies_before_the_k_best_are_taken(store):
    await fill(store, 40)
    hits = await store.search(unit(1), k=3, filter={"n": {"$gte": 35}})
    assert ids(hits) == ["c35", "c36", "c37"]
    assert ids(await store.search(unit(1), k=3, filter={"n": {"$ne": 0}})) == ["c1", "c2", "c3"]
    assert await store.search(unit(1), filter={"n": {"$in": []}}) == []


async def test_a_filter_sees_later_updates_additions_and_deletions(store):
    await fill(store, 6)
    even = {"even": True}
    assert ids(await store.search(unit(1), k=9, filter=even)) == ["c0", "c2", "c4"]
    c0, c1 = await store.get_by_ids(["c0", "c1"], vectors=True)
    await store.add([replace(c0, metadata={"even": False}), replace(c1, metadata={"even": True})])
    await store.delete(["c2"])
    await store.add([Chunk("new", id="new", metadata={"even": True}, vector=unit(1, 0.5))])
    assert ids(await store.search(unit(1), k=9, filter=even)) == ["new", "c1", "c4"]


class Hidden(str):
    """A text that does not show itself, as configuration libraries have them for secrets."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


async def test_texts_that_look_alike_are_filtered_by_what_they_are(store):
    await store.add(
        [Chunk(tenant, id=tenant, metadata={"tenant": tenant}, vector=unit(1)) for tenant in "ab"]
    )
    for tenant in "ab":
        for filter in ({"tenant": Hidden(tenant)}, {"$not": {"tenant": {"$ne": Hidden(tenant)}}}):
            assert [chunk.id for chunk in (await store.scan(filter=filter)).chunks] == [tenant]
            assert ids(await store.search(unit(1), filter=filter)) == [tenant]
    assert await store.count(filter={Hidden("tenant"): "a"}) == 1
    assert await store.count(filter={Hidden("other"): "a"}) == 0


async def test_min_score_leaves_out_what_is_too_far(store):
    await fill(store)
    assert ids(await store.search(unit(1), k=9, min_score=0.7)) == ["c0", "c1"]


async def test_vectors_come_with_their_chunks_when_they_are_asked_for(store):
    await store.add(
        [Chunk("text"), Chunk("other", id="other", vector=unit(3, 4)), Chunk("x", id="x", vector=unit(2))]
    )
    (hit,) = await store.search("text", k=1)
    texts, other = await store.get_by_ids([hit.chunk.id, "nobody", "other"], vectors=True)
    assert (texts.content, other.id) == ("text", "other")
    assert np.allclose(other.vector, unit(0.6, 0.8), atol=1e-6)
    assert np.isclose(np.linalg.norm(texts.vector), 1.0, atol=1e-6)
    other.vector[:] = 0.0  # the reader's own
    assert (await store.search(unit(3, 4), k=1))[0].score == pytest.approx(1.0, abs=1e-5)
    assert [chunk.vector for chunk in await store.get_by_ids(["other"])] == [None]
    assert await store.get_by_ids([], vectors=True) == await store.get_by_ids(["nobody"], vectors=True) == []


async def test_adding_an_id_again_replaces_it_in_its_place(store):
    await fill(store, 3)
    await store.add([Chunk("new text", id="c0", metadata={"x": 1}, vector=unit(0, 0, 1))])
    page = await store.scan()
    assert [chunk.id for chunk in page.chunks] == ["c0", "c1", "c2"]
    assert page.chunks[0] == Chunk("new text", id="c0", metadata={"x": 1})
    assert ids(await store.search(unit(0, 0, 1), k=1)) == ["c0"]
    assert ids(await store.search(unit(1), k=1)) == ["c1"]


async def test_deleted_chunks_are_gone_and_unknown_ids_are_passed_over(store):
    await fill(store, 5)
    assert ids(await store.search(unit(1), k=1)) == ["c0"]
    assert await store.delete(["c0", "nobody", "c3", "c0"]) == 2
    assert ids(await store.search(unit(1), k=9)) == ["c1", "c2", "c4"]
    assert await store.get_by_ids(["c0", "c1"]) == [
        Chunk("text 1", id="c1", metadata={"n": 1, "even": False})
    ]
    assert await store.count() == 3
    assert await store.delete([]) == 0


async def test_most_of_a_large_store_can_be_deleted(store):
    await fill(store, 3000)
    assert await store.delete([f"c{n}" for n in range(3000) if n % 100]) == 2970
    assert ids(await store.search(unit(1), k=3)) == ["c0", "c100", "c200"]
    await store.add([Chunk("again", id="c1", vector=unit(1, 1))])
    assert ids(await store.search(unit(1), k=3, filter={"n": {"$exists": False}})) == ["c1"]
    assert ids(await store.search(unit(1), k=2)) == ["c0", "c1"]


async def test_scan_gives_every_chunk_once_in_the_order_of_insertion(store):
    await fill(store, 7)
    seen: list[str] = []
    after = None
    while True:
        page = await store.scan(after=after, limit=3)
        seen += [chunk.id for chunk in page.chunks]
        # What happens to chunks that were given out already does not disturb the rest.
        await store.delete(seen[-1:])
        if (after := page.next) is None:
            break
    assert seen == [f"c{n}" for n in range(7)]
    filtered = await store.scan(filter={"even": True}, limit=1)
    assert filtered.chunks[0].id == "c0"
    assert filtered.next is not None


async def test_what_was_returned_can_be_changed_without_changing_the_store(store):
    await store.add([Chunk("text", id="c", metadata={"list": [1]})])
    (chunk,) = await store.get_by_ids(["c"])
    chunk.metadata["list"].append(2)
    assert (await store.get_by_ids(["c"]))[0].metadata == {"list": [1]}


async def test_namespaces_know_nothing_of_each_other(store):
    other = store.scoped("other")
    await store.add([Chunk("mine", id="same", vector=unit(1), metadata={"a": 1})])
    await other.add([Chunk("theirs", id="same", vector=unit(1), metadata={"a": 2})])
    await other.add([Chunk("more", id="more", vector=unit(1))])
    await other.append_once("notes", "key", "theirs")
    assert [hit.chunk.content for hit in await store.search(unit(1))] == ["mine"]
    assert [chunk.content for chunk in (await store.scan()).chunks] == ["mine"]
    assert await store.get_by_ids(["more"]) == []
    assert await store.count(filter={"a": 2}) == 0
    assert await store.delete(["more"]) == 0
    assert await store.get("notes", "key") is None
    assert (await store.scan_records("notes")).records == ()
    assert await store.delete_records("notes", ["key"]) == 0
    assert await store.delete(["same"]) == 1
    assert [chunk.content for chunk in (await other.scan()).chunks] == ["theirs", "more"]
    assert other.namespace == "other"


async def test_a_record_is_written_with_the_chunks(store):
    write = RecordWrite("ledger", "recall-1", {"offered": ["c"]})
    await store.add([Chunk("text", id="c")], records=[write])
    assert (await store.get("ledger", "recall-1")).value == {"offered": ["c"]}
    await store.delete(
        ["c"], records=[RecordWrite("ledger", "gone", 1), RecordWrite("ledger", "recall-1", "again")]
    )
    assert (await store.get("ledger", "gone")).value == 1
    assert (await store.get("ledger", "recall-1")).value == {"offered": ["c"]}


async def test_a_record_that_must_be_new_keeps_everything_out_when_it_is_not(store):
    first = RecordWrite("history", "c:1", "first", must_be_new=True)
    await store.add([Chunk("one", id="c", vector=unit(1))], records=[first])
    late = RecordWrite("history", "c:1", "late", must_be_new=True)
    for change in (
        lambda: store.add([Chunk("two", id="c"), Chunk("more", id="d")], records=[late]),
        lambda: store.add([], records=[RecordWrite("history", "c:2", "other"), late]),
        lambda: store.add([Chunk("two", id="c")], records=[RecordWrite("h", "k", 1, must_be_new=True)] * 2),
        lambda: store.delete(["c"], records=[late]),
    ):
        with pytest.raises(ConflictError, match="expected no record"):
            await change()
    assert [chunk.content for chunk in (await store.scan()).chunks] == ["one"]
    assert (await store.get("history", "c:1")).value == "first"
    assert await store.get("history", "c:2") is None
    assert await store.get("h", "k") is None


async def test_of_many_writers_of_one_number_one_is_first(store):
    won: list[int] = []

    async def write(number: int) -> None:
        record = RecordWrite("history", "c:1", number, must_be_new=True)
        try:
            await store.add([Chunk(f"by {number}", id="c", vector=unit(1))], records=[record])
        except ConflictError:
            return
        won.append(number)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(write, number)
    (winner,) = won
    assert (await store.get("history", "c:1")).value == winner
    assert [chunk.content for chunk in await store.get_by_ids(["c"])] == [f"by {winner}"]


BAD = [
    (Chunk("x", id="bad", vector=unit(math.nan)), "vector"),
    (Chunk("x", id="bad", vector=unit(math.inf)), "vector"),
    (Chunk("x", id="bad", vector=unit()), "all zeros"),
    (Chunk("x", id="bad", vector=np.ones(DIM + 1, dtype=np.float32)), "shape"),
    (Chunk("x", id="bad", vector=np.array(["a"] * DIM)), "numbers"),
    (Chunk("x", id="bad", metadata={"a": math.nan}), "not a JSON number"),
    (Chunk("x", id="bad", metadata={"a": {"b": [2**63]}}), r"\['a'\]\['b'\]\[0\].*64 bits"),
    (Chunk("x", id="bad", metadata={"a": object()}), "not JSON"),
    (Chunk("x", id="bad", metadata={"a": b"bytes"}), "not JSON"),
    (Chunk("x", id="bad", metadata={1: "a"}), "key"),
    (Chunk("x", id="bad", metadata=[1]), "mapping"),
    (Chunk("x", id="bad", metadata={"a": "\ud800"}), "surrogate"),
    (Chunk("\ud800", id="bad"), "content"),
    (Chunk(None, id="bad"), "content"),
    (Chunk("x", id="bad", embed_text=7), "embed_text"),
    (Chunk("x", id=""), "empty"),
    (Chunk("x", id="good"), "same id"),
    ("no chunk", "expected a Chunk"),
]


@table(("bad", "said"), BAD)
async def test_one_bad_chunk_refuses_the_call(store, bad, said):
    good = Chunk("fine", id="good")
    with pytest.raises(InvalidChunkError, match=said) as caught:
        await store.add([good, bad], records=[RecordWrite("c", "k", 1)])
    assert "chunks[1]" in str(caught.value)
    assert await store.count() == 0
    assert await store.get("c", "k") is None


async def test_deeply_nested_metadata_is_refused(store):
    deep: dict = {}
    for _ in range(2000):
        deep = {"a": deep}
    with pytest.raises(InvalidChunkError, match="nested"):
        await store.add([Chunk("x", metadata=deep)])
    with pytest.raises(InvalidFilterError, match="nested"):
        await store.count(filter={"a": {"$eq": deep}})


async def test_a_bad_record_refuses_the_call(store):
    with pytest.raises(InvalidChunkError, match=r"records\[0\]"):
        await store.add([Chunk("fine", id="good")], records=[RecordWrite("c", "k", math.inf)])
    assert await store.count() == 0


@table("arguments", [{"k": 0}, {"min_score": 1.5}, {"min_score": math.nan}])
async def test_arguments_out_of_range_are_named(store, arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        await store.search("x", **arguments)


async def test_a_bad_query_vector_or_cursor_is_refused(store):
    with pytest.raises(InvalidChunkError, match="query vector"):
        await store.search(unit())
    with pytest.raises(ValueError, match="limit"):
        await store.scan(limit=0)
    with pytest.raises(ValueError, match="after"):
        await store.scan(after="1; DROP TABLE chunks")
    with pytest.raises(TypeError, match="one string"):
        await store.delete("abc")


@table("wrong", [2.5, True, "3", None])
async def test_a_number_of_results_is_a_whole_number(store, wrong):
    with pytest.raises(TypeError, match="k must be a whole number"):
        await store.search("x", k=wrong)
    with pytest.raises(TypeError, match="limit must be a whole number"):
        await store.scan(limit=wrong)
    with pytest.raises(TypeError, match="limit must be a whole number"):
        await store.scan_records("c", limit=wrong)
    with pytest.raises(ValueError, match="after"):
        await store.scan(after=5)


async def test_asking_for_more_than_there_can_be_returns_all(store):
    await store.add([Chunk("one", id="1"), Chunk("two", id="2")], records=[RecordWrite("c", "k", 1)])
    assert len(await store.search("one", k=10**30)) == 2
    assert len((await store.scan(limit=10**30)).chunks) == 2
    assert len((await store.scan_records("c", limit=10**30)).records) == 1


async def test_a_vector_that_is_no_row_of_numbers_is_named(store):
    with pytest.raises(InvalidChunkError, match=r"chunks\[1\] \(id 'odd'\): vector"):
        await store.add([Chunk("fine"), Chunk("x", id="odd", vector=[1.0, [2.0]])])
    with pytest.raises(InvalidChunkError, match="query vector"):
        await store.search([1.0, [2.0]])
    assert await store.count() == 0


async def test_a_query_that_is_no_unicode_is_refused_with_the_reason(store):
    await store.add([Chunk("x")])
    with pytest.raises(EmbeddingError, match="lone surrogate"):
        await store.search("a \ud800 b")


async def test_a_bad_filter_is_refused_by_every_method_that_takes_one(store):
    for call in (store.count, store.scan):
        with pytest.raises(InvalidFilterError, match=r"filter\.\$nor"):
            await call(filter={"$nor": []})
    with pytest.raises(InvalidFilterError, match=r"filter\.a\.\$regex"):
        await store.search("x", filter={"a": {"$regex": ".*"}})


async def test_a_scope_is_required_where_others_may_see_it(make_store, store):
    if isinstance(store, InMemoryVectorStore):
        mine, other = make_store(namespace=None), make_store(namespace=None)
        await mine.add([Chunk("x", id="x")])
        assert (await mine.count(), await other.count()) == (1, 0)
    else:
        with pytest.raises(TypeError, match="no default scope"):
            make_store(namespace=None)
    for empty in ("", "  "):
        with pytest.raises(ValueError, match="no default scope"):
            store.scoped(empty)


async def test_a_closed_store_says_so(make_store):
    store = make_store()
    view = store.scoped("other")
    await store.add([Chunk("x", id="x")])
    await view.close()
    with pytest.raises(StoreClosedError):
        await view.count()
    assert await store.count() == 1
    again = store.scoped("other")
    await store.close()
    await store.close()
    for closed in (store, again):
        with pytest.raises(StoreClosedError):
            await closed.add([Chunk("y")])


async def test_a_context_closes_the_store(make_store):
    async with make_store() as store:
        await store.add([Chunk("x")])
    with pytest.raises(StoreClosedError):
        await store.count()


class Faulty(HashingEmbedder):
    """Embeds well until it is told what else to do."""

    answer = None

    async def embed(self, texts):
        if self.answer is None:
            return await super().embed(texts)
        return self.answer(texts)


def lost(texts):
    raise ConnectionError("gone")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda texts: np.ones((len(texts), DIM - 1), dtype=np.float32), "shape"),
        (lambda texts: np.full((len(texts), DIM), np.nan, dtype=np.float32), "NaN"),
        (lambda texts: np.zeros((len(texts), DIM), dtype=np.float32), "text 0"),
        (lambda texts: [[1.0] * DIM for _ in texts], "list"),
        (lost, "ConnectionError: gone"),
    ],
)
async def test_an_embedder_that_fails_loses_nothing(make_store, answer, said):
    embedder = Faulty(dim=DIM)
    store = make_store(embedder=embedder)
    await store.add([Chunk("before", id="before")])
    embedder.answer = answer
    with pytest.raises(EmbeddingError, match=said):
        await store.add([Chunk("now", id="now"), Chunk("with vector", id="v", vector=unit(1))])
    with pytest.raises(EmbeddingError, match=said):
        await store.search("something else")
    embedder.answer = None
    assert [chunk.id for chunk in (await store.scan()).chunks] == ["before"]


async def test_many_tasks_add_search_and_delete_at_once(store):
    async def work(worker: int) -> None:
        for n in range(10):
            await store.add([Chunk(f"{worker} {n}", id=f"{worker}-{n}", vector=unit(1, worker, n))])
            hits = await store.search(unit(1, worker, n), k=1)
            assert hits[0].score == pytest.approx(1.0, abs=1e-5)
        assert await store.delete([f"{worker}-0"]) == 1

    async with anyio.create_task_group() as tasks:
        for worker in range(30):
            tasks.start_soon(work, worker)
    assert await store.count() == 270
    assert len(await store.search(unit(1), k=300)) == 270


async def test_what_takes_long_to_read_is_read_off_the_event_loop(store, monkeypatch):
    threads: dict[str, int] = {}

    def noted(name, work):
        def run(*arguments):
            threads[name] = threading.get_ident()
            return work(*arguments)

        return run

    monkeypatch.setattr(store_module, "parse", noted("filter", store_module.parse))
    monkeypatch.setattr(store_module, "check_ids", noted("ids", store_module.check_ids))
    await store.add([Chunk("mug", "c1", {"n": 1})])
    many = [f"c{n}" for n in range(2000)]
    here = threading.get_ident()
    for ids, elsewhere in ((many[:3], False), (many, True)):
        where = {"n": {"$nin": ids}}
        for call in (
            store.search("mug", filter=where),
            store.count(filter=where),
            store.scan(filter=where),
            store.get_by_ids(ids),
            store.delete_records("any", ids),
        ):
            threads.clear()
            await call
            assert [thread != here for thread in threads.values()] == [elsewhere]
    assert await store.delete(many) == 1
    assert threads["ids"] != here
