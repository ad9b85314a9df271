"""Whether a write was made whose COMMIT was sent and not answered.

Each connection has a row in the table ``commits``, with the number of its last write, set by the same transaction. A
transaction's own number does not tell: a server that dies, or one of whose processes does, forgets the numbers of
transactions that had left nothing on its disk, and gives them anew, so that "committed" may be said of somebody else's.
Where a role has no such table (nobody with the right to make it has opened the store since this version), its number
is all there is; then a server that was started anew since is believed only about numbers that it knew when it came up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors as pg
from psycopg import sql

from vectorstores.postgres import removal

if TYPE_CHECKING:
    from vectorstores.postgres.pool import Connection
    from vectorstores.postgres.session import About

# Half of each page is left free, so that a row is replaced beside itself and its index stays as it is.
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS {place}.commits (
        connection uuid PRIMARY KEY,
        number bigint NOT NULL,
        owner name NOT NULL DEFAULT current_user,
        at timestamptz NOT NULL DEFAULT now()) WITH (fillfactor = 50);
    ALTER TABLE {place}.commits ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON {place}.commits USING (owner = current_user) WITH CHECK (owner = current_user);
"""
_HAS: Final = (
    "SELECT has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')"
    " AND has_any_column_privilege(c.oid, 'UPDATE')"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = 'commits'"
)
_OWNER: Final = (
    "SELECT r.rolname, pg_has_role(r.oid, 'USAGE') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_roles r ON r.oid = c.relowner WHERE n.nspname = %s AND c.relname = 'chunks'"
)
_WRITERS: Final = (
    "SELECT r.rolname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) AS acl"
    " JOIN pg_roles r ON r.oid = acl.grantee"
    " WHERE n.nspname = %s AND c.relname = 'chunks' AND acl.privilege_type = 'INSERT'"
)
_NUMBER: Final = b"SELECT pg_current_xact_id()::text, pg_postmaster_start_time()::text"
_TELL: Final = b", pg_notify(%b, %b)"
_NOTE: Final = (
    b"WITH noted AS (INSERT INTO commits (connection, number) VALUES (%b::uuid, %b::bigint)"
    b" ON CONFLICT (connection) DO UPDATE SET number = excluded.number, at = excluded.at) "
)
_ASK: Final = b"SELECT pg_xact_status(%b::text::xid8), pg_postmaster_start_time()::text, pg_is_in_recovery()"
_LAST: Final = b"SELECT number FROM commits WHERE connection = %b::uuid"
# Numbers below this were known to the server when it last wrote down where it is, as it does when it starts.
_KNOWN: Final = b"SELECT next_xid FROM pg_control_checkpoint()"


class StillOpenError(psycopg.OperationalError):
    """The server has not yet decided about a transaction whose connection was lost."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A write by its transaction's number, when its server had started, its connection and which of its writes it is.

    ``connection`` is None where there is no table to note it in.
    """

    xid: str
    started: str
    connection: UUID | None
    number: int


@dataclass(slots=True)
class _Line:
    """A connection's row."""

    id: UUID = field(default_factory=uuid4)
    number: int = 0


class Commits:
    """Marks the writes of a pool's connections, in a table if the store has one."""

    def __init__(self, about: About) -> None:
        self._noted = about.noted
        self._sweep = removal.COMMITS.statement(about)
        self._lines: WeakKeyDictionary[Connection, _Line] = WeakKeyDictionary()
        self._swept = False

    async def mark(self, connection: Connection, told: tuple[str, str] | None) -> Mark:
        """Mark the transaction that a connection is in, just before its end; tell of it on a channel, if asked to."""
        line = self._lines.setdefault(connection, _Line())
        line.number += 1
        if self._noted and not self._swept:
            self._swept = True
            await connection.execute(self._sweep)
        statement = (_NOTE if self._noted else b"") + _NUMBER + (b"" if told is None else _TELL)
        noted = (line.id, line.number) if self._noted else ()
        cursor = await connection.execute(statement, (*noted, *(told or ())), prepare=True)
        found: Any = await cursor.fetchone()
        return Mark(found[0], found[1], line.id if self._noted else None, line.number)


async def was_committed(connection: Connection, mark: Mark) -> bool:
    """Say whether a write was made whose connection was lost.

    Raises :class:`StillOpenError` while that is open, and psycopg's ``DatabaseError`` where it can't be known.
    """
    status, restarted = await _status(connection, mark)
    if status == "in progress" and not restarted:
        raise StillOpenError("a transaction of a lost connection is still open on the server")
    if mark.connection is not None:
        cursor = await connection.execute(_LAST, (mark.connection,))
        found: Any = await cursor.fetchone()
        return found is not None and found[0] >= mark.number
    # A transaction does not outlive its server: one in progress is another's.
    if status is None or (status == "committed" and restarted and not await _was_known(connection, mark.xid)):
        raise psycopg.DatabaseError(
            "the server was restarted while it committed a write, or no longer knows of it: whether the write was made "
            "is not known; read before trying again"
        )
    return status == "committed"


async def _status(connection: Connection, mark: Mark) -> tuple[str | None, bool]:
    """Return what the server says of the number, and whether it was started since."""
    try:
        cursor = await connection.execute(_ASK, (mark.xid,))
    except pg.InvalidParameterValue:  # a number of the future: forgotten, with what was done under it
        return "aborted", True
    found: Any = await cursor.fetchone()
    status, started, standby = found
    if standby:
        raise StillOpenError("the server is a standby, which may yet hear what became of a write")
    return status, started != mark.started


async def _was_known(connection: Connection, xid: str) -> bool:
    cursor = await connection.execute(_KNOWN)
    found: Any = await cursor.fetchone()
    epoch, number = map(int, found[0].split(":"))
    return int(xid) < (epoch << 32) + number


async def has_table(connection: Connection, schema: str) -> bool:
    """Say whether this role may note its writes."""
    cursor = await connection.execute(_HAS, (schema,))
    found: Any = await cursor.fetchone()
    return bool(found and found[0])


async def is_to_be_made(connection: Connection, schema: str) -> bool:
    """Say whether a store of an earlier version has no table for it, and this role owns its tables."""
    cursor = await connection.execute(_HAS, (schema,))
    if await cursor.fetchone() is not None:
        return False
    owner = await owner_of(connection, schema)
    return owner is not None and owner[1]


async def owner_of(connection: Connection, schema: str) -> tuple[str, bool] | None:
    """Return the role that owns the tables, and whether this one may do as it may; None where there are none."""
    found: Any = await (await connection.execute(_OWNER, (schema,))).fetchone()
    return None if found is None else (str(found[0]), bool(found[1]))


async def make_table(connection: Connection, schema: str) -> None:
    """Make the table, for all who may write chunks. Part of the caller's transaction."""
    place = sql.Identifier(schema)
    await connection.execute(sql.SQL(_TABLE).format(place=place))
    owner = await owner_of(connection, schema)
    assert owner is not None, "the tables were made before"  # noqa: S101 - a slip of this package, not of a caller
    await connection.execute(
        sql.SQL("ALTER TABLE {}.commits OWNER TO {}").format(place, sql.Identifier(owner[0]))
    )
    cursor = await connection.execute(_WRITERS, (schema,))
    for (role,) in await cursor.fetchall():
        await connection.execute(
            sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {}.commits TO {}").format(
                place, sql.Identifier(role)
            )
        )
