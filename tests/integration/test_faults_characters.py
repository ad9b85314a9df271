"""Every character of Unicode in ids, metadata, namespaces and records: kept and found again, or refused."""

import anyio
import pytest

from vectorstores import (
    Chunk,
    HashingEmbedder,
    InvalidChunkError,
    InvalidFilterError,
    RecordWrite,
    open_store,
)

DIM = 8
PLANE = [
    chr(code)
    for code in range(0x10000)
    if not 0xD800 <= code < 0xE000
    and (code % 8 in {0, code // 8 % 8} or code < 0x300 or 0x2000 <= code < 0x2100)
]
"""Of the Basic Multilingual Plane, of which surrogates are no part, one or two of each eight; all of ASCII, of the
accented letters, and of the general punctuation with its invisible characters."""
ODD = {
    "nul": "\0",
    "nul inside": "a\0b",
    "nul twice": "a\0\0b",
    "newline": "a\nb",
    "carriage return": "a\r\nb",
    "control": "\x01\x1b\x7f\x85",
    "blank": " ",
    "blanks around": " a ",
    "no-break space": "\u00a0",
    "line separator": "\u2028",
    "zero width": "a\u200bb",
    "byte order mark": "\ufeffa",
    "right to left": "\u202eabc\u202c אבג",
    "isolate": "\u2067a\u2069",
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "many marks": "a" + "\u0301" * 200,
    "noncharacter": "\uffff\ufdd0",
    "replacement": "\ufffd",
    "private": "\ue000",
    "astral": "\U0001f5c4",
    "joined": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "last": "\U0010ffff",
    "upper": "A",
    "lower": "a",
    "sharp s": "ß",
    "two s": "ss",
    "dotless": "\u0131",
    "full width": "\uff21",
    "per cent": "%",
    "placeholders": "%s ? :a $1 {} {0}",
    "underscore": "_",
    "quotes": "'\"`",
    "quoted away": "'; DROP TABLE chunks; --",
    "backslash": "\\",
    "escape": "\\u0000",
    "slashes": "../../etc/passwd",
    "dollar": "$",
    "operator": "$gt",
    "dots": "a.b.c",
    "brackets": "a[0]",
    "braces": "{a,b}",
    "null": "null",
    "number": "1",
    "long": "x" * 10_000,
}
LONE = ["\ud800", "a\udfff", "\udc80b"]


@pytest.fixture(params=["memory", "folder"])
def url(request, tmp_path) -> str:
    return "memory://" if request.param == "memory" else str(tmp_path / "store")


def open_at(url: str, namespace: str = "test"):
    return open_store(url, embedder=HashingEmbedder(dim=DIM), namespace=namespace)


def vector(n: int) -> list[float]:
    return [1.0, n % 251, n % 241, n % 239, n % 233, n % 229, n % 227, n / 70_000]


def test_characters_of_the_whole_plane_are_ids_of_their_own(tmp_path):
    async def main() -> None:
        async with open_at(str(tmp_path / "store")) as store:
            chunks = [Chunk(c, c, {c: c}, vector=vector(n)) for n, c in enumerate(PLANE)]
            for first in range(0, len(chunks), 10_000):
                batch = chunks[first : first + 10_000]
                await store.add(batch, records=[RecordWrite("plane", c.id, c.id) for c in batch])
            assert await store.count() == len(PLANE), (
                f"{len(PLANE) - await store.count()} of {len(PLANE)} lost"
            )
            found = await store.get_by_ids(PLANE)
            wrong = [
                c
                for c, got in zip(chunks, found, strict=True)
                if (got.id, got.content, got.metadata) != (c.id, c.content, c.metadata)
            ]
            assert not wrong, f"{len(wrong)} of {len(PLANE)} are changed, such as {wrong[0]!r}"
            records = await store.scan_records("plane", limit=len(PLANE))
            kept = {record.key: record.value for record in records.records}
            assert kept == {c: c for c in PLANE}, f"{len(PLANE) - len(kept)} of {len(PLANE)} records lost"
            gone = set(PLANE[::31])
            assert await store.delete(PLANE[::31]) == len(gone)
            left, after = [], ""
            while after is not None:
                page = await store.scan(after=after or None, limit=10_000)
                left += [c.id for c in page.chunks]
                after = page.next
            stays = [c for c in PLANE if c not in gone]
            assert left == stays, f"{len(set(stays) - set(left))} of {len(stays)} lost"

    anyio.run(main)


def test_odd_texts_are_kept_and_found(url):
    async def main() -> None:
        lost = []
        async with open_at(url) as store:
            chunks = [Chunk(f"{name}: {t}", t, {t: t, "t": t, "in": [{t: [t]}]}) for name, t in ODD.items()]
            # One call each: a text may be refused, then by a clear error, but not be changed or dropped.
            kept = []
            for chunk in chunks:
                try:
                    await store.add([chunk], records=[RecordWrite("odd", chunk.id, chunk.id)])
                    kept.append(chunk)
                except InvalidChunkError as error:
                    refused = str(error)
                    assert "\0" in chunk.id, f"{chunk.id!r} was refused: {refused}"
            assert await store.get_by_ids([c.id for c in chunks]) == kept
            for chunk in kept:
                by_text = await store.search(chunk.content, k=3)
                by_value = (await store.scan(filter={"t": chunk.id})).chunks
                record = await store.get("odd", chunk.id)
                if chunk.id not in [hit.chunk.id for hit in by_text] or [c.id for c in by_value] != [
                    chunk.id
                ]:
                    lost.append(chunk.id)
                if record is None or record.value != chunk.id:
                    lost.append(("record", chunk.id))
                try:
                    by_key = (await store.scan(filter={chunk.id: chunk.id})).chunks
                    if [c.id for c in by_key] != [chunk.id]:
                        lost.append(("key", chunk.id))
                except InvalidFilterError:
                    assert chunk.id.startswith("$"), f"the key {chunk.id!r} can't be asked for"
        assert not lost, f"{len(lost)} of {len(kept)} lost: {lost[:3]!r}"

    anyio.run(main)


def test_odd_namespaces_are_kept_apart(url):
    async def main() -> None:
        async with open_at(url) as store:
            scopes = {}
            for text in ODD.values():
                try:
                    scopes[text] = store.scoped(text)
                    await scopes[text].add([Chunk(text, "same", vector=vector(1))])
                    await scopes[text].append_once("same", "same", text)
                except (ValueError, InvalidChunkError) as error:
                    scopes.pop(text, None)
                    refused = str(error)
                    assert "\0" in text or not text.strip(), f"{text!r} was refused: {refused}"
            assert len(scopes) >= len(ODD) - 5
            lost = []
            for text, scope in scopes.items():
                hits = await scope.search(vector(1), k=5)
                record = await scope.get("same", "same")
                if [hit.chunk.content for hit in hits] != [text] or record is None or record.value != text:
                    lost.append(text)
            assert not lost, f"{len(lost)} of {len(scopes)} name spaces lost or mixed up: {lost[:3]!r}"

    anyio.run(main)


def test_what_is_no_unicode_is_refused_and_nothing_of_it_stored(url):
    async def main() -> None:
        async with open_at(url) as store:
            for text in LONE:
                for chunk in (
                    Chunk("x", text),
                    Chunk(text, "x"),
                    Chunk("x", "x", {text: 1}),
                    Chunk("x", "x", {"a": [text]}),
                    Chunk("x", "x", embed_text=text),
                ):
                    with pytest.raises(InvalidChunkError, match=r"chunks\[1\]"):
                        await store.add([Chunk("fine", "fine"), chunk], records=[RecordWrite("c", "k", 1)])
                with pytest.raises(ValueError, match="surrogate"):
                    store.scoped(text)
                with pytest.raises((ValueError, InvalidChunkError), match="surrogate"):
                    await store.append_once("c", text, 1)
            assert await store.count() == 0
            assert await store.get("c", "k") is None

    anyio.run(main)
