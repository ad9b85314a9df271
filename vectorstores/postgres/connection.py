"""Work that is tried again while the server is away, and how long it is waited for.

A call of an open store is tried again for as long as its options say. So is the first connection to an embedded
server, or to one that says it is about to be there. Of any other address a refusal may mean that it is wrong, so that
is tried for some seconds only; and what a server or a name service says no to, once.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread
import psycopg

from vectorstores.base import StoreUnavailableError, VectorStoreError
from vectorstores.postgres.address import Place, embedded_folder, has_server, place_of
from vectorstores.postgres.embedded import embedded_conninfo, log_end, revive
from vectorstores.postgres.errors import advice_on_connecting, is_coming, is_lost, is_passing, translated
from vectorstores.postgres.options import PostgresOptions
from vectorstores.postgres.session import Connection, NotConnectedError, connect

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

# How long a server that never answered may refuse.
_COLD: Final = 5.0
_FIRST_WAIT: Final = 0.03
_LONGEST_WAIT: Final = 2.0
# For a server that answers that it is about to be there.
_COMING_WAIT: Final = 0.5
# How long an embedded server is given to begin starting, however little time is left.
_LEAST: Final = 1.0
# As is_coming() says, libpq's words are all that there is.
_REFUSED: Final = re.compile(r"refused|No such file or directory|reset by peer|closed the connection")
_FINAL: Final = re.compile(
    r"authentication|password|does not exist|pg_hba|not permitted|certificate|SSL|translate host|resolve host"
    r"|Name or service|invalid|permission denied"
)


@dataclass(slots=True)
class Patience:
    """Says how long to wait after an error before the next attempt, or raises the error that ends the call."""

    place: Place
    retry_for: float
    answered: bool = True
    """Whether the server is known to be one, since it answered before."""
    _began: float = field(default_factory=time.monotonic)
    _pause: float = _FIRST_WAIT

    async def wait(self, error: psycopg.Error | TimeoutError) -> None:
        """Wait for the next attempt. Have an embedded server that was not there started again meanwhile."""
        trouble: VectorStoreError | None = None
        if isinstance(error, NotConnectedError) and not is_coming(error):
            left = self.retry_for - (time.monotonic() - self._began)
            trouble = await start_again(self.place, max(left, _LEAST))
        if time.monotonic() + self._pause > self._began + self._limit(error):
            raise trouble or self._told(error) from error
        if is_lost(error) and not isinstance(error, NotConnectedError):
            # There is a server, which ended a connection: the next one is likely to do.
            pause = self._pause = _FIRST_WAIT
        else:
            pause = self._pause
            self._pause = min(2 * pause, _COMING_WAIT if is_coming(error) else _LONGEST_WAIT)
        # Apart from each other: those who failed together would otherwise meet again.
        await anyio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - no secret

    def _limit(self, error: psycopg.Error | TimeoutError) -> float:
        """Return for how many seconds after the beginning this error is a reason to try again."""
        if self.answered or is_coming(error) or not isinstance(error, NotConnectedError):
            return self.retry_for if is_passing(error) else -1.0
        if _FINAL.search(str(error)):
            return -1.0
        if self.place.folder is not None:
            return self.retry_for
        return min(_COLD, self.retry_for) if _REFUSED.search(str(error)) else -1.0

    def _told(self, error: psycopg.Error | TimeoutError) -> VectorStoreError:
        if not isinstance(error, NotConnectedError):
            return translated(error, self.place)
        log = "" if self.place.folder is None else f"; the end of its log:\n{log_end(self.place.folder)}"
        advice = advice_on_connecting(str(error), self.place)
        return StoreUnavailableError(f"{self.place} can't be reached: {error}{advice}{log}")


async def repeated(patience: Patience, attempt: Callable[[], Awaitable[T]]) -> T:
    """Try until it works, or patience ends. Raises what PostgreSQL says in this package's words."""
    while True:
        try:
            return await attempt()
        except (psycopg.Error, TimeoutError) as error:
            failed = error
        await patience.wait(failed)


async def on_connection(
    place: Place, options: PostgresOptions, work: Callable[[Connection], Awaitable[T]]
) -> T:
    """Run work on a connection of its own; again when the server goes away meanwhile, so it must bear that.

    Raises :class:`~vectorstores.StoreUnavailableError` when the server is not there in time.
    """
    patience = Patience(place, options.retry_for, answered=False)

    async def attempt() -> T:
        async with await connect(place, options) as connection:
            patience.answered = True
            return await work(connection)

    return await repeated(patience, attempt)


def on_connection_blocking(
    place: Place, timeout: float, work: Callable[[Connection], Coroutine[None, None, T]]
) -> T:
    """Do the same for who has no event loop, or can't wait in it. ``timeout`` bounds connecting and each statement."""
    options = PostgresOptions(connect_timeout=timeout, retry_for=timeout)

    async def limited(connection: Connection) -> T:
        await connection.execute(f"SET statement_timeout = '{round(timeout)}s'".encode())
        return await work(connection)

    # A thread may have a loop already, which can't run another.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, on_connection(place, options, limited)).result()


def resolve(conninfo: str, schema: str, *, create: bool) -> Place | None:
    """Return where a store is; blocks while an embedded server starts. None: its folder has none, and none is made."""
    folder = embedded_folder(conninfo)
    if folder is None:
        return place_of(conninfo, schema)
    if not create and not has_server(folder):
        return None
    return replace(place_of(embedded_conninfo(folder, create=create), schema), folder=folder)


async def start_again(place: Place, timeout: float) -> VectorStoreError | None:
    """See that an embedded server which does not answer is being started; return why it can't be.

    Waits ``timeout`` seconds at most, for a start that goes on by itself then. Other servers are their owners' matter.
    """

    def start() -> VectorStoreError | None:
        try:
            if place.folder is not None:
                revive(place.folder)
        except StoreUnavailableError as error:
            return error
        return None

    if place.folder is not None:
        with anyio.move_on_after(timeout):
            return await anyio.to_thread.run_sync(start, abandon_on_cancel=True)
    return None
