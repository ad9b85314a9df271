"""How a connection is set up, once, so that no call has to: settings that decide plans, and time limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import AsyncConnection, sql

from vectorstores.postgres.columns import column_name
from vectorstores.postgres.values import Context

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place
    from vectorstores.postgres.options import PostgresOptions

Connection = AsyncConnection[Any]

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
    **dict.fromkeys(("enable_sort", "enable_seqscan", "enable_hashjoin", "enable_mergejoin"), "off"),
    **dict.fromkeys(
        ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan", "enable_nestloop"), "on"
    ),
}


class NotConnectedError(psycopg.OperationalError):
    """No connection could be made."""


@dataclass(frozen=True, slots=True)
class About:
    """What a store and its server say about themselves."""

    store: str
    dim: int
    generation: int
    indexed: tuple[str, ...]
    vector_oids: tuple[int, int]
    """The numbers of pgvector's type, and of arrays of it."""
    vector_schema: str
    iterative: bool
    """Whether a walk through an index goes on until enough admitted rows are found: from pgvector 0.8 on."""
    noted: bool
    """Whether this role may note its writes in the table ``commits``."""
    deletes: bool
    """Whether this role may DELETE; else it uses the functions of :mod:`vectorstores.postgres.removal`."""

    @property
    def column(self) -> str:
        """The column of the vectors.

        Its name changes when a store is re-embedded, so that who missed it gets an error and no wrong answer.
        """
        return column_name(self.generation)

    @property
    def columns(self) -> dict[str, str]:
        """The column of each indexed metadata key."""
        return {key: f"k{number}" for number, key in enumerate(self.indexed, 1)}


async def connect(place: Place, options: PostgresOptions, context: Context | None = None) -> Connection:
    """Open a connection; raise :class:`NotConnectedError` where none can be made."""
    try:
        return await AsyncConnection.connect(
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
    settings = {**_PLANS, "statement_timeout": limit, "idle_in_transaction_session_timeout": limit}
    if about.iterative:
        settings["hnsw.iterative_scan"] = "relaxed_order"
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
