"""Whatever fails of the sandbox's own processes, the code in it is ended, and what it left is removed."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import anyio
import pytest

from benchmarks.sandbox.host import Host, forced
from jeeves_reflexion import sandbox as room
from jeeves_reflexion.errors import CodeError, CodeLimitError, SandboxError
from jeeves_reflexion.sandbox import Sandbox, SandboxLimits, guarantees, jail, probe
from jeeves_reflexion.sandbox.inside import prolog_code, scratch, walls

pytestmark = pytest.mark.anyio
both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

# modules that need no file: as root, Landlock's code is a user who may not be able to read the interpreter's folder
SLEEP = "import time\ntime.sleep(60)"


@pytest.fixture(params=["namespaces", "landlock"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """A host whose sandboxes are shut one way."""
    way = request.param
    if way != probe().way and not (way == "landlock" and walls.landlock_version()):
        pytest.skip(f"this machine does not offer {way}")
    with Host() as made, forced(way, made):
        yield made


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def supervisor_guard_and_code(host: Host) -> list[int]:
    with anyio.fail_after(30):
        while len(host.processes()) < 3:  # noqa: ASYNC110  other processes set no event of ours
            await anyio.sleep(0.02)
    found = {parent(pid): pid for pid in host.processes()}
    chain = [found[os.getpid()]]
    while chain[-1] in found:
        chain.append(found[chain[-1]])
    return chain


async def hit(host: Host, which: int, number: int) -> None:
    os.kill((await supervisor_guard_and_code(host))[which], number)


@pytest.mark.parametrize("which", [0, 1], ids=["supervisor", "guard"])
async def test_a_process_of_ours_that_is_killed_takes_the_code_along(host: Host, which: int) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(hit, host, which, signal.SIGKILL)
        with pytest.raises(SandboxError):
            await Sandbox().run(SLEEP, limits=SandboxLimits(seconds=60))
    assert host.harm() == []


async def test_a_guard_that_stands_still_goes_on_when_the_supervisor_is_killed(host: Host) -> None:
    async def stop_and_kill() -> None:
        supervisor, guard, _ = await supervisor_guard_and_code(host)
        os.kill(guard, signal.SIGSTOP)
        os.kill(supervisor, signal.SIGKILL)

    async with anyio.create_task_group() as group:
        group.start_soon(stop_and_kill)
        with pytest.raises(SandboxError):
            await Sandbox().run(SLEEP, limits=SandboxLimits(seconds=5))
    left = host.harm()
    for pid in host.processes():
        os.kill(pid, signal.SIGKILL)
    assert left == []


@both_loops
async def test_a_supervisor_that_hangs_is_ended_with_the_code(host: Host) -> None:
    with mock.patch.object(jail, "_CLOSE_SECONDS", 0.3):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(Sandbox().run, SLEEP, limits=SandboxLimits(seconds=60)))
            await hit(host, 0, signal.SIGSTOP)
            group.cancel_scope.cancel()
    assert host.harm() == []


async def test_folders_in_folders_are_walked_and_removed_however_deep(host: Host) -> None:
    code = (
        "import os, time\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\nopen('f', 'w')\ntime.sleep(1)"
    )
    with contextlib.suppress(CodeLimitError):  # a scratch folder on a disk is full then
        await Sandbox().run(code, limits=SandboxLimits(seconds=20))
    assert host.harm() == []


async def test_what_a_killed_host_left_is_removed_by_the_next_run(host: Host) -> None:
    folder = Path(host.temporary)
    left = folder / f"jeeves-sandbox-{16 * '0'}"
    (left / "deep" / "er").mkdir(parents=True)
    (left / "deep" / "link").symlink_to(host.witness)
    (left / "deep" / "out").symlink_to(host.folder)
    (left / "deep").chmod(0o300)
    kept = {folder / "jeeves-sandbox-notes", folder / "another"}
    for path in kept:
        path.mkdir()
    to_elsewhere = folder / f"jeeves-sandbox-{16 * '1'}"
    to_elsewhere.symlink_to(host.folder)
    used, lock = scratch.make(host.temporary)  # as a run does that has no root of its own
    assert (await Sandbox().run("result = 1")).value == 1
    assert set(folder.iterdir()) == {*kept, to_elsewhere, Path(used)}  # noqa: ASYNC240
    os.close(lock)
    for path in (*kept, Path(used)):
        path.rmdir()
    to_elsewhere.unlink()
    assert host.harm() == []


def test_without_locks_nothing_is_taken_for_left(tmp_path: Path) -> None:
    with mock.patch.object(scratch.fcntl, "flock", side_effect=OSError(errno.ENOLCK, "no locks")):
        made = [scratch.make(str(tmp_path)) for _ in range(2)]
    assert {Path(path) for path, _ in made} == set(tmp_path.iterdir())
    for _, lock in made:
        os.close(lock)


def test_a_folder_is_removed_whatever_is_in_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = tmp_path / "scratch"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1100):  # deeper than recursion, open files or the length of a path would allow
        os.mkdir("down", dir_fd=here)
        below = os.open("down", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.symlink(outside, "link", dir_fd=here)
    os.mkfifo("fifo", dir_fd=here)
    os.mkdir("shut", 0o000, dir_fd=here)
    os.close(here)
    assert scratch.full(str(folder), 10**9, [])
    scratch.remove(str(folder))
    assert not folder.exists()
    assert (outside / "kept").exists()


@pytest.mark.parametrize("make", [lambda p: p.symlink_to("/etc/hostname"), os.mkfifo, Path.mkdir])
def test_a_result_that_is_no_file_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "result.json")
    with pytest.raises(OSError, match=r"Too many levels|is not a file"):
        prolog_code._read(str(tmp_path / "result.json"), 100)
    (tmp_path / "plain").write_text("12345")
    assert prolog_code._read(str(tmp_path / "plain"), 3) == b"123"


async def test_swipl_set_free_still_gets_nothing_of_the_host(host: Host) -> None:
    try:
        prolog = jail.runtime("prolog")
    except room.SandboxUnavailableError as error:
        pytest.skip(str(error))
    through = f"""
    main :- catch(open('{host.witness}', append, S), _, true), ( nonvar(S) -> write(S, x) ; true ),
        catch(setup_call_cleanup(open('{host.witness}', read, R), true, close(R)), _, true),
        use_foreign_library(foreign(files)), files:link_file('{host.witness}', 'result.json', symbolic), halt(0).
    """
    host.witness.write_text('{"value": "through"}')
    with (
        mock.patch.object(room.sandbox, "runtime", return_value=replace(prolog, harness=through)),
        pytest.raises(CodeError, match=r"result can't be read|before it had a result"),
    ):
        await Sandbox().run("result(1).", language="prolog")
    assert host.witness.read_text() == '{"value": "through"}'


def test_the_probe_says_what_it_tried_and_what_got_through() -> None:
    guarantees.probe.cache_clear()
    held = {"network": {"a TCP socket": True}, "files": {"a read": True}, "processes": {"a fork": True}}
    leaking = {**held, "network": {"a TCP socket": True, "passing a descriptor": False}}
    try:
        with mock.patch.object(guarantees, "_attempt", side_effect=[(leaking, ""), (held, "")]):
            found = probe()
        assert (found.way, found.complete) == ("landlock", True)
        assert "network: isolated (tried and refused: a TCP socket)" in found.text
        assert "namespaces not possible here: it let through: passing a descriptor" in found.text
        guarantees.probe.cache_clear()
        with mock.patch.object(guarantees, "_attempt", side_effect=[({}, "no"), ({}, "no"), (leaking, "")]):
            found = probe()
        assert (found.way, found.network, found.files) == ("limits", False, True)
        said = "network: NOT isolated (got through: passing a descriptor; tried and refused: a TCP socket)"
        assert said in found.text
        guarantees.probe.cache_clear()
        with mock.patch.object(guarantees, "_attempt", return_value=({}, "no")):
            assert "files: NOT isolated (nothing could be tried)" in probe().text
    finally:
        guarantees.probe.cache_clear()


def test_the_probe_tries_what_once_got_through() -> None:
    if not probe().complete:
        pytest.skip("this machine isolates nothing")
    for tried in (
        "a datagram to a Unix socket of the host",
        "an abstract socket",
        "an abstract name",
        "passing a descriptor",
    ):
        assert tried in probe().text


ANSWERING = "import os\nwhile asked := os.read(6, 100): os.write(7, asked + b' answered')"
ASKING = "import os\nos.write(7, b'this')\nresult = os.read(6, 100).decode()"


async def test_a_pair_talks_and_only_the_first_is_heard(host: Host) -> None:
    sandbox = Sandbox(SandboxLimits(seconds=20), concurrency=1)
    assert (await sandbox.run_pair(ASKING, ANSWERING)).value == "this answered"
    forging = "import os\nos.read(6, 100)\nos.write(3, b'{\"value\": 1}')\nos._exit(0)"
    assert (await sandbox.run_pair(ASKING, forging)).value == ""
    assert (await sandbox.run_pair("result = given", "1 / 0", inputs={"given": [1]})).value == [1]
    with pytest.raises(CodeError, match="ZeroDivisionError"):
        await sandbox.run_pair("1 / 0", ANSWERING)
    with (
        mock.patch.object(room.sandbox, "_AFTER_SECONDS", 0.2),
        pytest.raises(CodeLimitError) as caught,
    ):
        await sandbox.run_pair("while True: pass", "while True: pass", limits=SandboxLimits(seconds=0.5))
    assert caught.value.limit == "seconds"
    assert host.harm() == []


@both_loops
async def test_a_pair_that_is_cancelled_or_half_broken_leaves_nothing(host: Host) -> None:
    async def six_processes() -> None:
        with anyio.fail_after(30):
            while len(host.processes()) < 6:  # noqa: ASYNC110  other processes set no event of ours
                await anyio.sleep(0.02)

    async with anyio.create_task_group() as group:
        group.start_soon(partial(Sandbox().run_pair, SLEEP, SLEEP, limits=SandboxLimits(seconds=60)))
        await six_processes()
        group.cancel_scope.cancel()
    assert host.harm() == []

    async def kill_the_second() -> None:
        await six_processes()
        os.kill(max(pid for pid in host.processes() if parent(pid) == os.getpid()), signal.SIGKILL)

    async with anyio.create_task_group() as group:
        group.start_soon(kill_the_second)
        with pytest.raises(
            SandboxError, match=r"ended (early|without a report)"
        ):  # never a verdict on the code
            await Sandbox().run_pair(ASKING, SLEEP, limits=SandboxLimits(seconds=60))
    assert host.harm() == []


def test_the_example_of_a_pair_runs_as_written() -> None:
    if not probe().complete:
        pytest.skip("this machine isolates nothing")
    page = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text()
    example = page.split("Sandbox.run_pair", 1)[1].split("```python\n", 1)[1].split("```", 1)[0]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
