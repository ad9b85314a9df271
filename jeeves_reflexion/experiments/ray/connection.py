"""A connection to a Ray cluster, or to a node of this machine that is started for it and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.redaction import redact

PROBE_SECONDS: Final = 10.0
"""So long the port of a cluster's head may take to be opened."""

CONNECT_SECONDS: Final = 300.0
"""So long a cluster may take to let this program in, and to receive a folder. Ray itself would go on for longer."""

OBJECT_BYTES: Final = 100 * 1024 * 1024
"""The shared memory of a node that is started here: what passes is small."""

_HOST_PORT: Final = re.compile(r"(?P<host>\[[^]]+\]|[^:/@\s]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class RayOptions:
    """Which cluster.

    ``address`` is ``host:port`` of its head, or None for a node of this machine that is started and stopped with the
    executor. ``working_dir`` is a folder that every worker process works in a copy of.
    """

    address: str | None = None
    working_dir: Path | None = None

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
        else:
            refused = (ValueError, RuntimeError, OSError, OverflowError, ray.exceptions.RayError)
            try:
                await (self._start() if options.address is None else self._join(options.address))
            except refused as error:
                told, cluster = redact(str(error)), f"the Ray cluster at {options.address} can't be reached"
                if options.address is None:
                    raise ConfigurationError(f"no Ray node can be started on this machine: {told}") from error
                raise ConfigurationError(
                    f"{cluster}: {told}. Is it up, is this machine one of its nodes with the same Python and Ray, and"
                    " are RAY_AUTH_MODE and RAY_AUTH_TOKEN those of the cluster?"
                ) from error
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

    async def _start(self) -> None:
        # Ray would write a token to ~/.ray/auth_token, for everybody on the machine to read, and leave it there.
        if not os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}:
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        # A node that is too busy to answer is not dead, and Ray ends the process whose node it takes for dead. That a
        # node of this machine has ended, its process tells.
        os.environ.setdefault("RAY_health_check_failure_threshold", "60")
        self._ours = True
        context = await anyio.to_thread.run_sync(
            lambda: self._init(address="local", object_store_memory=OBJECT_BYTES, include_dashboard=False)
        )
        session = context.address_info.get("session_dir")
        self._logs = Path(session) if session else None

    async def _join(self, address: str) -> None:
        host, port = address.rsplit(":", 1)

        def join() -> None:
            # A wrong name or a closed port is known at once, and Ray would not say so.
            with socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS):
                pass
            self._init(address=address)

        await in_time(join, CONNECT_SECONDS)
        self._ours = True

    def _init(self, **more: Any) -> Any:  # noqa: ANN401 - Ray has no types
        folder = self._options.working_dir
        environment = None if folder is None else {"working_dir": str(folder)}
        return self._ray.init(**more, runtime_env=environment, log_to_driver=False, logging_level="error")


async def in_time(work: Callable[[], object], seconds: float) -> None:
    """Do a work that can't be stopped, in a thread that keeps no program from ending.

    Raises what it raises, and :class:`TimeoutError`.
    """
    done: Future[object] = Future()

    def run() -> None:
        with contextlib.suppress(InvalidStateError):  # nobody waits any more
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                done.set_exception(error)

    threading.Thread(target=run, name="ray-connect", daemon=True).start()
    try:
        await asyncio.wait_for(asyncio.wrap_future(done), seconds)
    except TimeoutError:
        if done.cancelled():
            raise TimeoutError(f"it gave no answer within {seconds:.0f} s") from None
        raise


def module_paths() -> list[str]:
    """Where this program finds modules: where the same folders are on a worker's machine, it finds them, too."""
    return list(dict.fromkeys(str(Path(path).absolute()) for path in ("", *sys.path)))


def load_ray() -> Any:  # noqa: ANN401 - a module without types
    """Return Ray, which reports no usage unless told to; raises :class:`MissingDependencyError` with the extra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415 - optional dependency
        import ray.cloudpickle  # noqa: PLC0415
        import ray.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("running an experiment on Ray", "ray") from error
    return ray
