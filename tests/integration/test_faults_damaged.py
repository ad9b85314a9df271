"""Each file of a store is damaged: the answers stay right, or the damage is named; never a wrong answer."""

import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import anyio
import pytest

from benchmarks.faults.lane import vector_of
from vectorstores import (
    Chunk,
    HashingEmbedder,
    Store,
    StoreCorruptError,
    StoreUnavailableError,
    open_store,
    origin_of,
    reembed,
)

DIM = 32
COUNT = 11_000
LATE = 25
SAMPLE = 6
PAGE = 4096


def open_at(path: Path, **options) -> Store:
    return open_store(path, embedder=HashingEmbedder(dim=DIM), namespace="test", **options)


@cache
def chunk(name: str, n: int) -> Chunk:
    content = f"{name} {n}"
    return Chunk(content, f"{name}-{n}", {"n": n, "group": n % 50}, vector=vector_of(content, DIM))


# Ends by a kill, so that its last writes are in the write-ahead log alone.
WRITER = """
    import os, sys, anyio
    sys.path.insert(0, "tests/integration")
    from test_faults_damaged import LATE, chunk, open_at
    from pathlib import Path

    async def main(path):
        store = open_at(Path(path))
        for n in range(LATE):
            await store.add([chunk("late", n)])
        print("written", flush=True)
        sys.stdin.readline()

    anyio.run(main, sys.argv[1])
"""


async def fill(path: Path) -> None:
    async with open_at(path) as store:
        await store.add([chunk("early", n) for n in range(COUNT)])
        deadline = time.monotonic() + 30
        while not derived_files(path):
            await store.search(vector_of("anything", DIM))
            assert time.monotonic() < deadline, "a large store wrote no index: these tests would test nothing"
            await anyio.sleep(0.05)


def derived_files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file() and file.parent != path]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory, start_for_all) -> Path:
    """A store with an index, and with a write-ahead log that holds the last writes."""
    path = tmp_path_factory.mktemp("damaged") / "store"
    anyio.run(fill, path)
    process = start_for_all(WRITER, path)
    said = process.stdout.readline()
    process.kill()
    assert said == "written\n", process.communicate()[1]
    return path


Damage = Callable[[bytes], bytes]


def flip(share: float, bit: int = 4) -> Damage:
    def damage(data: bytes) -> bytes:
        place = min(int(len(data) * share), len(data) - 1)
        return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :] if data else data

    return damage


def zero_page(share: float) -> Damage:
    def damage(data: bytes) -> bytes:
        first = int(len(data) * share) // PAGE * PAGE
        return data[:first] + bytes(min(PAGE, len(data) - first)) + data[first + PAGE :]

    return damage


DAMAGES: dict[str, Damage] = {
    "empty": lambda data: b"",
    "half of it": lambda data: data[: len(data) // 2],
    "all but a byte": lambda data: data[:-1],
    "zeroed": lambda data: bytes(len(data)),
    "a page of zeros": zero_page(0.5),
    "its first page zeroed": zero_page(0.0),
    "a bit at the start": flip(0.0),
    "a bit in its header": flip(0.0001),
    "a bit at a third": flip(1 / 3),
    "a bit at two thirds": flip(2 / 3, 6),
    "a bit at the end": flip(1.0, 0),
    "something behind it": lambda data: data + b"something",
}


class WrongAnswerError(AssertionError):
    """An answer that is wrong without anyone having been told."""


async def ask(path: Path, *, late: range = range(LATE, LATE + 1), scan: bool = True) -> int:
    """Ask a store in all ways; return how many of the late chunks it holds, which must be in ``late``."""
    async with open_at(path) as store:
        kept = len(await store.get_by_ids([f"late-{n}" for n in range(LATE)]))
        known = [chunk("early", n) for n in range(COUNT)] + [chunk("late", n) for n in range(kept)]
        expected = {c.id: c for c in known}
        if kept not in late or await store.count() != len(known):
            raise WrongAnswerError(
                f"{LATE - kept} late chunks lost; {await store.count()} of {len(known)} there"
            )
        if scan:
            await read(store, expected)
        for wanted in [*random.Random(1).sample(known, SAMPLE), *known[-2:]]:
            await ask_for(store, wanted, expected)
        return kept


async def read(store: Store, expected: dict[str, Chunk]) -> None:
    found: dict[str, Chunk] = {}
    after = ""
    while after is not None:
        page = await store.scan(after=after or None, limit=5000)
        found |= {c.id: c for c in page.chunks}
        after = page.next
    lost = expected.keys() - found.keys()
    changed = [id for id in found if found[id] != expected.get(id)]
    if lost or changed:
        raise WrongAnswerError(
            f"{len(lost)} of {len(expected)} chunks lost, {len(changed)} changed: {changed[:3]}"
        )


async def ask_for(store: Store, wanted: Chunk, expected: dict[str, Chunk]) -> None:
    hits = await store.search(wanted.vector, k=5)
    if not hits or hits[0].chunk.id != wanted.id:
        raise WrongAnswerError(f"{wanted.id} is not found by its vector, but {hits[:1]}")
    group = await store.search(wanted.vector, k=5, filter={"group": wanted.metadata["group"]})
    if not group or group[0].chunk.id != wanted.id:
        raise WrongAnswerError(f"{wanted.id} is not found in its group, but {group[:1]}")
    for hit in (*hits, *group):
        known = expected[hit.chunk.id]
        truth = float(known.vector @ wanted.vector)
        if hit.chunk != known or abs(hit.score - truth) > 1e-4:
            raise WrongAnswerError(f"{known.id} is said to be at {hit.score:.4f}, it is at {truth:.4f}")


def copy(pristine: Path, tmp_path: Path) -> Path:
    shutil.copytree(pristine, tmp_path / "store")
    return tmp_path / "store"


def test_the_undamaged_store_answers_rightly(pristine, tmp_path):
    assert len(list(pristine.glob("*-wal"))) == 1
    assert len(list(pristine.glob("*-shm"))) == 1
    assert anyio.run(ask, copy(pristine, tmp_path)) == LATE


@pytest.mark.parametrize("name", [*DAMAGES, "removed"])
def test_damage_to_what_is_derived_loses_nothing(pristine, tmp_path, name):
    rest = [file.relative_to(pristine) for file in derived_files(pristine)]
    rest += [file.relative_to(pristine) for file in (*pristine.glob("*-shm"), *pristine.glob("*.lock"))]
    assert len(rest) >= 3
    for number, file in enumerate(rest):
        (tmp_path / str(number)).mkdir()
        path = copy(pristine, tmp_path / str(number))
        if name == "removed":
            (path / file).unlink()
        else:
            (path / file).write_bytes(DAMAGES[name]((path / file).read_bytes()))
        try:
            kept = anyio.run(lambda path=path: ask(path, scan=False))
        except (WrongAnswerError, StoreCorruptError) as error:
            raise AssertionError(f"{file}, {name}: {error}") from error
        assert kept == LATE, f"{file}, {name}: {LATE - kept} acknowledged chunks lost"


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_log_leaves_an_earlier_state_or_is_reported(pristine, tmp_path, name):
    path = copy(pristine, tmp_path)
    (log,) = path.glob("*-wal")
    log.write_bytes(DAMAGES[name](log.read_bytes()))
    try:
        kept = anyio.run(lambda: ask(path, late=range(LATE + 1)))
    except StoreCorruptError as error:
        assert str(path) in str(error)  # noqa: PT017 - either this or an answer
    else:
        # What only the log held, and the log no longer holds, can't be known; no call may be there by half.
        assert kept == LATE or name != "something behind it", f"{LATE - kept} acknowledged chunks lost"


def move(path: Path) -> None:
    anyio.run(lambda: reembed(path, embedder=HashingEmbedder(dim=DIM + 1)))


@pytest.mark.parametrize("work", [origin_of, move])
def test_a_damaged_log_is_reported_by_what_opens_no_store_and_left_as_it_is(pristine, tmp_path, work):
    """Else the next opening would find a log that is gone, and say nothing of the changes that it held."""
    path = copy(pristine, tmp_path)
    (log,) = path.glob("*-wal")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(StoreCorruptError, match="changes that are nowhere else"):
        work(path)
    assert log.read_bytes() == data


def damaged_database(pristine: Path, tmp_path: Path, damage: Damage) -> str:
    """Return what came of opening and asking a store with a damaged database."""
    path = copy(pristine, tmp_path)
    database = path / "store.sqlite3"
    database.write_bytes(damage(database.read_bytes()))
    try:
        anyio.run(ask, path)
    except StoreCorruptError as error:
        return "reported" if str(path) in str(error) else f"reported without its place: {error}"
    except WrongAnswerError as error:
        return f"wrong: {error}"
    return "right"


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_database_is_reported(pristine, tmp_path, name):
    came = damaged_database(pristine, tmp_path, DAMAGES[name])
    assert came in ("reported", "right"), came


def test_a_flipped_bit_of_the_database_gives_no_wrong_answer(pristine, tmp_path):
    chance, came = random.Random(3), []
    for number in range(8):
        (tmp_path / str(number)).mkdir()
        damage = flip(chance.random(), chance.randrange(8))
        came.append(damaged_database(pristine, tmp_path / str(number), damage))
    wrong = [what for what in came if what not in ("reported", "right")]
    assert not wrong, f"{len(wrong)} of {len(came)}: {wrong[0]}"


def test_a_flipped_bit_in_a_text_or_vector_gives_no_wrong_answer(pristine, tmp_path):
    content = chunk("early", 7777)
    needles = {"text": content.content.encode(), "vector": content.vector.astype("<f4").tobytes()}
    for name, needle in needles.items():
        (tmp_path / name).mkdir()

        def damage(data: bytes, needle: bytes = needle) -> bytes:
            place = data.rindex(needle) + len(needle) - 1
            return data[:place] + bytes([data[place] ^ 0x01]) + data[place + 1 :]

        came = damaged_database(pristine, tmp_path / name, damage)
        assert came in ("reported", "right"), f"a bit of a {name}: {came}"


async def write_one(path: Path) -> None:
    async with open_at(path) as store:
        await store.add([chunk("new", 1)])


def test_a_database_that_vanished_is_not_replaced_by_an_empty_one(pristine, tmp_path):
    path = copy(pristine, tmp_path)
    (path / "store.sqlite3").unlink()
    with pytest.raises((StoreUnavailableError, StoreCorruptError), match=str(path)):
        anyio.run(write_one, path)


def test_a_log_without_its_database_is_not_played_into_a_new_one(tmp_path, start):
    path = tmp_path / "store"
    writer = start(WRITER, path)
    assert writer.stdout.readline() == "written\n"
    writer.kill()
    writer.wait()
    assert len(list(path.glob("*-wal"))) == 1
    (path / "store.sqlite3").unlink()
    with pytest.raises((StoreUnavailableError, StoreCorruptError), match=str(path)):
        anyio.run(write_one, path)


async def replace_by_backup(path: Path, backup: Path) -> None:
    async with open_at(path) as store:
        source = sqlite3.connect(path / "store.sqlite3")
        target = sqlite3.connect(backup)
        source.backup(target)
        source.close()
        target.close()
        await store.add([chunk("after", n) for n in range(3000)])
    async with open_at(path) as store:
        await store.search(vector_of("anything", DIM))
    await anyio.sleep(0.3)
    shutil.copy(backup, path / "store.sqlite3")


@pytest.mark.parametrize("more", [0, 3000, 3500])
def test_a_backup_put_back_is_not_confused_by_an_index_of_later(pristine, tmp_path, more):
    async def main() -> None:
        path = copy(pristine, tmp_path)
        await replace_by_backup(path, tmp_path / "backup")
        async with open_at(path) as store:
            if more:
                # As many changes as the index has seen, though others.
                await store.add([chunk("other", n) for n in range(more)])
        async with open_at(path) as store:
            for n in range(0, more, 250):
                hits = await store.search(chunk("other", n).vector, k=1)
                found = [(hit.chunk.id, round(hit.score, 3)) for hit in hits]
                assert found == [(f"other-{n}", 1.0)], f"chunk {n} of {more} is lost to search: {found}"
            for n in range(0, 3000, 500):
                hits = await store.search(chunk("after", n).vector, k=3)
                assert all(hit.score < 0.99 for hit in hits), f"{hits} from after the backup"
            hits = await store.search(vector_of("anything", DIM), k=20_000)
            assert len({hit.chunk.id for hit in hits}) == COUNT + LATE + more == await store.count()

    anyio.run(main)
