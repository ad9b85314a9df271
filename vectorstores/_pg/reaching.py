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
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import psycopg
from psycopg import AsyncConnection

from vectorstores._pg.address import Place, embedded_folder, has_server, place_of
from vectorstores._pg.errors import is_coming, is_lost, is_passing, translated
from vectorstores._pg.server import embedded_conninfo
from vectorstores._pg.session import connection_arguments
from vectorstores.base import StoreUnavailableError

if TYPE_CHECKING:
    from vectorstores._pg.settings import PostgresOptions

T = TypeVar("T")
Connection = AsyncConnection[Any]

# How long a server that never answered may refuse.
_COLD: Final = 5.0
_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 1.0
# As is_coming() says, libpq's words are all that there is.
_CLOSED: Final = re.compile(r"refused|No such file or directory|reset by peer|closed the connection")
_FINAL: Final = re.compile(
    r"authentication|password|does not exist|pg_hba|not permitted|certificate|SSL|translate host|resolve host"
    r"|Name or service|invalid"
)
_answered: set[bytes] = set()


def resolve(conninfo: str, schema: str, *, create: bool) -> Place | None:
    """Return where a store is; blocks while an embedded server starts. None: its folder has none, and none is made."""
    folder = embedded_folder(conninfo)
    if folder is None:
        return place_of(conninfo, schema)
    if not create and not has_server(folder):
        return None
    place = place_of(embedded_conninfo(folder, create=create), schema)
    _answered.add(_key(place))
    return place


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
            pause = patience.after(error)
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
            pause = patience.after(error)
        time.sleep(pause)


class _Patience:
    """Says how long to wait after an error before the next attempt, or raises."""

    def __init__(self, place: Place, retry_for: float) -> None:
        self._place = place
        self._began = time.monotonic()
        self._retry_for = retry_for
        self._pause = _FIRST_WAIT / 2
        self._connected = False

    def answered(self) -> None:
        """Note that the server is there."""
        self._connected = True
        _answered.add(_key(self._place))

    def after(self, error: psycopg.Error) -> float:
        self._pause = min(2 * self._pause, _LONGEST_WAIT)
        if time.monotonic() - self._began + self._pause <= self._bound(error):
            self._connected = False
            return self._pause
        if self._connected:
            raise translated(error, self._place) from error
        raise StoreUnavailableError(f"{self._place} can't be reached: {error}") from error

    def _bound(self, error: psycopg.Error) -> float:
        said = str(error)
        if self._connected:
            return self._retry_for if is_passing(error) else 0.0
        if not is_lost(error) or _FINAL.search(said):
            return 0.0
        if is_coming(error) or _key(self._place) in _answered:
            return self._retry_for
        return min(_COLD, self._retry_for) if _CLOSED.search(said) else 0.0


def _key(place: Place) -> bytes:
    # Not the address itself: a password may be in it.
    return hashlib.sha256(place.conninfo.encode()).digest()
