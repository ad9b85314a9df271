"""The process beside an embedded PostgreSQL: starts it, and stops it when nobody uses it any more.

Run as a script by :mod:`vectorstores.postgres.embedded`, with the standard library alone. Users hold a shared lock on
``users.lock``, which the kernel takes from them also when they are killed, so that no list of processes can go
stale. It ends with the server, however that ended: whoever needs the server starts both again.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

_PAUSE: Final = 0.1
_STOP_TIMEOUT: Final = 60.0
_SOCKET: Final = ".s.PGSQL.5432"
_OPTION: Final = "unix_socket_directories="


class Supervisor:
    """One server and its users. ``lock`` is the descriptor of the supervisor's own lock, held until the end."""

    def __init__(self, folder: Path, command: list[str], account: tuple[int, int] | None, lock: int) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._command = command
        self._sockets = Path(next(part.removeprefix(_OPTION) for part in command if part.startswith(_OPTION)))
        self._account = account
        self._lock = lock
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Start the server, unless one that another supervisor left behind runs still; stop it when it is unused."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            if not self._running():
                self._start()
            while self._running() and not self._unused():
                time.sleep(_PAUSE)
        except BaseException:
            # Such as that the folder was removed under it, or that it was asked to end.
            self._stop()
            raise

    def _unused(self) -> bool:
        """Stop the server if it has no users; whoever wants to join meanwhile waits for ``start.lock``."""
        start = _lock(self._folder / "start.lock")
        if start is None:
            return False
        try:
            users = _lock(self._folder / "users.lock")
            if users is None:
                return False
            os.close(users)
            self._stop()
            if self._sockets != self._folder and self._sockets.exists() and not any(self._sockets.iterdir()):
                self._sockets.rmdir()
            # Free before start.lock is: whoever joins next must see that nobody supervises any more.
            os.close(self._lock)
            return True
        finally:
            os.close(start)

    def _running(self) -> bool:
        if self._child is not None and self._child.poll() is None:
            return True
        return self._other() is not None or self._answers()

    def _other(self) -> int | None:
        """Return the process of a server on this folder that an earlier supervisor left behind."""
        try:
            pid = int((self._data / "postmaster.pid").read_bytes().split(b"\n", 1)[0])
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid if str(self._data) in _command_of(pid) else None

    def _answers(self) -> bool:
        """Say whether a server listens whose process can't be seen from here, as in another container."""
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._sockets / _SOCKET))
        except OSError:
            return False
        return True

    def _start(self) -> None:
        # What is left is a stranger's process with the number of a dead server, or nothing.
        for file in (self._data / "postmaster.pid", self._sockets / f"{_SOCKET}.lock"):
            file.unlink(missing_ok=True)
        with (self._folder / "log").open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - our own server, no shell
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                user=self._account and self._account[0],
                group=self._account and self._account[1],
                extra_groups=self._account and [],
            )

    def _stop(self) -> None:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):  # fast, immediate, by force
            alive = self._child if self._child is not None and self._child.poll() is None else None
            pid = self._other() if alive is None else alive.pid
            if pid is None:
                return
            os.kill(pid, number)
            end = time.monotonic() + _STOP_TIMEOUT
            while self._running() and time.monotonic() < end:
                time.sleep(0.02)


def _lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock, or None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _command_of(pid: int) -> str:
    """Return the command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        if Path("/proc/self").exists():
            return ""
    listing = ["/bin/ps", "-p", str(pid), "-o", "command="]
    return subprocess.run(listing, capture_output=True, text=True, check=False).stdout  # noqa: S603


def main() -> None:
    """Become a daemon and supervise: the argument is a JSON object of folder, command, account and lock."""
    options = json.loads(sys.argv[1])
    lock: int = options["lock"]
    os.set_inheritable(lock, False)  # noqa: FBT003 - positional only
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    # For whoever looks into the folder. Written before the rest is cut off: a full disk has room for that.
    os.ftruncate(lock, os.pwrite(lock, b"%d\n" % os.getpid(), 0))
    Supervisor(Path(options["folder"]), options["command"], options["account"], lock).run()


if __name__ == "__main__":
    main()
