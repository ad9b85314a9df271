"""Connections: how they are set up, and how long a call waits for a server that is away.

A call of an open store is retried for as long as its options say. So is the first connection to an embedded server, or
to one that says that it is starting. A refusal by any other address may mean that the address is wrong, so it is
retried for some seconds only. An error of the server or of the name service is not retried.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import psycopg
from psycopg import AsyncConnection, sql
from psycopg.abc import AdaptContext

from vectorstores.base import StoreUnavailableError, VectorStoreError
from vectorstores.postgres.address import Place, PostgresOptions, embedded_folder, place_of
from vectorstores.postgres.embedded import embedded_conninfo, log_end, revive
from vectorstores.postgres.errors import advice_on_connecting, is_coming, is_lost, is_passing, translated

T = TypeVar("T")

# These settings leave the planner no choice between plans: its estimates know nothing of distances, and its choices
# have cost nine results in ten. With sorting off, a query that orders by distance can only walk the index; one that
# computes distances in a materialised part has no index to walk, and is sorted anyway. The settings that are on protect
# against what an administrator has set for a role or a database.
_PLANS: Final = {
    "default_transaction_isolation": "read committed",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "work_mem": "32MB",
    "hnsw.iterative_scan": "relaxed_order",
    **dict.fromkeys(("enable_sort", "enable_seqscan", "enable_hashjoin", "enable_mergejoin"), "off"),
    **dict.fromkeys(
        ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan", "enable_nestloop"), "on"
    ),
}
# How long to retry a server that has never answered. psycopg gives no code for a refusal, only libpq's words.
_COLD: Final = 5.0
_REFUSED: Final = re.compile(r"refused|No such file or directory|reset by peer|closed the connection")
_FIRST_WAIT: Final = 0.03
_LONGEST_WAIT: Final = 2.0
# For a server that answers that it is starting.
_COMING_WAIT: Final = 0.5
# The least time that an embedded server gets to start, however little of the call's time is left.
_LEAST: Final = 1.0


class NotConnectedError(psycopg.OperationalError):
    """No connection could be made."""


class Connection(AsyncConnection[Any]):
    """A connection with its setting of ``hnsw.ef_search``."""

    effort = 0


@dataclass(frozen=True, slots=True)
class About:
    """The properties of a store and its server."""

    dim: int
    generation: int
    indexed: tuple[str, ...]
    vector_oids: tuple[int, int]
    """The OIDs of pgvector's type and of its array type."""
    vector_schema: str
    deletes: bool
    """Whether this role may DELETE; otherwise it calls the functions of :mod:`vectorstores.postgres.security`."""

    @property
    def column(self) -> str:
        """The column of the vectors."""
        return column_name(self.generation)

    @property
    def columns(self) -> dict[str, str]:
        """The column of each indexed metadata key."""
        return {key: f"k{number}" for number, key in enumerate(self.indexed, 1)}


def column_name(generation: int) -> str:
    """Return the name of a column of vectors.

    The name changes when a store is re-embedded, so that a process that missed it gets an error, not wrong results.
    """
    return f"vector_{generation}"


async def connect(place: Place, options: PostgresOptions, context: AdaptContext | None = None) -> Connection:
    """Open a connection. Raises :class:`NotConnectedError`."""
    try:
        return await Connection.connect(
            place.conninfo,
            autocommit=True,
            context=context,
            connect_timeout=max(1, round(options.connect_timeout)),
            client_encoding="utf8",
            application_name="vectorstores",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            # Without this limit on unacknowledged data, a vanished host is noticed only after 15 minutes.
            tcp_user_timeout=30_000,
        )
    except psycopg.OperationalError as error:
        raise NotConnectedError(str(error)) from error


async def rows(
    connection: Connection, statement: bytes, parameters: Sequence[object] | Mapping[str, object] = ()
) -> list[tuple[Any, ...]]:
    """Run a prepared statement and return its rows."""
    cursor = await connection.execute(statement, parameters, prepare=True, binary=True)
    return await cursor.fetchall()


def session_settings(options: PostgresOptions, about: About, schema: str) -> sql.Composed:
    """Return the statements that set up a connection of the store."""
    # 0 would mean no limit.
    limit = f"{max(1, round(options.statement_timeout * 1000))}ms"
    settings = _PLANS | dict.fromkeys(("statement_timeout", "idle_in_transaction_session_timeout"), limit)
    return sql.SQL("; ").join(
        [
            search_path(schema, about.vector_schema),
            sql.SQL("SELECT '[1]'::vector"),  # loads pgvector, so that its settings are checked
            *(sql.SQL(f"SET {name} = {{}}").format(sql.Literal(value)) for name, value in settings.items()),
        ]
    )


def search_path(schema: str, vector_schema: str, *, local: bool = False) -> sql.Composed:
    """Return the statement that lets tables of this store and types of pgvector be named without their schemas."""
    # pg_temp comes last: a temporary table must not hide one of the store.
    names = dict.fromkeys((schema, vector_schema, "pg_temp"))
    words = sql.SQL("SET LOCAL search_path = {}" if local else "SET search_path = {}")
    return words.format(sql.SQL(", ").join(map(sql.Identifier, names)))


@dataclass(slots=True)
class Patience:
    """Decides after an error whether to wait and retry, or to raise."""

    place: Place
    retry_for: float
    answered: bool = True
    """Whether the server has answered before, so the address is right."""
    _began: float = field(default_factory=time.monotonic)
    _pause: float = _FIRST_WAIT

    async def wait(self, error: psycopg.Error | TimeoutError) -> None:
        """Wait for a moment, or raise if a retry is of no use."""
        trouble = None
        if is_lost(error):
            left = self._began + self.retry_for - time.monotonic()
            trouble = await _start_again(self.place, max(left, _LEAST))
        if time.monotonic() - self._began >= self._limit(error):
            raise trouble or self._translated(error) from error
        if is_lost(error) and not isinstance(error, NotConnectedError):
            # The server is there and ended a connection: the next one will probably work.
            pause = self._pause = _FIRST_WAIT
        else:
            pause = self._pause
            self._pause = min(2 * pause, _COMING_WAIT if is_coming(error) else _LONGEST_WAIT)
        # A random time, so that callers that failed together don't retry together.
        await anyio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - no secret

    def _limit(self, error: psycopg.Error | TimeoutError) -> float:
        """Return the number of seconds for which this error is retried, counted from the first attempt."""
        if not is_passing(error):
            return -1.0
        cold = isinstance(error, NotConnectedError) and not self.answered and self.place.folder is None
        if not cold or is_coming(error):
            return self.retry_for
        return min(_COLD, self.retry_for) if _REFUSED.search(str(error)) else -1.0

    def _translated(self, error: psycopg.Error | TimeoutError) -> VectorStoreError:
        if not isinstance(error, NotConnectedError):
            return translated(error, self.place)
        log = "" if self.place.folder is None else f"; the end of its log:\n{log_end(self.place.folder)}"
        advice = advice_on_connecting(str(error), self.place)
        return StoreUnavailableError(f"{self.place} can't be reached: {error}{advice}{log}")


async def _start_again(place: Place, timeout: float) -> VectorStoreError | None:
    """Start an embedded server that does not answer; return the error if it can't be started.

    Waits for at most ``timeout`` seconds; the start then continues in its thread. Leaves other servers alone.
    """
    if place.folder is None:
        return None
    with anyio.move_on_after(timeout):
        try:
            await anyio.to_thread.run_sync(revive, place.folder, abandon_on_cancel=True)
        except StoreUnavailableError as error:
            return error
    return None


async def repeated(patience: Patience, attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat an attempt until it succeeds or patience ends. Raises the errors of this package."""
    while True:
        try:
            return await attempt()
        except (psycopg.Error, TimeoutError) as error:
            failed = error
        await patience.wait(failed)


async def on_connection(
    place: Place, options: PostgresOptions, work: Callable[[Connection], Awaitable[T]]
) -> T:
    """Run work on a connection of its own, again if the connection is lost: the work must be repeatable.

    Raises :class:`~vectorstores.StoreUnavailableError` if the server does not answer in time.
    """
    patience = Patience(place, options.retry_for, answered=False)

    async def attempt() -> T:
        async with await connect(place, options) as connection:
            patience.answered = True
            return await work(connection)

    return await repeated(patience, attempt)


def resolve(conninfo: str, schema: str, *, create: bool) -> Place:
    """Return where a store is; blocks while an embedded server starts. Raises :class:`StoreUnavailableError`."""
    folder = embedded_folder(conninfo)
    if folder is None:
        return place_of(conninfo, schema)
    return replace(place_of(embedded_conninfo(folder, create=create), schema), folder=folder)
