"""A connection to a Ray cluster, or to a node that is started on this machine and removed afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.redaction import redact

PROBE_SECONDS: Final = 10.0
"""How long a connection to the port of a cluster's head may take."""

CONNECT_SECONDS: Final = 300.0
"""How long joining a cluster may take, with the upload of a folder. Ray itself would try for longer."""

OBJECT_BYTES: Final = 100 * 1024 * 1024
"""The shared memory of a node that is started here: messages are small."""

_HOST_PORT: Final = re.compile(r"(?P<host>\[[^]]+\]|[^:/@\s]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class RayOptions:
    """The cluster to use.

    ``address`` is ``host:port`` of its head, or None for a node on this machine that is started and stopped with the
    executor. ``working_dir`` is a folder to send to the workers: each worker process runs in a copy of it.
    """

    address: str | None = None
    working_dir: Path | None = None

    def __post_init__(self) -> None:
        if self.address is not None and not _HOST_PORT.fullmatch(self.address):
            raise ConfigurationError(
                f"the address {redact(self.address)!r} is not of the form host:port: run the experiment on a node of"
                " the cluster, and give the address of its head (the port is 6379 by default)"
            )
        if self.working_dir is not None and not self.working_dir.is_dir():
            raise ConfigurationError(f"{self.working_dir} is not a folder: name one to send to the workers")


@contextlib.asynccontextmanager
async def connected(options: RayOptions) -> AsyncIterator[int]:
    """Connect this program to Ray, unless it is connected already, and disconnect it at the end.

    Yields the number of free processors, or of all processors if none is free. A node that was started here is stopped;
    after an error its logs are kept. Raises :class:`ConfigurationError` if the cluster can't be reached, or no node can
    be started.
    """
    ray = load_ray()
    ours = keep_logs = False
    logs: Path | None = None
    try:
        if not ray.is_initialized():
            ours = options.address is None  # a node of which only a part has started is stopped as well
            logs = await _connect(options)
            ours = True
        elif options.address or options.working_dir:
            raise ConfigurationError(
                "this program is connected to Ray already: leave out the address and the folder"
            )
        cpus = int(ray.available_resources().get("CPU") or ray.cluster_resources().get("CPU", 1))
        try:
            yield cpus
        except BaseException:
            keep_logs = True
            raise
    finally:
        if ours:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(ray.shutdown)
            if logs is not None and not keep_logs:
                shutil.rmtree(logs, ignore_errors=True)  # a process that is still ending may write there


async def _connect(options: RayOptions) -> Path | None:
    """Join the cluster, or start a node on this machine and return the folder of its logs."""
    ray, address, folder = load_ray(), options.address, options.working_dir
    environment = None if folder is None else {"working_dir": str(folder)}
    init = partial(ray.init, runtime_env=environment, log_to_driver=False, logging_level="error")

    def join(address: str) -> None:
        host, port = address.rsplit(":", 1)
        # This finds a wrong name or a closed port at once; Ray would not report them.
        with socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS):
            pass
        init(address=address)

    try:
        if address is not None:
            await in_time(partial(join, address), CONNECT_SECONDS)
            return None
        # Else Ray would leave a token in ~/.ray/auth_token, where everybody on the machine could read it.
        if not os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}:
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        # Ray ends this process if it takes the node for dead, and a busy node may be slow to answer. If a node on this
        # machine really ends, its process shows it.
        os.environ.setdefault("RAY_health_check_failure_threshold", "60")
        context = await anyio.to_thread.run_sync(
            partial(init, address="local", object_store_memory=OBJECT_BYTES, include_dashboard=False)
        )
    except (ValueError, RuntimeError, OSError, OverflowError, ray.exceptions.RayError) as error:
        reason = redact(str(error))
        told = f"no Ray node can be started on this machine: {reason}"
        if address is not None:
            told = (
                f"the Ray cluster at {address} can't be reached: {reason}. Is it up, is this machine one of its nodes"
                " with the same Python and Ray, and are RAY_AUTH_MODE and RAY_AUTH_TOKEN those of the cluster?"
            )
        raise ConfigurationError(told) from error
    session = context.address_info.get("session_dir")
    return Path(session) if session else None


async def in_time(work: Callable[[], object], seconds: float) -> None:
    """Call a function that can't be stopped, in a daemon thread, which does not keep the program from ending.

    Raises what the function raises, and :class:`TimeoutError`.
    """
    done: Future[object] = Future()

    def run() -> None:
        with contextlib.suppress(InvalidStateError):  # nobody is waiting any more
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001 - raised again by wait_for
                done.set_exception(error)

    threading.Thread(target=run, name="ray-connect", daemon=True).start()
    try:
        await asyncio.wait_for(asyncio.wrap_future(done), seconds)
    except TimeoutError:
        if done.cancelled():
            raise TimeoutError(f"there was no answer within {seconds:.0f} s") from None
        raise


def load_ray() -> Any:  # noqa: ANN401 - a module without types
    """Import and return Ray, without its usage reports by default. Raises :class:`MissingDependencyError`."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415 - optional dependency
        import ray.cloudpickle  # noqa: PLC0415
        import ray.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("running an experiment on Ray", "ray") from error
    return ray
