"""A connection to a Ray cluster, or to a node of this machine that is started for it and leaves nothing behind.

A cluster that does not answer is given up on after a stated time; Ray itself would go on asking for many minutes.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.ray.messages import load_ray
from jeeves_reflexion.redaction import redact

PROBE_SECONDS: Final = 10.0
"""So long the port of a cluster's head may take to be opened."""

CONNECT_SECONDS: Final = 60.0
"""So long a cluster may take to let this program in."""

FOLDER_SECONDS: Final = 300.0
"""The same where a folder is sent there first."""

OBJECT_BYTES: Final = 100 * 1024 * 1024
"""The shared memory of a node that is started here: what passes is small."""

_HOST_PORT: Final = re.compile(r"(?P<host>\[[^]]+\]|[^:/@\s]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class RayOptions:
    """Which cluster.

    ``address`` is ``host:port`` of its head, or None for a node of this machine that is started and stopped with the
    executor. ``working_dir`` is a folder that every worker process works in a copy of. ``cpus`` are those of a node
    that is started; by default all of the machine's.
    """

    address: str | None = None
    working_dir: Path | None = None
    cpus: int | None = None

    def __post_init__(self) -> None:
        if self.address is not None and not _HOST_PORT.fullmatch(self.address):
            raise ConfigurationError(
                f"the address {redact(self.address)!r} is not of the form host:port: run the experiment on a node of"
                " the cluster, and name the port of its head (6379 unless chosen otherwise)"
            )
        if self.working_dir is not None and not self.working_dir.is_dir():
            raise ConfigurationError(f"{self.working_dir} is no folder: name one to send to the workers")


class Connection:
    """Connects this program to Ray, unless it is connected already, and undoes it."""

    def __init__(self, options: RayOptions) -> None:
        self._ray = load_ray()
        self._options = options
        self._ours = False
        self._logs: Path | None = None

    async def open(self) -> int:
        """Connect; return how many processors are free, or, where none is, how many there are.

        Raises :class:`ConfigurationError` where the cluster can't be reached, or no node can be started.
        """
        ray, options = self._ray, self._options
        if ray.is_initialized():
            if options.address or options.working_dir:
                raise ConfigurationError(
                    "this program is connected to Ray already: give no address and no folder"
                )
        elif options.address is None:
            await anyio.to_thread.run_sync(self._start)
        else:
            await self._join(options.address)
        return int(ray.available_resources().get("CPU") or ray.cluster_resources().get("CPU", 1))

    async def close(self, *, keep_logs: bool = False) -> None:
        """Disconnect, and stop the node that was started; ``keep_logs`` leaves what Ray wrote about it."""
        if not self._ours:
            return
        self._ours = False
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._ray.shutdown)
        if self._logs is not None and not keep_logs:
            shutil.rmtree(self._logs, ignore_errors=True)  # a process that is ending may still write there

    def _start(self) -> None:
        # Ray would write a token to ~/.ray/auth_token, for everybody on the machine to read, and leave it there.
        if not os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}:
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        # A node that is too busy to answer is not dead, and Ray ends the process whose node it takes for dead. That a
        # node of this machine has ended, its process tells.
        os.environ.setdefault("RAY_health_check_failure_threshold", "60")
        self._ours = True
        try:
            context = self._init(
                address="local",
                num_cpus=self._options.cpus,
                object_store_memory=OBJECT_BYTES,
                include_dashboard=False,
            )
        except self._refusals as error:
            raise ConfigurationError(
                f"no Ray node can be started on this machine: {redact(str(error))}"
            ) from error
        session = context.address_info.get("session_dir")
        self._logs = Path(session) if session else None

    async def _join(self, address: str) -> None:
        found = _HOST_PORT.fullmatch(address)
        assert found is not None  # noqa: S101 - the options were checked

        def join() -> None:
            # A wrong name or a closed port is known at once, and Ray would not say so.
            with socket.create_connection((found["host"].strip("[]"), int(found["port"])), PROBE_SECONDS):
                pass
            self._init(address=address)

        seconds = CONNECT_SECONDS if self._options.working_dir is None else FOLDER_SECONDS
        try:
            await in_time(join, self._ray.shutdown, seconds)
        except self._refusals as error:
            raise ConfigurationError(
                f"the Ray cluster at {address} can't be reached: {redact(str(error))}. Is it up, is this machine one"
                " of its nodes, and are RAY_AUTH_MODE and RAY_AUTH_TOKEN those of the cluster?"
            ) from error
        self._ours = True

    def _init(self, **more: Any) -> Any:  # noqa: ANN401 - Ray has no types
        folder = self._options.working_dir
        environment = None if folder is None else {"working_dir": str(folder)}
        return self._ray.init(**more, runtime_env=environment, log_to_driver=False, logging_level="error")

    @property
    def _refusals(self) -> tuple[type[Exception], ...]:
        return (ValueError, RuntimeError, OSError, OverflowError, self._ray.exceptions.RayError)


def module_paths() -> list[str]:
    """Where this program finds modules: where the same folders are on a worker's machine, it finds them, too."""
    return list(dict.fromkeys(str(Path(path).absolute()) for path in ("", *sys.path)))


async def in_time(work: Callable[[], object], undo: Callable[[], object], seconds: float) -> None:
    """Do a work that can't be stopped, in a thread; raises what it raises, and :class:`TimeoutError`.

    What comes of the work when nobody waits any more is undone.
    """
    done: Future[None] = Future()

    def run() -> None:
        failure: Exception | None = None
        try:
            work()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            failure = error
        if done.set_running_or_notify_cancel():  # from here on, nobody can give it up
            done.set_exception(failure) if failure else done.set_result(None)
        elif failure is None:
            undo()

    # A thread of anyio's would keep a program that gave up from ending.
    threading.Thread(target=run, name="ray-connect", daemon=True).start()
    try:
        await asyncio.wait_for(asyncio.wrap_future(done), seconds)
    except BaseException as error:
        if not done.cancel() and done.exception() is None:
            undo()  # it was done just when this task was told to stop
        if isinstance(error, TimeoutError) and done.cancelled():
            raise TimeoutError(f"it gave no answer within {seconds:.0f} s") from None
        raise
