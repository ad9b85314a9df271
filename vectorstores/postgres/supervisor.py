"""The process beside an embedded PostgreSQL: starts it, and stops it when nobody uses it any more.

Run as a script by :mod:`vectorstores.postgres.embedded`, with the standard library alone. Users hold a shared lock on
``users.lock``, which the kernel takes from them also when they are killed, so that no list of processes can go
stale. While the server has users it is started again when it dies.
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
_QUICK_DEATH: Final = 5.0
_MAX_QUICK_DEATHS: Final = 5
_STOP_TIMEOUT: Final = 60.0
_FROM_OUTSIDE: Final = (0, -signal.SIGKILL)
# What a new server says while a process of one that was killed is still at work: two at once would spoil the data.
_LINGERING: Final = b"pre-existing shared memory block"
_LONGEST_PAUSE: Final = 1.0


class Supervisor:
    """One server and its users. ``lock`` is the descriptor of the supervisor's own lock, held until the end."""

    def __init__(self, folder: Path, command: list[str], account: tuple[int, int] | None, lock: int) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._command = command
        self._account = account
        self._lock = lock
        self._child: subprocess.Popen[bytes] | None = None
        self._ended: int | None = None
        self._log_size = 0
        self._asked_to_stop = False

    def run(self) -> None:
        """Keep the server up as long as it has users, then stop it."""
        signal.signal(signal.SIGTERM, self._on_signal)
        try:
            self._watch()
        finally:
            # Also when the folder was removed under it.
            self._stop()

    def _watch(self) -> None:
        deaths = waits = 0
        started = 0.0
        while not self._unused():
            if not self._running():
                quick = time.monotonic() - started < _QUICK_DEATH
                waits = waits + 1 if self._must_wait() else 0
                # One that was stopped or killed from outside did start, or would have.
                failed = quick and not waits and self._ended not in _FROM_OUTSIDE
                deaths = deaths + 1 if failed else 0
                if deaths > _MAX_QUICK_DEATHS:
                    return
                time.sleep(min(_PAUSE * (deaths + waits), _LONGEST_PAUSE))
                started = time.monotonic()
                self._start()
            time.sleep(_PAUSE)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._asked_to_stop = True

    def _unused(self) -> bool:
        """Stop the server if it has no users; whoever wants to join meanwhile waits for ``start.lock``."""
        start = _lock(self._folder / "start.lock", wait=self._asked_to_stop)
        if start is None:
            return False
        try:
            users = _lock(self._folder / "users.lock")
            if users is not None:
                os.close(users)
            elif not self._asked_to_stop:
                return False
            self._stop()
            self._remove_socket_folder()
            # Free before start.lock is: whoever joins next must see that nobody supervises any more.
            os.close(self._lock)
            return True
        finally:
            os.close(start)

    def _running(self) -> bool:
        if self._child is not None and self._child.poll() is not None:
            self._ended = self._child.returncode
            self._child = None
        return self._child is not None or self._other() is not None or self._answers()

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
            place = os.fsdecode((self._data / "postmaster.pid").read_bytes()).split("\n")[4]
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(f"{place}/.s.PGSQL.5432")
        except (OSError, IndexError):
            return False
        return True

    def _must_wait(self) -> bool:
        """Say whether the last start failed because a process of the server before it lingers."""
        if self._ended in (None, *_FROM_OUTSIDE):
            return False
        try:
            with (self._folder / "log").open("rb") as log:
                log.seek(self._log_size)
                return _LINGERING in log.read(10_000)
        except OSError:
            return False

    def _start(self) -> None:
        self._ended = None
        try:
            # What is left is a stranger's process with the number of a dead server, or nothing.
            (self._data / "postmaster.pid").unlink(missing_ok=True)
            self._launch()
        except OSError:
            # No memory, files or processes to be had just now, or the folder is gone, which shows next.
            self._ended = 1

    def _launch(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._log_size = log.seek(0, os.SEEK_END)
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
            pid = self._child.pid if self._child is not None else self._other()
            if pid is None or not self._running():
                return
            os.kill(pid, number)
            end = time.monotonic() + _STOP_TIMEOUT
            while self._running() and time.monotonic() < end:
                time.sleep(0.02)

    def _remove_socket_folder(self) -> None:
        name = "unix_socket_directories="
        for place in (Path(part.removeprefix(name)) for part in self._command if part.startswith(name)):
            if place != self._folder and place.exists() and not any(place.iterdir()):
                place.rmdir()


def _lock(path: Path, *, wait: bool = False) -> int | None:
    """Return a descriptor that holds the lock, or None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
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
