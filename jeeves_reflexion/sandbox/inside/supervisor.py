"""The process that the host starts: it starts the code's process, watches it, ends it and reports, once.

Between host and supervisor: one message of configuration, "ready", one request, one report. The end of standard input
means that the host is gone (or wants an end), and ends everything at once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys

from . import frames, kernel, namespaces, worker
from .watch import HOST_IN, Watch
from .worker import Ends, tell

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
    mine, theirs = _pipes()
    child = _start(config, mine, theirs)
    for end in theirs.every():
        os.close(end)
    watch = Watch(config, child, mine)
    problem = watch.until_ready()
    if problem:
        watch.end()
        frames.send_json(_HOST_OUT, {"problem": problem})
        return
    frames.send_json(_HOST_OUT, {"ready": True})
    request = frames.receive(HOST_IN)
    if request is None:
        watch.end()
        return
    report = watch.run(request)
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


def _start(config: dict[str, Any], mine: Ends, theirs: Ends) -> int:
    """Fork the first process of the code (which starts the code's own), outside of the host's namespaces."""
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
        for end in mine.every():
            os.close(end)
        _first_process(config, theirs)
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


def _first_process(config: dict[str, Any], ends: Ends) -> NoReturn:
    """Set the stage, start the code's process and wait for it; when this one ends, all others of its kind do."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setsid()  # a signal to one's own group passes the wall of a process namespace
        _set_stage(config)
        if sys.platform == "linux":
            kernel.prctl(kernel.PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if select.select([ends.request], [], [], 0)[0]:
            os._exit(1)  # the supervisor went before it could be noticed
        code = os.fork()
    except BaseException as error:  # noqa: BLE001  told to the host, which raises it
        tell(ends.status, {"problem": str(error) or type(error).__name__})
        os._exit(1)
    if not code:
        worker.work(config, ends)
    status = ends.status
    for end in ends.every():
        if end != status:
            os.close(end)
    while True:
        pid, result, usage = os.wait4(-1, 0)
        if pid == code:
            tell(status, {"ended": result, "cpu": usage.ru_utime + usage.ru_stime})
            os._exit(0)


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
