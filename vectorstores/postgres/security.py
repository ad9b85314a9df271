"""Row-level security: roles that see and write their own namespaces alone, whatever statement they send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from psycopg import errors as pg
from psycopg import sql

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres.schema import lock_schema

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place
    from vectorstores.postgres.connection import Connection

# By table, the policy ``own``. ``scopes`` is to be read alone: whatever rights it is given besides, a role can't write
# itself into another's namespace.
_OWN_NAMESPACE: Final = "namespace IN (SELECT s.namespace FROM {schema}.scopes s WHERE s.role = current_user)"
_POLICIES: Final = {
    "chunks": f"USING ({_OWN_NAMESPACE}) WITH CHECK ({_OWN_NAMESPACE})",
    "records": f"USING ({_OWN_NAMESPACE}) WITH CHECK ({_OWN_NAMESPACE})",
    "scopes": "FOR SELECT USING (role = current_user)",
}
_SECURED: Final = (
    "SELECT c.relname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid ="
    " c.relnamespace WHERE n.nspname = %s AND p.polname = 'own' AND c.relrowsecurity"
)
_GRANTS: Final = """
    GRANT USAGE ON SCHEMA {schema} TO {role};
    GRANT SELECT ON {schema}.meta, {schema}.scopes TO {role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.chunks, {schema}.records TO {role};
"""
# Who is beyond the policies, itself or by a role that it may take on: nothing holds the first three to them, TRUNCATE
# asks none, nobody else writes ``meta``, and with CREATE it could put functions where the statements of others look.
_FREE: Final = """
    SELECT r.rolname, CASE WHEN r.rolsuper THEN 'is a superuser' WHEN r.rolbypassrls THEN 'has BYPASSRLS'
            WHEN r.oid = chunks.relowner THEN 'owns the tables'
            ELSE 'has rights beyond those of rows on the tables or CREATE beside them' END
        FROM pg_roles r, pg_class chunks JOIN pg_namespace n ON n.oid = chunks.relnamespace
        WHERE n.nspname = %(schema)s AND chunks.relname = 'chunks' AND pg_has_role(%(role)s, r.oid, 'MEMBER')
        AND (r.rolsuper OR r.rolbypassrls OR r.oid = chunks.relowner
            OR EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'r'
                AND (has_table_privilege(r.oid, c.oid, 'TRUNCATE, TRIGGER') OR c.relname = 'meta'
                    AND has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE')))
            OR EXISTS (SELECT FROM pg_namespace used WHERE has_schema_privilege(r.oid, used.oid, 'CREATE') AND
                (used.oid = n.oid OR used.oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'vector'))))
        ORDER BY r.rolsuper OR r.rolbypassrls OR r.oid = chunks.relowner DESC, r.rolname <> %(role)s LIMIT 1
"""
_END_SESSIONS: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s AND datname = current_database()"
    " AND pid <> pg_backend_pid()"
)


async def secure(connection: Connection, place: Place, role: str, namespaces: Sequence[str]) -> None:
    """Turn row-level security on and let ``role`` work in exactly these namespaces; of none, take all its rights.

    The owner of the tables, who calls this, keeps seeing everything. Where the role loses something, its sessions are
    ended, so that none goes on with what it had. Raises :class:`StoreUnavailableError` for a role that is not there,
    that row-level security does not hold, or whose sessions may not be ended.
    """
    # Whoever waits for a lock on a table holds up all others; the caller tries again.
    await connection.execute("SET lock_timeout = '2s'")
    schema, name = sql.Identifier(place.schema), sql.Identifier(role)
    async with connection.transaction():
        await lock_schema(connection, place)
        await _check_role(connection, place, role)
        # Literals: in a statement with parameters, a percent sign of the schema's name would be taken for one.
        forget = sql.SQL("DELETE FROM {}.scopes WHERE role = {} RETURNING namespace")
        cursor = await connection.execute(forget.format(schema, sql.Literal(role)))
        before = {namespace for (namespace,) in await cursor.fetchall()}
        # Also what it was given by others' statements.
        revoke = sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {0} FROM {1}; REVOKE ALL ON SCHEMA {0} FROM {1}")
        await connection.execute(revoke.format(schema, name))
        if namespaces:
            await _check_freedom(connection, place, role)
            await _protect(connection, place)
            await connection.execute(sql.SQL(_GRANTS).format(schema=schema, role=name))
            scopes = sql.SQL(", ").join(
                sql.SQL("({}, {})").format(sql.Literal(role), sql.Literal(namespace))
                for namespace in dict.fromkeys(namespaces)
            )
            insert = sql.SQL("INSERT INTO {}.scopes (role, namespace) VALUES {}")
            await connection.execute(insert.format(schema, scopes))
    if before and before <= set(namespaces):
        return
    try:
        await connection.execute(_END_SESSIONS, (role,))
    except pg.InsufficientPrivilege as error:
        end = sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = {};").format(
            sql.Literal(role)
        )
        grant = sql.SQL("GRANT pg_signal_backend TO {};").format(sql.Identifier(connection.info.user))
        raise StoreUnavailableError(
            f"{place}: {role!r} has the new rights, but sessions that it began before may go on with what they are"
            f" reading: {error.diag.message_primary}; an administrator runs: {end.as_string(connection)}"
            f" {grant.as_string(connection)}"
        ) from error


async def _check_role(connection: Connection, place: Place, role: str) -> None:
    cursor = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))
    if await cursor.fetchone() is None:
        raise StoreUnavailableError(
            f"{place}: there is no role {role!r}; an administrator runs:"
            f" CREATE ROLE {sql.Identifier(role).as_string(connection)} LOGIN;"
        )


async def _check_freedom(connection: Connection, place: Place, role: str) -> None:
    cursor = await connection.execute(_FREE, {"role": role, "schema": place.schema})
    found = await cursor.fetchone()
    if found is not None:
        other, what = found
        who = f"{role!r}" if other == role else f"{role!r} is a member of {other!r}, which"
        raise StoreUnavailableError(
            f"{place}: {who} {what}, so row-level security does not hold it; name a role that does none of this, also"
            " not because everybody may, such as one of CREATE ROLE ... LOGIN NOSUPERUSER NOBYPASSRLS"
        )


async def _protect(connection: Connection, place: Place) -> None:
    """Make the policies, unless they are there: those who work with the tables would wait for this."""
    cursor = await connection.execute(_SECURED, (place.schema,))
    there = {table for (table,) in await cursor.fetchall()}
    for table, policy in _POLICIES.items():
        if table not in there:
            statements = (
                "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; DROP POLICY IF EXISTS own ON {table};"
                f" CREATE POLICY own ON {{table}} {policy}"
            )
            names = {"schema": sql.Identifier(place.schema), "table": sql.Identifier(place.schema, table)}
            await connection.execute(sql.SQL(statements).format(**names))
