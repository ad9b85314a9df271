"""Connections: what a store says of itself, how each is set up, and how long a server that is away is waited for.

A call of an open store is tried again for as long as its options say. So is the first connection to an embedded
server, or to one that says it is about to be there. Of any other address a refusal may mean that it is wrong, so that
is tried for some seconds only; and what a server or a name service says no to, once.
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
from vectorstores.postgres.address import Place, PostgresOptions, embedded_folder, has_server, place_of
from vectorstores.postgres.embedded import embedded_conninfo, log_end, revive
from vectorstores.postgres.errors import advice_on_connecting, is_coming, is_lost, is_passing, translated

T = TypeVar("T")

# The planner is given no choice between plans: its estimates know nothing of distances, and its choices have cost nine
# results in ten. A query that orders by distance can only walk the index, since sorting is off; one that computes
# distances in a materialised part has no index to walk, and is sorted all the same. What is left has to be allowed,
# whatever an administrator has set for a role or a database.
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
# How long a server that never answered may refuse. psycopg gives no code for that, only libpq's words.
_COLD: Final = 5.0
_REFUSED: Final = re.compile(r"refused|No such file or directory|reset by peer|closed the connection")
_FIRST_WAIT: Final = 0.03
_LONGEST_WAIT: Final = 2.0
# For a server that answers that it is about to be there.
_COMING_WAIT: Final = 0.5
# How long an embedded server is given to begin starting, however little time is left.
_LEAST: Final = 1.0


class NotConnectedError(psycopg.OperationalError):
    """No connection could be made."""


class Connection(AsyncConnection[Any]):
    """A connection with its setting of ``hnsw.ef_search``."""

    effort = 0


@dataclass(frozen=True, slots=True)
class About:
    """What a store and its server say about themselves."""

    dim: int
    generation: int
    indexed: tuple[str, ...]
    vector_oids: tuple[int, int]
    """The numbers of pgvector's type, and of arrays of it."""
    vector_schema: str
    deletes: bool
    """Whether this role may DELETE; else it deletes by the functions of :mod:`vectorstores.postgres.security`."""

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

    It changes when a store is re-embedded, so that who missed it gets an error and no wrong answer.
    """
    return f"vector_{generation}"


async def connect(place: Place, options: PostgresOptions, context: AdaptContext | None = None) -> Connection:
    """Open a connection; raise :class:`NotConnectedError` where none can be made."""
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
            # Data that nobody acknowledges ends the connection: else a vanished host is noticed after 15 minutes.
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
    # 0 would be no limit.
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
    """Return the statement that makes this store's tables and pgvector's types known without their schemas."""
    # pg_temp last: a temporary table must not stand in for one of the store.
    names = dict.fromkeys((schema, vector_schema, "pg_temp"))
    words = sql.SQL("SET LOCAL search_path = {}" if local else "SET search_path = {}")
    return words.format(sql.SQL(", ").join(map(sql.Identifier, names)))


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
        """Wait a moment, or raise when that is no use."""
        trouble = None
        if is_lost(error):
            left = self._began + self.retry_for - time.monotonic()
            trouble = await _start_again(self.place, max(left, _LEAST))
        if time.monotonic() - self._began >= self._limit(error):
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
        if not is_passing(error):
            return -1.0
        cold = isinstance(error, NotConnectedError) and not self.answered and self.place.folder is None
        if not cold or is_coming(error):
            return self.retry_for
        return min(_COLD, self.retry_for) if _REFUSED.search(str(error)) else -1.0

    def _told(self, error: psycopg.Error | TimeoutError) -> VectorStoreError:
        if not isinstance(error, NotConnectedError):
            return translated(error, self.place)
        log = "" if self.place.folder is None else f"; the end of its log:\n{log_end(self.place.folder)}"
        advice = advice_on_connecting(str(error), self.place)
        return StoreUnavailableError(f"{self.place} can't be reached: {error}{advice}{log}")


async def _start_again(place: Place, timeout: float) -> VectorStoreError | None:
    """See that an embedded server which does not answer is being started; return why it can't be.

    Waits ``timeout`` seconds at most, for a start that goes on by itself then. Other servers are their owners' matter.
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


def resolve(conninfo: str, schema: str, *, create: bool) -> Place | None:
    """Return where a store is; blocks while an embedded server starts. None: its folder has none, and none is made."""
    folder = embedded_folder(conninfo)
    if folder is None:
        return place_of(conninfo, schema)
    if not create and not has_server(folder):
        return None
    return replace(place_of(embedded_conninfo(folder, create=create), schema), folder=folder)
