"""A host to harm, and the running of attacks on it; also a program, so that another user can run them all."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import AF_UNIX, SOCK_DGRAM, SOCK_STREAM, socket
from tempfile import TemporaryDirectory
from typing import Any, Self
from unittest import mock
from uuid import uuid4

import anyio
from attacks import ATTACKS, Attack
from attacks_lua_prolog import LUA, PROLOG

from jeeves_reflexion.errors import CodeError, CodeLimitError, SandboxError
from jeeves_reflexion.sandbox import Guarantees, Sandbox, launch, sandbox


class Host:
    """What there is to harm: listeners, a file, a marker by which our processes are known."""

    def __init__(self) -> None:
        self.marker = f"marker-{uuid4().hex}"
        self.reached: list[str] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder = self._stack.enter_context(TemporaryDirectory())
        Path(self.folder).chmod(0o777)
        self.witness = Path(self.folder) / "witness"
        self.witness.write_text("untouched")
        self.witness.chmod(0o666)
        self.port = self._listen(socket(), ("127.0.0.1", 0))[1]
        udp = self._stack.enter_context(socket(type=SOCK_DGRAM))
        udp.bind(("127.0.0.1", self.port))
        udp.setblocking(False)
        self._udp = udp
        self.unix_path = f"{self.folder}/unix"
        self._listen(socket(AF_UNIX), self.unix_path)
        Path(self.unix_path).chmod(0o777)
        self.abstract_name = f"jeeves-{uuid4().hex}"
        self._listen(socket(AF_UNIX), "\0" + self.abstract_name)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _listen(self, listener: socket, address: Any) -> Any:
        self._stack.enter_context(listener)
        assert listener.type == SOCK_STREAM
        listener.bind(address)
        listener.listen()
        listener.settimeout(0)
        self._listeners = [*getattr(self, "_listeners", []), listener]
        return listener.getsockname()

    def inputs(self) -> dict[str, Any]:
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
        """What happened that must not."""
        found = []
        if self.witness.read_text() != "untouched" or self.witness.stat().st_mode & 0o777 != 0o666:
            found.append("the witness was touched")
        if sorted(path.name for path in Path(self.folder).iterdir()) != ["unix", "witness"]:
            found.append("something was written beside the witness")
        for listener in self._listeners:
            try:
                listener.accept()
            except BlockingIOError:
                continue
            found.append(f"{listener.getsockname()!r} was reached")
        try:
            self._udp.recv(10)
            found.append("UDP arrived")
        except BlockingIOError:
            pass
        return [*found, *(f"process {pid} is left" for pid in self.processes())]

    def processes(self) -> list[int]:
        """Processes of our sandboxes that are left (they keep the supervisor's command line, or are swipl's)."""
        found = []
        for name in filter(str.isdigit, (path.name for path in Path("/proc").iterdir())):
            try:
                if self.marker.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
            except OSError:
                continue
        return found


@contextmanager
def forced(way: str, host: Host) -> Iterator[None]:
    """Have sandboxes use this way, and mark their processes."""
    command = [*launch.interpreter(), host.marker]
    guarantees = Guarantees(
        network=True, files=True, processes=True, way=way, user_namespaces=True, seccomp=True, rlimits=True,
        cgroups=False, text="",
    )  # fmt: skip
    with (
        mock.patch.object(launch, "interpreter", return_value=command),
        mock.patch.object(sandbox, "probe", return_value=guarantees),
    ):
        yield


async def outcome(attack: Attack, host: Host) -> tuple[str, object]:
    """Run one attack; return how it ended, and with what."""
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
    """What is wrong, or nothing."""
    if ended not in attack.ends or (ended == "value" and said != attack.value):
        return f"ended as {ended} ({said!r:.500}), but must end as {attack.ends} {attack.value!r}"
    return ""


def fitting(way: str, languages: list[str]) -> list[Attack]:
    every = [attack for attack in [*ATTACKS, *LUA, *PROLOG] if attack.language in languages]
    return [attack for attack in every if way == "namespaces" or not attack.namespaces_only]


async def run_all(way: str, languages: list[str], host: Host) -> dict[str, str]:
    """Run all attacks, a few at a time; return what is wrong with each."""
    wrong: dict[str, str] = {}
    turns = anyio.Semaphore(4)

    async def run(attack: Attack) -> None:
        async with turns:
            wrong[attack.name] = judge(attack, *await outcome(attack, host))

    async with anyio.create_task_group() as group:
        for attack in fitting(way, languages):
            group.start_soon(run, attack)
    return wrong


def main() -> None:
    """Run all attacks one way, and print what is wrong with each, and with the host, as JSON."""
    way, *languages = sys.argv[1:]
    os.environ["SECRET"] = "SECRET-OF-THE-HOST"
    with Host() as host, forced(way, host):
        wrong = anyio.run(run_all, way, languages, host)
        print(json.dumps({**wrong, "host": "; ".join(host.harm())}))


if __name__ == "__main__":
    main()
