"""A host to attack, and what runs attacks on it; also a program, so that another user can run them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socket import AF_INET, AF_UNIX, SOCK_DGRAM, SOCK_STREAM, AddressFamily, SocketKind, socket
from tempfile import TemporaryDirectory
from typing import Self, cast
from unittest import mock
from uuid import uuid4

import anyio

from benchmarks.sandbox.attacks import ATTACKS, LUA, PROLOG, Attack
from jeeves_reflexion.errors import CodeError, CodeLimitError, SandboxError
from jeeves_reflexion.sandbox import Guarantees, Sandbox, jail, sandbox
from jeeves_reflexion.sandbox.guarantees import Way
from jeeves_reflexion.types import JSON


class Host:
    """What an attack could harm: listening sockets and a file. A marker identifies our processes."""

    def __init__(self) -> None:
        self.marker = f"marker-{uuid4().hex}"
        self._sockets: list[socket] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder = self._stack.enter_context(TemporaryDirectory())
        Path(self.folder).chmod(0o777)
        self.witness = Path(self.folder) / "witness"
        self.witness.write_text("untouched")
        self.witness.chmod(0o666)
        self.unix_path = f"{self.folder}/unix"
        self.abstract_name = f"jeeves-{uuid4().hex}"
        self.port: int = self._open(SOCK_STREAM, AF_INET, ("127.0.0.1", 0)).getsockname()[1]
        self._open(SOCK_DGRAM, AF_INET, ("127.0.0.1", self.port))
        for kind, ending in ((SOCK_STREAM, ""), (SOCK_DGRAM, ".datagrams")):
            self._open(kind, AF_UNIX, self.unix_path + ending)
            Path(self.unix_path + ending).chmod(0o777)
            self._open(kind, AF_UNIX, f"\0{self.abstract_name}{ending}")
        self.temporary = self._stack.enter_context(TemporaryDirectory())
        Path(self.temporary).chmod(0o1777)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self, kind: SocketKind, family: AddressFamily, address: str | tuple[str, int]) -> socket:
        opened = self._stack.enter_context(socket(family, kind))
        opened.bind(address)
        if kind == SOCK_STREAM:
            opened.listen()
        opened.settimeout(0)
        self._sockets.append(opened)
        return opened

    def inputs(self) -> dict[str, JSON]:
        """Return what an attack in Python or Lua is told about its host."""
        return {
            "host": os.getpid(),
            "home": str(Path.home()),
            "witness": str(self.witness),
            "tree": self.folder,
            "port": self.port,
            "unix_path": self.unix_path,
            "abstract_name": self.abstract_name,
        }

    def harm(self) -> list[str]:
        """Return a description of each harm that was done."""
        found = []
        if self.witness.read_text() != "untouched" or self.witness.stat().st_mode & 0o777 != 0o666:
            found.append("the witness was touched")
        if sorted(path.name for path in Path(self.folder).iterdir()) != ["unix", "unix.datagrams", "witness"]:
            found.append("something was written beside the witness")
        for opened in self._sockets:
            with suppress(BlockingIOError):
                opened.accept() if opened.type == SOCK_STREAM else opened.recv(10)
                found.append(f"{opened.getsockname()!r} was reached")
        found += [f"scratch {path.name} is left" for path in Path(self.temporary).iterdir()]
        return [*found, *(f"process {pid} is left" for pid in self.processes())]

    def processes(self) -> list[int]:
        """Return our sandboxes' processes that still run; each has the marker in its command line."""
        found = []
        for name in filter(str.isdigit, (path.name for path in Path("/proc").iterdir())):
            try:
                if self.marker.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
            except OSError:
                continue
        return found


@contextmanager
def forced(way: Way, host: Host) -> Iterator[None]:
    """Make sandboxes use this way, and mark their processes."""
    command = [*jail.interpreter(), host.marker]
    guarantees = Guarantees(network=True, files=True, processes=True, way=way, text="")
    with (
        mock.patch.object(jail, "interpreter", return_value=command),
        mock.patch.object(sandbox, "probe", return_value=guarantees),
        mock.patch.object(tempfile, "tempdir", host.temporary),
    ):
        yield


async def outcome(attack: Attack, host: Host) -> tuple[str, object]:
    """Run one attack; return how it ended, and its value or message."""
    try:
        inputs = {} if attack.language == "prolog" else host.inputs()
        ran = await Sandbox().run(attack.code, language=attack.language, inputs=inputs, limits=attack.limits)
    except CodeLimitError as error:
        return error.limit, str(error)
    except CodeError as error:
        return "error", str(error)
    except SandboxError as error:
        return "broken", str(error)
    return "value", ran.value


def judge(attack: Attack, ended: str, said: object) -> str:
    """Return what is wrong with the end of an attack, or an empty text."""
    if ended not in attack.ends or (ended == "value" and said != attack.value):
        return f"ended as {ended} ({said!r:.500}), but must end as {attack.ends} {attack.value!r}"
    return ""


def fitting(languages: list[str]) -> list[Attack]:
    """Return the attacks in these languages."""
    return [attack for attack in [*ATTACKS, *LUA, *PROLOG] if attack.language in languages]


async def run_all(languages: list[str], host: Host) -> dict[str, str]:
    """Run all attacks, a few at a time; return what is wrong with each."""
    wrong: dict[str, str] = {}
    turns = anyio.Semaphore(4)

    async def run(attack: Attack) -> None:
        async with turns:
            wrong[attack.name] = judge(attack, *await outcome(attack, host))

    async with anyio.create_task_group() as group:
        for attack in fitting(languages):
            group.start_soon(run, attack)
    return wrong


def main() -> None:
    """Run all attacks in one way, and print as JSON what is wrong with each, and with the host."""
    way, *languages = sys.argv[1:]
    os.environ["SECRET"] = "SECRET-OF-THE-HOST"  # noqa: S105  there is nothing to protect
    with Host() as host, forced(cast("Way", way), host):
        wrong = anyio.run(run_all, languages, host)
        print(json.dumps({**wrong, "host": "; ".join(host.harm())}))


if __name__ == "__main__":
    main()
