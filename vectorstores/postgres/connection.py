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
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import psycopg
from psycopg import AsyncConnection, sql
from psycopg.abc import AdaptContext, Query
from psycopg.conninfo import conninfo_to_dict

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres.address import Place, PostgresOptions, embedded_folder
from vectorstores.postgres.embedded import embedded_conninfo, revive
from vectorstores.postgres.errors import NotConnectedError, is_lost, is_passing, translated

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
# How long to retry a server that has never answered. psycopg gives no code for what happens before a session begins,
# only libpq's words.
_COLD: Final = 5.0
_REFUSED: Final = re.compile(r"refused|No such file or directory|reset by peer|closed the connection")
_COMING: Final = re.compile(r"starting up|shutting down|recovery mode|not yet accepting|not accepting")
_FIRST_WAIT: Final = 0.03
_LONGEST_WAIT: Final = 2.0
# For a server that answers that it is starting.
_COMING_WAIT: Final = 0.5
# The least time that an embedded server gets to start, however little of the call's time is left.
_LEAST: Final = 1.0


class Connection(AsyncConnection[Any]):
    """A connection with its setting of ``hnsw.ef_search``."""

    effort = 0


@dataclass(frozen=True, slots=True, eq=False)
class About:
    """The properties of a store and its server."""

    dim: int
    column: str
    """The column of the vectors."""
    columns: Mapping[str, str]
    """The column of each indexed metadata key."""
    vector_oids: tuple[int, int]
    """The OIDs of pgvector's type and of its array type."""
    vector_schema: str
    deletes: bool
    """Whether this role may DELETE; otherwise it calls the functions of :mod:`vectorstores.postgres.security`."""


def column_name(generation: int) -> str:
    """Return the name of a column of vectors.

    The name changes when a store is re-embedded, so that a process that missed it gets an error, not wrong results.
    """
    return f"vector_{generation}"


async def connect(
    place: Place,
    options: PostgresOptions,
    setup: Query | None = None,
    context: AdaptContext | None = None,
) -> Connection:
    """Open a connection and run the statements of ``setup``. Raises :class:`NotConnectedError`."""
    try:
        connection = await Connection.connect(
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
    if setup is not None:
        try:
            # One round trip: without parameters several statements may go together.
            await connection.execute(setup)
        except BaseException:
            connection.pgconn.finish()
            raise
    return connection


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
        place, lost, trouble = self.place, is_lost(error), None
        if lost and place.folder is not None:
            # An embedded server that does not answer is started. A start that takes longer goes on in its thread.
            left = self._began + self.retry_for - time.monotonic()
            with anyio.move_on_after(max(left, _LEAST)):
                try:
                    await anyio.to_thread.run_sync(revive, place.folder, abandon_on_cancel=True)
                except StoreUnavailableError as failed:
                    trouble = failed
        connecting = isinstance(error, NotConnectedError)
        coming = isinstance(error, psycopg.OperationalError) and _COMING.search(str(error)) is not None
        # The number of seconds for which this error is retried, counted from the first attempt.
        limit = self.retry_for if is_passing(error) else -1.0
        if connecting and not coming and not self.answered and place.folder is None:
            limit = min(_COLD, limit) if _REFUSED.search(str(error)) else -1.0
        if time.monotonic() - self._began >= limit:
            raise trouble or translated(error, place) from error
        if lost and not connecting:
            # The server is there and ended a connection: the next one will probably work.
            pause = self._pause = _FIRST_WAIT
        else:
            pause = self._pause
            self._pause = min(2 * pause, _COMING_WAIT if coming else _LONGEST_WAIT)
        # A random time, so that callers that failed together don't retry together.
        await anyio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - no secret


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
    """Return where a store is; blocks while an embedded server starts.

    Raises :class:`StoreUnavailableError`, which does not repeat the address, since it may contain a password.
    """
    if not schema or "\0" in schema or len(schema.encode()) > 63:
        raise StoreUnavailableError(f"{schema!r} is no name of a schema: 1 to 63 bytes without NUL")
    folder = embedded_folder(conninfo)
    try:
        place = Place(
            conninfo if folder is None else embedded_conninfo(folder, create=create), schema, folder
        )
        conninfo_to_dict(place.conninfo)
    except psycopg.ProgrammingError:
        raise StoreUnavailableError(
            "the address of the PostgreSQL store can't be read; expected postgresql://user@host:port/database"
            " or key=value pairs (https://www.postgresql.org/docs/current/libpq-connect.html); special"
            " characters of a password in an address are written %XX"
        ) from None
    return place
