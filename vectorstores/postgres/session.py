"""How a connection is set up, once, so that no call has to: settings that decide plans, and time limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from vectorstores.postgres.columns import column_name
from vectorstores.postgres.values import Context

if TYPE_CHECKING:
    from vectorstores.postgres.options import PostgresOptions


@dataclass(frozen=True, slots=True)
class About:
    """What a store and its server say about themselves."""

    store: str
    dim: int
    generation: int
    indexed: tuple[str, ...]
    vector_oid: int
    vector_schema: str
    iterative: bool
    guarded: bool
    noted: bool
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


def connection_arguments(options: PostgresOptions, context: Context | None = None) -> dict[str, Any]:
    """Return what every connection is opened with."""
    seconds = max(1, round(options.connect_timeout))
    return {
        "autocommit": True,
        "context": context,
        "connect_timeout": seconds,
        "client_encoding": "utf8",
        "application_name": "vectorstores",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        # Data that nobody acknowledges ends the connection: else a vanished host is noticed after 15 minutes.
        "tcp_user_timeout": 30_000,
    }


def session_settings(options: PostgresOptions, about: About, schema: str) -> sql.Composed:
    """Return the statements that set up a connection.

    The planner is given no choice between plans: its estimates know nothing of distances, and its choices
    have cost nine results in ten. A query that orders by distance can only walk the index, since sorting is
    off; one that computes distances in a materialised part has no index to walk, and is sorted all the same.
    """
    # 0 would be no limit.
    limit = f"{max(1, round(options.statement_timeout * 1000))}ms"
    settings: dict[str, str] = {
        "statement_timeout": limit,
        "idle_in_transaction_session_timeout": limit,
        "default_transaction_isolation": "read committed",
        "plan_cache_mode": "force_generic_plan",
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "work_mem": "32MB",
        "enable_sort": "off",
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        # What is left has to be allowed, whatever an administrator has set for a role or a database.
        "enable_indexscan": "on",
        "enable_indexonlyscan": "on",
        "enable_bitmapscan": "on",
        "enable_nestloop": "on",
    }
    if about.iterative:
        settings["hnsw.iterative_scan"] = "relaxed_order"
    statements: list[sql.Composable] = [
        search_path(schema, about.vector_schema),
        # Loads pgvector, so that its settings are checked.
        sql.SQL("SELECT '[1]'::vector"),
    ]
    statements += [
        sql.SQL("SET {} = {}").format(
            sql.SQL(".").join(map(sql.Identifier, name.split("."))), sql.Literal(value)
        )
        for name, value in settings.items()
    ]
    return sql.SQL("; ").join(statements)


def search_path(schema: str, vector_schema: str) -> sql.Composed:
    """Return the statement that makes this store's tables and pgvector's types known without their schemas."""
    # pg_temp last: a temporary table must not stand in for one of the store.
    names: Sequence[str] = list(dict.fromkeys((schema, vector_schema, "pg_temp")))
    return sql.SQL("SET search_path = {}").format(sql.SQL(", ").join(map(sql.Identifier, names)))
