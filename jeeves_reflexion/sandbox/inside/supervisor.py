"""The process that the host starts: it starts the code's process, watches it, ends it and reports, once.

Between host and supervisor: one message of configuration, "ready", one request, one report. The end of standard input
means that the host is gone (or wants an end), and ends everything at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

from . import frames, guard, kernel, namespaces, scratch, worker
from .frames import tell
from .watch import HOST_IN, Watch
from .worker import Ends

TYPE_CHECKING = False  # the module typing is not loaded where the code runs unless it asks for it
if TYPE_CHECKING:
    from typing import Any, NoReturn

_FIRST_OWN_UID, _OWN_UIDS = 1_500_000_000, 500_000_000
_HOST_OUT = 1


def main() -> None:
    """Serve one run of code."""
    config = frames.receive_json(HOST_IN)
    if config is None:
        return
    try:
        if sys.platform == "linux":
            config["read"] += _library_folders()
        _serve(config)
    except OSError as error:
        frames.send_json(_HOST_OUT, {"problem": str(error)})


def _serve(config: dict[str, Any]) -> None:
    if config["way"] != "namespaces":
        config["scratch"], _lock = scratch.make(config["temporary"])  # the lock ends with us and the guard
    mine, theirs = _pipes()
    theirs.channel = config["channel"]
    guarded, life = os.pipe()
    child = _start(config, mine, theirs, (guarded, life))
    for end in (*theirs.every(), guarded):
        os.close(end)
    watch = Watch(config["resources"], child, life, mine)
    try:
        _watch(watch)
    finally:
        watch.end()
        if config["way"] != "namespaces":
            guard.end_descendants()  # what came to us, should the guard have been killed
            with contextlib.suppress(FileNotFoundError):  # the guard removed it, but where it had no right to
                scratch.remove(config["scratch"])


def _watch(watch: Watch) -> None:
    problem = watch.until_ready()
    if problem:
        frames.send_json(_HOST_OUT, {"problem": problem})
        return
    frames.send_json(_HOST_OUT, {"ready": True})
    request = frames.receive(HOST_IN)
    report = None if request is None else watch.run(request)
    if report is not None:
        head, *parts = report
        frames.send(_HOST_OUT, b"".join(frames.packed(part) for part in (json.dumps(head).encode(), *parts)))


def _library_folders() -> list[str]:
    """Return where the shared libraries that this interpreter loaded lie: what it imports may load others."""
    with open("/proc/self/maps", encoding="utf-8") as file:  # noqa: PTH123
        mapped = {line.split(maxsplit=5)[5].strip() for line in file if line.count(" ") > 4 and "/" in line}
    folders = {os.path.dirname(path) for path in mapped if ".so" in os.path.basename(path)}  # noqa: PTH119, PTH120
    return sorted({*folders, "/etc/ld.so.cache"})


def _pipes() -> tuple[Ends, Ends]:
    """Return our ends and the code's ends."""
    out, error, result, status = os.pipe(), os.pipe(), os.pipe(), os.pipe()
    request = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    mine, theirs = (
        Ends(
            stdin=stdin,
            streams=(out[side], error[side]),
            result=result[side],
            request=request[1 - side],
            status=status[side],
        )
        for side, stdin in ((0, os.dup(null)), (1, null))
    )
    return mine, theirs


def _start(config: dict[str, Any], mine: Ends, theirs: Ends, life: tuple[int, int]) -> int:
    """Fork the guard (which starts the code's own process), outside of the host's namespaces."""
    if sys.platform == "linux":
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        _be_first_to_go()
    if config["way"] == "namespaces":
        if config["root"]:
            kernel.unshare(kernel.CLONE_NEWPID)
        else:
            _own_user_namespace()
    child = os.fork()
    if not child:
        for end in (*mine.every(), life[1]):
            os.close(end)
        _first_process(config, theirs, life[0])
    return child


def _be_first_to_go() -> None:
    """Have the kernel end us, rather than somebody else, when the machine is out of memory."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("1000")
    except OSError:
        pass  # a courtesy: no guarantee rests on it


def _own_user_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{kernel.NOBODY} {uid} 1"),
        ("gid_map", f"{kernel.NOBODY} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(text)


def _first_process(config: dict[str, Any], ends: Ends, life: int) -> NoReturn:
    """Set the stage, start the code's process and guard it; in its own process namespace this is the first process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setsid()  # a signal to one's own group passes the wall of a process namespace
        _set_stage(config)
        if sys.platform == "linux":
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
            # somebody may have stopped us when the supervisor is gone; a change of user takes this off, so after it
            kernel.prctl(kernel.PR_SET_PDEATHSIG, int(signal.SIGCONT))
            if config["way"] != "namespaces":
                # after a change of user, else not even the same user may see what files the code holds open
                kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        own = os.getpid()
        code = os.fork()
    except BaseException as error:  # noqa: BLE001  told to the host, which raises it
        tell(ends.status, {"problem": str(error) or type(error).__name__})
        os._exit(1)
    if not code:
        try:
            worker.work(config, ends, own)
        finally:
            os._exit(1)  # never back into what the guard does
    for end in ends.every():
        if end != ends.status:
            os.close(end)
    guard.watch(config, code, life, ends.status)


def _set_stage(config: dict[str, Any]) -> None:
    walled, root = config["way"] == "namespaces", config["root"]
    owner = kernel.NOBODY
    if root:
        owner = _FIRST_OWN_UID + int.from_bytes(os.urandom(4), "big") % _OWN_UIDS
        if not kernel.knows_user(owner):
            owner = kernel.NOBODY
    if walled:
        namespaces.leave()
        namespaces.enter_root(config["read"], file_bytes=config["resources"]["file_bytes"], owner=owner)
    elif root:
        os.chown(config["scratch"], owner, owner)
    if root:
        kernel.drop_bounding_set()
        os.setgroups([])
        os.setresgid(owner, owner, owner)
        os.setresuid(owner, owner, owner)
    elif walled:
        kernel.drop_bounding_set()
    if sys.platform == "linux":
        kernel.drop_capabilities()
