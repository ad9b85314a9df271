"""Row-level security: roles that see and write their own namespaces alone, whatever statement they send."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from psycopg import errors as pg
from psycopg import sql

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres.schema import check_owner, forget_statistics, lock_schema

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place
    from vectorstores.postgres.connection import Connection

_TABLES: Final = ["meta", "scopes", "chunks", "records", "commits"]
# By table: the condition under which a row is a role's own; that of ``commits`` is made with it. ``scopes`` is to be
# read alone: whatever rights it is given besides, a role can't write itself into another's namespace.
_OWN_NAMESPACE: Final = (
    "USING ({own}) WITH CHECK ({own})",
    "namespace IN (SELECT s.namespace FROM {schema}.scopes s WHERE s.role = current_user)",
)
_POLICIES: Final = {
    "chunks": _OWN_NAMESPACE,
    "records": _OWN_NAMESPACE,
    "scopes": ("FOR SELECT USING ({own})", "role = current_user"),
}
# Which policies there are; a change of theirs needs another name.
_SECURED: Final = (
    "SELECT c.relname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid ="
    " c.relnamespace WHERE n.nspname = %s AND p.polname = 'own' AND c.relrowsecurity"
)
_GRANTS: Final = """
    GRANT USAGE ON SCHEMA {schema} TO {role};
    GRANT SELECT ON {schema}.meta, {schema}.scopes TO {role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.chunks, {schema}.records, {schema}.commits TO {role};
"""
# Whoever may take on a role may do what that role may.
_FREE: Final = (
    "SELECT r.rolname, r.rolname = %(role)s, r.rolsuper, r.rolbypassrls"
    " FROM pg_roles r WHERE pg_has_role(%(role)s, r.oid, 'MEMBER') AND (r.rolsuper OR r.rolbypassrls OR r.oid ="
    " (SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %(schema)s AND c.relname = 'chunks'))"
    " ORDER BY r.rolname <> %(role)s, r.rolname LIMIT 1"
)
# What a role may besides, by a group that it is in or as everybody may, that no policy holds: empty a table, look into
# one by a trigger or a key, change what the store says of itself, or put functions of its own where the statements of
# others look for theirs.
_BESIDES: Final = (
    "SELECT p.name || ' on table ' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " CROSS JOIN unnest(ARRAY['TRUNCATE', 'REFERENCES', 'TRIGGER', 'UPDATE', 'DELETE']) AS p (name)"
    " WHERE n.nspname = %(schema)s AND c.relname = ANY(%(tables)s) AND has_table_privilege(%(role)s, c.oid, p.name)"
    " AND (p.name IN ('TRUNCATE', 'REFERENCES', 'TRIGGER') OR c.relname = 'meta')"
    " UNION ALL SELECT 'CREATE on schema ' || n.nspname FROM pg_namespace n WHERE (n.nspname = %(schema)s"
    " OR n.oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'vector'))"
    " AND has_schema_privilege(%(role)s, n.oid, 'CREATE') LIMIT 1"
)
_SESSIONS: Final = (
    "SELECT pid FROM pg_stat_activity WHERE usename = %s AND datname = current_database()"
    " AND pid <> pg_backend_pid()"
)
# How long a session is given to end, in milliseconds.
_END: Final = 5000


async def secure(connection: Connection, place: Place, role: str, namespaces: Sequence[str]) -> None:
    """Turn row-level security on and let ``role`` work in exactly these namespaces; of none, take all its rights.

    The owner of the tables, who calls this, keeps seeing everything. Where the role loses a namespace its sessions are
    ended, before and after, so that none goes on with what it had. Raises :class:`StoreUnavailableError` for a role
    that is not there, that row-level security does not hold, or whose sessions may not be ended.
    """
    # Whoever waits for a lock on a table holds up all others; the caller tries again.
    await connection.execute("SET lock_timeout = '2s'")
    # No name of a schema in a statement with parameters: a percent sign in it would be taken for one.
    path = sql.Identifier(place.schema).as_string(connection)
    await connection.execute("SELECT set_config('search_path', %s, false)", (f"{path}, pg_temp",))
    await check_owner(connection, place)
    await _check_role(connection, place, role)
    cursor = await connection.execute("SELECT namespace FROM scopes WHERE role = %s", (role,))
    loses = not namespaces or not {scope for (scope,) in await cursor.fetchall()} <= set(namespaces)
    if loses:
        # So that nothing that they hold is waited for.
        with suppress(pg.InsufficientPrivilege):  # tried again below, where it is told
            await _end_sessions(connection, role)
    async with connection.transaction():
        await lock_schema(connection, place)
        await _revoke(connection, place, role)
        if namespaces:
            await _protect(connection, place)
            schema, name = sql.Identifier(place.schema), sql.Identifier(role)
            await connection.execute(sql.SQL(_GRANTS).format(schema=schema, role=name))
            await _check_rights(connection, place, role)
        await connection.execute("DELETE FROM scopes WHERE role = %s", (role,))
        await connection.execute(
            "INSERT INTO scopes (role, namespace) SELECT %s, unnest(%s::text[])",
            (role, list(dict.fromkeys(namespaces))),
        )
    if loses:
        said = "they do not end"
        try:
            ended = await _end_sessions(connection, role)
        except pg.InsufficientPrivilege as error:
            ended = False
            owner = sql.Identifier(connection.info.user).as_string(connection)
            said = f"{error.diag.message_primary}; an administrator runs: GRANT pg_signal_backend TO {owner};"
        if not ended:
            raise StoreUnavailableError(
                f"{place}: {role!r} has the new rights, but sessions that it began before may go on with what they are"
                f" reading: {said}"
            )


async def _check_role(connection: Connection, place: Place, role: str) -> None:
    cursor = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))
    if await cursor.fetchone() is None:
        raise StoreUnavailableError(
            f"{place}: there is no role {role!r}; an administrator runs:"
            f" CREATE ROLE {sql.Identifier(role).as_string(connection)} LOGIN;"
        )
    cursor = await connection.execute(_FREE, {"role": role, "schema": place.schema})
    found = await cursor.fetchone()
    if found is None:
        return
    other, is_itself, is_super, bypasses = found
    what = "is a superuser" if is_super else "has BYPASSRLS" if bypasses else "owns the tables"
    who = f"{role!r}" if is_itself else f"{role!r} is a member of {other!r}, which"
    raise StoreUnavailableError(
        f"{place}: {who} {what}, so row-level security does not hold it; name a role that is none of these, such as"
        " one of CREATE ROLE ... LOGIN NOSUPERUSER NOBYPASSRLS"
    )


async def _check_rights(connection: Connection, place: Place, role: str) -> None:
    parameters = {"schema": place.schema, "tables": _TABLES, "role": role}
    found = await (await connection.execute(_BESIDES, parameters)).fetchone()
    if found is not None:
        raise StoreUnavailableError(
            f"{place}: {role!r} has the right {found[0]} by a group that it is in, or because everybody has it, and"
            " could reach others' rows or deceive them with it; an administrator revokes it there"
        )


async def _end_sessions(connection: Connection, role: str) -> bool:
    """End the sessions that a role has now, and say whether they ended; those that it begins meanwhile stay."""
    before = await _sessions(connection, role)
    statement = "SELECT pg_terminate_backend(pid, %s) FROM unnest(%s::int[]) AS pid"
    await connection.execute(statement, (_END, list(before)))
    return not before & await _sessions(connection, role)


async def _sessions(connection: Connection, role: str) -> set[int]:
    return {pid for (pid,) in await (await connection.execute(_SESSIONS, (role,))).fetchall()}


async def _revoke(connection: Connection, place: Place, role: str) -> None:
    """Take what the role was given before, also by others' statements, such as the right to empty a table."""
    name = sql.Identifier(role)
    for table in _TABLES:
        held = sql.Identifier(place.schema, table)
        await connection.execute(sql.SQL("REVOKE ALL ON TABLE {} FROM {}").format(held, name))


async def _protect(connection: Connection, place: Place) -> None:
    """Make what holds secured roles, unless it is there: those who work with the tables would wait for this."""
    cursor = await connection.execute(_SECURED, (place.schema,))
    there = {table for (table,) in await cursor.fetchall()}
    for table, (form, condition) in _POLICIES.items():
        if table not in there:
            policy = sql.SQL(
                "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; DROP POLICY IF EXISTS own ON {table};"
                f" CREATE POLICY own ON {{table}} {form}"
            )
            own = sql.SQL(condition).format(schema=sql.Identifier(place.schema))
            await connection.execute(policy.format(table=sql.Identifier(place.schema, table), own=own))
    await forget_statistics(connection, place.schema)
