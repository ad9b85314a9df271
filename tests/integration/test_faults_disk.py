"""A disk without room, a folder without rights: the call is refused, the rest is kept, and it goes on after."""

import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

# What the scripts below share: a lane whose refused steps must have left nothing.
LANE = """
    import errno, json, os, resource, sys, time
    from pathlib import Path
    import anyio
    from benchmarks.faults.lane import Lane, vector_of
    from benchmarks.faults.rounds import filler
    from benchmarks.faults.verify import read_all
    from benchmarks.faults.writer import perform
    from vectorstores import HashingEmbedder, StoreUnavailableError, open_store

    DIM = 16
    lane = Lane("r.0", 1, DIM)
    fillers, refused, accepted = {}, [], 0

    def store_at(path):
        return open_store(path, embedder=HashingEmbedder(dim=DIM), namespace="test")

    async def step(store):
        global accepted
        planned = lane.plan()
        try:
            await perform(store, lane, planned)
        except StoreUnavailableError as error:
            refused.append(str(error))
        else:
            lane.done(planned)
            accepted += 1

    async def preload(store, count):
        for first in range(0, count, 4000):
            batch = [filler(n, DIM) for n in range(first, min(first + 4000, count))]
            try:
                await store.add(batch)
            except StoreUnavailableError as error:
                refused.append(str(error))
            else:
                fillers.update({("", c.id): (c.content, dict(c.metadata)) for c in batch})

    async def look(store, when, search=True):
        expected, found = lane.items | fillers, await read_all(store)
        lost = [place for place in expected if place not in found]
        extra = [place for place in found if expected.get(place, "") not in (found[place], "")]
        extra += found.keys() - expected.keys()
        assert not lost and not extra, (
            f"{when}: {len(lost)} of {len(expected)} items lost {lost[:1]}, {len(extra)} changed or there although"
            f" the call had been refused {extra[:1]}; last refusals: {refused[-2:]}"
        )
        contents = [item[0] for place, item in expected.items() if not place[0]]
        for content in contents[:: max(1, len(contents) // 20)]:
            hits = await store.search(vector_of(content, DIM), k=1)
            assert [hit.chunk.content for hit in hits] == [content], f"{when}: {content} is not found"

    def tell(**more):
        print(json.dumps({"refused": refused, "accepted": accepted} | more))
"""

FULL = (
    LANE
    + """
    async def main(folder, size, count):
        path, ballast = Path(folder) / "store", Path(folder) / "ballast"

        def leave(free):
            deadline = time.monotonic() + 10
            while True:
                ballast.unlink(missing_ok=True)
                room = os.statvfs(folder)
                try:
                    with ballast.open("wb") as file:
                        os.posix_fallocate(file.fileno(), 0, max(room.f_bavail * room.f_frsize - free, 1))
                except OSError as error:
                    # The store took some of the room in between; what there is now is to be filled up.
                    if error.errno != errno.ENOSPC or time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
                else:
                    return

        # No room for a store at all; then room.
        leave(4096)
        try:
            async with store_at(path) as store:
                await store.count()
        except StoreUnavailableError as error:
            refused.append(str(error))
        created = len(refused)
        ballast.unlink()
        async with store_at(path) as store:
            await preload(store, count)
            for free in (0, 4096, 20_000, 60_000, 150_000, 400_000, 0):
                leave(free)
                for _ in range(15):
                    await step(store)
                await look(store, f"with {free} bytes free")
            full = len(refused)
            ballast.unlink()
            for _ in range(15):
                await step(store)
            await look(store, "with room again")
        async with store_at(path) as store:
            await look(store, "opened again")
        tell(created=created, full=full - created, after=len(refused) - full)

    anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""
)


def in_small_disk(folder: Path, megabytes: int) -> tuple[str, ...]:
    """Return the words before a command that give it a small file system of its own, without rights to it."""
    mount = f"mount -t tmpfs -o size={megabytes}m tmpfs {folder} && exec"
    return ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f'{mount} "$@"', "sh")


@cache
def small_disks_work() -> bool:
    if not (shutil.which("unshare") and shutil.which("mount")):
        return False
    return (
        subprocess.run([*in_small_disk(Path("/tmp"), 1), "true"], capture_output=True, check=False).returncode
        == 0
    )


def finish(process: subprocess.Popen) -> dict:
    out, errors = process.communicate(timeout=60)
    # A negative status is a signal: a mapped file that could not grow ends a process with SIGBUS.
    assert process.returncode == 0, f"status {process.returncode}, nothing may be lost: {errors[-2000:]}"
    return json.loads(out)


@pytest.mark.parametrize(("megabytes", "count"), [(2, 0), (12, 12_000)])
def test_a_full_disk_refuses_calls_whole_and_then_goes_on(tmp_path, start, megabytes, count):
    if not small_disks_work():
        pytest.skip("needs unshare and mount, and user name spaces with the right to mount")
    said = finish(start(FULL, tmp_path, megabytes, count, prefix=in_small_disk(tmp_path, megabytes)))
    assert said["created"] == 1
    assert said["full"] > 10, "the disk was never full"
    assert said["accepted"] > 15
    assert said["after"] == 0, f"{said['after']} calls refused with room again: {said['refused'][-1]}"
    assert all(
        "store" in error and ("disk" in error or "space" in error.lower()) for error in said["refused"]
    )


LIMITED = (
    LANE
    + """
    async def main(path, count):
        async with store_at(path) as store:
            await preload(store, count)
            for _ in range(20):
                await step(store)
            for more in (0, 5_000, 50_000, 200_000):
                sizes = [file.stat().st_size for file in Path(path).rglob("*") if file.is_file()]
                largest = max(sizes) + more
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
                for _ in range(60):
                    await step(store)
                await look(store, f"with files of at most {largest} bytes")
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                await step(store)
            full = len(refused)
            for _ in range(15):
                await step(store)
            await look(store, "with room again")
        async with store_at(path) as store:
            await look(store, "opened again")
        tell(full=full, after=len(refused) - full)

    anyio.run(main, sys.argv[1], int(sys.argv[2]))
"""
)


@pytest.mark.parametrize("count", [0, 12_000])
def test_files_that_may_not_grow_refuse_calls_whole(tmp_path, start, count):
    said = finish(start(LIMITED, tmp_path / "store", count))
    assert said["full"] > 0, "no limit was ever met"
    assert said["after"] == 0, f"{said['after']} calls refused with room again: {said['refused'][-1]}"


READ_ONLY = (
    LANE
    + """
    async def main(path):
        path = Path(path)
        async with store_at(path) as store:
            for _ in range(20):
                await step(store)
        # Root may write anywhere, so the rest is done as nobody in particular.
        if os.getuid() == 0:
            for place in [path, *path.rglob("*")]:
                os.chown(place, 65534, 65534)
            os.setuid(65534)
        database, errors = path / "store.sqlite3", {}
        for name, place, mode in [
            ("folder", path, 0o555),
            ("database", database, 0o444),
            ("unreadable", database, 0o000),
            ("closed", path, 0o000),
        ]:
            usual = place.stat().st_mode & 0o777
            place.chmod(mode)
            errors[name] = None
            try:
                async with store_at(path) as store:
                    await store.add([filler(0, DIM)])
            except StoreUnavailableError as error:
                errors[name] = str(error)
            finally:
                place.chmod(usual)
            async with store_at(path) as store:
                await look(store, f"after {name}")
        async with store_at(path) as store:
            path.chmod(0o555)
            for _ in range(20):
                await step(store)
            await look(store, "read-only while open")
            path.chmod(0o700)
        async with store_at(path) as store:
            await step(store)
            await look(store, "opened again")
        tell(errors=errors)

    anyio.run(main, sys.argv[1])
"""
)


def test_a_folder_or_file_that_is_read_only_is_named(start):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        said = finish(start(READ_ONLY, Path(folder) / "store"))
    for name, error in said["errors"].items():
        assert error is not None, f"{name}: written all the same"
        assert f"{folder}/store" in error, name
