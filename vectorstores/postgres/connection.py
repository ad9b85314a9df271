"""The first connection to a server, which may be starting: how long it is waited for.

A server that is known to be there, since it answered this process before or is one that this package starts, is
waited for as a lost connection is. Of any other address a refusal may mean that the server is about to start or that
the address is wrong, so that is tried for some seconds only; and what a server or a name service says no to, once.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.to_thread
import psycopg
from psycopg import AsyncConnection

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres.address import Place, embedded_folder, has_server, place_of
from vectorstores.postgres.embedded import embedded_conninfo, log_end, revive
from vectorstores.postgres.errors import is_coming, is_lost, is_passing, translated
from vectorstores.postgres.rights import advice_at_the_door
from vectorstores.postgres.session import connection_arguments

if TYPE_CHECKING:
    from vectorstores.postgres.options import PostgresOptions

T = TypeVar("T")
Connection = AsyncConnection[Any]

# How long a server that never answered may refuse.
_COLD: Final = 5.0
_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 1.0
# How long a server is given to begin starting, however little patience is left.
_LEAST: Final = 1.0
# As is_coming() says, libpq's words are all that there is.
_CLOSED: Final = re.compile(r"refused|No such file or directory|reset by peer|closed the connection")
_FINAL: Final = re.compile(
    r"authentication|password|does not exist|pg_hba|not permitted|certificate|SSL|translate host|resolve host"
    r"|Name or service|invalid|permission denied"
)
_answered: set[bytes] = set()


def resolve(conninfo: str, schema: str, *, create: bool) -> Place | None:
    """Return where a store is; blocks while an embedded server starts. None: its folder has none, and none is made."""
    folder = embedded_folder(conninfo)
    if folder is None:
        return place_of(conninfo, schema)
    if not create and not has_server(folder):
        return None
    place = replace(place_of(embedded_conninfo(folder, create=create), schema), folder=folder)
    _answered.add(_key(place))
    return place


def unreachable(place: Place, error: psycopg.Error) -> StoreUnavailableError:
    """Return the error for a server to which no connection can be made; of an embedded one, with what it said last."""
    said = "" if place.folder is None else f"; the end of its log:\n{log_end(place.folder)}"
    return StoreUnavailableError(
        f"{place} can't be reached: {error}{advice_at_the_door(str(error), place)}{said}"
    )


async def start_again(place: Place, timeout: float) -> StoreUnavailableError | None:
    """See that an embedded server which does not answer is being started; return why it can't be.

    Waits ``timeout`` seconds at most, for a start that goes on by itself then. Other servers are their owners' matter.
    """
    if place.folder is None:
        return None
    with anyio.move_on_after(timeout):
        return await anyio.to_thread.run_sync(_started_again, place, abandon_on_cancel=True)
    return None


def _started_again(place: Place) -> StoreUnavailableError | None:
    try:
        if place.folder is not None:
            revive(place.folder)
    except StoreUnavailableError as error:
        return error
    return None


async def on_connection(
    place: Place, options: PostgresOptions, work: Callable[[Connection], Awaitable[T]]
) -> T:
    """Run work on a connection of its own; again when the server goes away meanwhile, so it must bear that.

    Raises :class:`~vectorstores.StoreUnavailableError` when the server is not there in time, and what the
    server says in this package's words.
    """
    patience = _Patience(place, options.retry_for)
    while True:
        try:
            async with await AsyncConnection.connect(
                place.conninfo, **connection_arguments(options)
            ) as connection:
                patience.answered()
                return await work(connection)
        except psycopg.Error as error:
            trouble = None if patience.connected else await start_again(place, patience.left)
            pause = patience.after(error, trouble)
        await anyio.sleep(pause)


def on_connection_blocking(place: Place, timeout: float, work: Callable[[psycopg.Connection[Any]], T]) -> T:
    """Do the same where there is no event loop; ``timeout`` bounds a connection, a statement and the waiting."""
    patience = _Patience(place, timeout)
    seconds = round(timeout)
    while True:
        try:
            with psycopg.connect(place.conninfo, autocommit=True, connect_timeout=seconds) as connection:
                patience.answered()
                connection.execute(f"SET statement_timeout = '{seconds}s'")
                return work(connection)
        except psycopg.Error as error:
            trouble = None if patience.connected else _started_again(place)
            pause = patience.after(error, trouble)
        time.sleep(pause)


class _Patience:
    """Says how long to wait after an error before the next attempt, or raises."""

    def __init__(self, place: Place, retry_for: float) -> None:
        self._place = place
        self._began = time.monotonic()
        self._retry_for = retry_for
        self._pause = _FIRST_WAIT / 2
        self.connected = False
        """Whether the last attempt came as far as a connection."""

    def answered(self) -> None:
        """Note that the server is there."""
        self.connected = True
        _answered.add(_key(self._place))

    @property
    def left(self) -> float:
        """Seconds until nothing is tried any more."""
        return max(self._retry_for - (time.monotonic() - self._began), _LEAST)

    def after(self, error: psycopg.Error, trouble: StoreUnavailableError | None = None) -> float:
        self._pause = min(2 * self._pause, _LONGEST_WAIT)
        if time.monotonic() - self._began + self._pause <= self._bound(error):
            self.connected = False
            return self._pause
        if self.connected:
            raise translated(error, self._place) from error
        raise trouble or unreachable(self._place, error) from error

    def _bound(self, error: psycopg.Error) -> float:
        said = str(error)
        if self.connected:
            return self._retry_for if is_passing(error) else 0.0
        if not is_lost(error) or _FINAL.search(said):
            return 0.0
        if is_coming(error) or _key(self._place) in _answered:
            return self._retry_for
        return min(_COLD, self._retry_for) if _CLOSED.search(said) else 0.0


def _key(place: Place) -> bytes:
    # Not the address itself: a password may be in it.
    return hashlib.sha256(place.conninfo.encode()).digest()
