"""What every store does with records."""

from contextlib import aclosing

import anyio
import numpy as np
import pytest

from vectorstores import Chunk, ConflictError, InvalidChunkError, Record, RecordWrite, StoreClosedError

pytestmark = pytest.mark.anyio


async def test_append_once_never_replaces(store):
    assert await store.append_once("notes", "a", {"text": "first"})
    assert not await store.append_once("notes", "a", {"text": "second"})
    assert await store.append_once("other", "a", None)
    assert await store.get("notes", "a") == Record("notes", "a", {"text": "first"}, 1)
    assert await store.get("other", "a") == Record("other", "a", None, 1)
    assert await store.get("notes", "b") is None


@pytest.mark.parametrize("odd", [True, 1.0, "1"])
async def test_a_version_is_a_whole_number(store, odd):
    await store.append_once("c", "k", 1)
    with pytest.raises(TypeError, match="version must be a whole number"):
        await store.compare_and_swap("c", "k", 2, version=odd)
    swapped = await store.compare_and_swap("c", "k", 2, version=np.int64(1))
    assert (swapped.version, type(swapped.version)) == (2, int)


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


async def test_records_of_one_call_are_scanned_in_the_order_of_the_call(store):
    await store.append_once("log", "m", "there before")
    await store.append_once("log", "n", "there before too")
    for number, names in enumerate(("cab", "zny", "dmx")):
        writes = [RecordWrite("log", name, number) for name in names]
        other = [RecordWrite("another", name, number) for name in reversed(names)]
        change = (
            store.add([Chunk("x")], records=writes + other) if number else store.delete([], records=writes)
        )
        await change
    page = await store.scan_records("log", limit=4)
    rest = await store.scan_records("log", after=page.next)
    assert [record.key for record in page.records + rest.records] == list("mncabzydx")
    assert [record.version for record in page.records + rest.records] == [1] * 9
    assert [record.key for record in (await store.scan_records("another")).records] == list("ynzxmd")


async def test_writers_of_the_same_records_in_opposite_orders_all_come_to_their_end(store):
    names = [f"k{number}" for number in range(8)]

    async def write(number: int) -> None:
        ordered = names if number % 2 else names[::-1]
        await store.add(
            [Chunk("x")], records=[RecordWrite("r", f"{name} {number // 4}", number) for name in ordered]
        )

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(write, number)
    found = [record.key for record in (await store.scan_records("r")).records]
    assert len(found) == len(set(found)) == 16


async def test_what_is_no_record_is_named(store):
    for wrong in (5, None, {"collection": "c", "key": "k", "value": 1}, ("c", "k", 1)):
        for call in (store.add, store.delete):
            with pytest.raises(InvalidChunkError, match=r"records\[1\]: expected a RecordWrite, got"):
                await call([], records=[RecordWrite("c", "k", 1), wrong])
    assert await store.get("c", "k") is None


async def test_records_that_are_no_json_are_refused(store):
    with pytest.raises(InvalidChunkError, match="c/k"):
        await store.append_once("c", "k", {"a": {1, 2}})
    with pytest.raises(InvalidChunkError, match="key must not be empty"):
        await store.append_once("c", "", 1)
    assert (await store.scan_records("c")).records == ()


async def test_each_kind_of_write_is_told(store):
    chunk = Chunk("a", id="a")
    async with aclosing(store.changes()) as changes:
        with anyio.fail_after(60):
            await anext(changes)  # it listens
            for write in (
                lambda: store.add([chunk]),
                lambda: store.add([], records=[RecordWrite("c", "first", 1)]),
                lambda: store.append_once("c", "k", 1),
                lambda: store.compare_and_swap("c", "k", 2, version=1),
                lambda: store.delete_records("c", ["k"]),
                lambda: store.delete(["a"]),
            ):
                await write()
                await anext(changes)
            await store.close()
            with pytest.raises(StoreClosedError):
                await anext(changes)
