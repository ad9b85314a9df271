"""What every store does with records."""

import anyio
import pytest

from vectorstores import ConflictError, InvalidChunkError, Record

pytestmark = pytest.mark.anyio


async def test_append_once_never_replaces(store):
    assert await store.append_once("notes", "a", {"text": "first"})
    assert not await store.append_once("notes", "a", {"text": "second"})
    assert await store.append_once("other", "a", None)
    assert await store.get("notes", "a") == Record("notes", "a", {"text": "first"}, 1)
    assert await store.get("other", "a") == Record("other", "a", None, 1)
    assert await store.get("notes", "b") is None


async def test_compare_and_swap_takes_the_version_it_expects(store):
    first = await store.compare_and_swap("c", "k", 1, version=None)
    assert first == Record("c", "k", 1, 1)
    second = await store.compare_and_swap("c", "k", [2], version=1)
    assert second == Record("c", "k", [2], 2) == await store.get("c", "k")
    for stale in (None, 1, 3):
        with pytest.raises(ConflictError, match="version 2"):
            await store.compare_and_swap("c", "k", 9, version=stale)
    with pytest.raises(ConflictError, match="no record"):
        await store.compare_and_swap("c", "new", 9, version=1)
    assert await store.get("c", "k") == second


async def test_only_one_of_many_swaps_wins(store):
    async def count_up() -> None:
        while True:
            now = await store.get("c", "counter")
            try:
                await store.compare_and_swap(
                    "c", "counter", (now.value if now else 0) + 1, version=now.version if now else None
                )
            except ConflictError:
                continue
            return

    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(count_up)
    assert await store.get("c", "counter") == Record("c", "counter", 12, 12)


async def test_records_are_scanned_in_the_order_of_their_first_write(store):
    for n in (3, 1, 2, 0):
        await store.append_once("c", f"k{n}", n)
    await store.append_once("d", "k", 0)
    await store.compare_and_swap("c", "k3", 33, version=1)
    assert await store.delete_records("c", ["k1", "k1", "nobody"]) == 1
    await store.append_once("c", "k1", 11)
    seen, after = [], None
    while True:
        page = await store.scan_records("c", after=after, limit=2)
        seen += [record.value for record in page.records]
        if (after := page.next) is None:
            break
    assert seen == [33, 2, 0, 11]
    assert await store.delete_records("c", []) == 0


async def test_records_that_are_no_json_are_refused(store):
    with pytest.raises(InvalidChunkError, match="c/k"):
        await store.append_once("c", "k", {"a": {1, 2}})
    with pytest.raises(InvalidChunkError, match="key must not be empty"):
        await store.append_once("c", "", 1)
    assert (await store.scan_records("c")).records == ()
