"""Rules that hold for any content, metadata, filter and order of calls; the store on disk against the reference."""

import itertools
import json
from collections.abc import Callable

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vectorstores import Chunk, HashingEmbedder, InMemoryVectorStore, InvalidChunkError, SearchHit
from vectorstores.filters import parse

DIM = 64
RULE = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.sampled_from(
    [0, 1, 2, -1, 1.0, 0.5, -0.0, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 1e308, 5e-324]
)
SCALARS = (
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "b", "1", "true", "ä", "\0", "'", '"'])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=3,
)
KEYS = st.sampled_from(["a", "b", "a.b", "'; --", "", "ключ"])
METADATA = st.dictionaries(KEYS, VALUES, max_size=4)
OPERATORS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), VALUES),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(VALUES, max_size=3)),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS | st.sampled_from(["", "a", "b"])),
    st.tuples(st.just("$exists"), st.booleans()),
).map(lambda pair: dict([pair]))
CONDITIONS = OPERATORS | SCALARS | st.lists(SCALARS, max_size=2)
FILTERS = st.recursive(
    st.dictionaries(KEYS, CONDITIONS, max_size=2),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["$and", "$or"]), st.lists(inner, max_size=3)).map(
            lambda pair: dict([pair])
        ),
        inner.map(lambda part: {"$not": part}),
    ),
    max_leaves=4,
)
namespaces = (f"example {n}" for n in itertools.count())


def run(test: Callable) -> None:
    anyio.run(test)


@given(metadata=st.lists(METADATA, max_size=6), filter=FILTERS)
@RULE
def test_every_method_admits_what_the_filter_matches(store, holds_nul, metadata, filter):
    if not holds_nul and "\\u0000" in json.dumps(metadata):
        return

    # One store serves all examples of a test, each in a namespace and an event loop of its own.
    async def check() -> None:
        expected = [f"c{n}" for n, each in enumerate(metadata) if parse(filter).matches(each)]
        scope = store.scoped(next(namespaces))
        rng = np.random.default_rng(1)
        await scope.add(
            [
                Chunk("x", id=f"c{n}", metadata=m, vector=rng.standard_normal(DIM))
                for n, m in enumerate(metadata)
            ]
        )
        assert await scope.count(filter=filter) == len(expected)
        assert [chunk.id for chunk in (await scope.scan(filter=filter)).chunks] == expected
        hits = await scope.search(np.ones(DIM), k=10, filter=filter)
        assert sorted(hit.chunk.id for hit in hits) == expected
        assert all(hit.chunk.metadata == metadata[int(hit.chunk.id[1:])] for hit in hits)

    run(check)


@given(
    texts=st.lists(TEXT.filter(bool), min_size=1, max_size=4, unique=True),
    content=TEXT,
    key=TEXT,
    value=VALUES,
)
@RULE
def test_every_character_comes_back(store, holds_nul, texts, content, key, value):
    async def check() -> None:
        scope = store.scoped(next(namespaces))
        chunks = [
            Chunk(content, id=text, metadata={key: value, "t": text}, embed_text=content) for text in texts
        ]
        if not holds_nul and "\\u0000" in json.dumps([texts, content, key, value]):
            await refuses(scope, chunks, {key: value})
            return
        assert await scope.add(chunks) == texts
        assert await scope.get_by_ids(texts) == chunks
        assert [chunk.id for chunk in (await scope.scan(filter={"t": texts[0]})).chunks] == texts[:1]
        for text in texts:
            assert await scope.append_once(text, text, {key: value})
            assert (await scope.get(text, text)).value == {key: value}
        assert await scope.delete(texts) == len(texts)

    run(check)


async def refuses(scope, chunks, value) -> None:
    """Nothing of a call with NUL in it is stored, and what is asked for by such a name is not there."""
    with pytest.raises(InvalidChunkError, match=r"chunks\[\d\].*NUL"):
        await scope.add([Chunk("fine", id="fine"), *chunks])
    assert await scope.count() == 0
    for text in [chunk.id for chunk in chunks]:
        if "\0" in json.dumps(value) + text:
            with pytest.raises(InvalidChunkError, match="NUL"):
                await scope.append_once(text, text, value)
        if "\0" in text:
            assert await scope.get(text, text) is None
    assert await scope.get_by_ids([chunk.id for chunk in chunks]) == []
    assert await scope.delete([chunk.id for chunk in chunks]) == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
            st.integers(0, 99),
        ),
        st.tuples(st.just("delete"), st.lists(st.integers(0, 9), min_size=1, max_size=4), st.just(0)),
        st.tuples(
            st.just("search"), st.lists(st.integers(1, 12), min_size=1, max_size=1), st.integers(0, 99)
        ),
    ),
    max_size=14,
)


def vector(seed: int) -> np.ndarray:
    # Few directions, so that equal vectors, and ties, occur.
    return np.random.default_rng(seed % 12).standard_normal(DIM).astype(np.float32)


@given(steps=STEPS)
@RULE
def test_any_order_of_calls_ends_as_in_the_reference(store, exact_scores, steps):
    async def check() -> None:
        async with InMemoryVectorStore(HashingEmbedder(dim=DIM), namespace="reference") as reference:
            scope = store.scoped(next(namespaces))
            for kind, numbers, seed in steps:
                results = [await apply(each, kind, numbers, seed) for each in (scope, reference)]
                assert_same(*results, exact=exact_scores)
            for number in range(3):
                found = [
                    await each.search(vector(number), k=7, filter={"n": {"$lt": 80}})
                    for each in (scope, reference)
                ]
                assert_same(*found, exact=exact_scores)
            assert await scope.scan() == pages_without_cursor(await reference.scan())

    run(check)


def assert_same(found, expected, *, exact: bool) -> None:
    if exact or not isinstance(found, list) or not all(isinstance(each, SearchHit) for each in found):
        assert found == expected
        return
    assert [hit.chunk for hit in found] == [hit.chunk for hit in expected]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)


def pages_without_cursor(page):
    assert page.next is None
    return page


async def apply(store, kind: str, numbers: list[int], seed: int):
    if kind == "add":
        return await store.add(
            [Chunk(f"t{n}", id=f"c{n}", metadata={"n": seed}, vector=vector(seed + n)) for n in numbers]
        )
    if kind == "delete":
        return await store.delete([f"c{n}" for n in numbers])
    return await store.search(vector(seed), k=numbers[0])
