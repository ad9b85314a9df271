"""Row-level security: roles that see and write their own namespaces alone, whatever statement they send."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from psycopg import errors as pg
from psycopg import sql

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres import removal
from vectorstores.postgres.schema import check_owner, execute_made, forget_statistics, lock_schema

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place
    from vectorstores.postgres.session import Connection

_TABLES: Final = ["meta", "scopes", "chunks", "records", "embeddings", "commits"]
# By table: the condition under which a row is a role's own. ``scopes`` is to be read alone: whatever rights it is given
# besides, a role can't write itself into another's namespace.
_OWN_NAMESPACE: Final = (
    "USING ({own}) WITH CHECK ({own})",
    "namespace IN (SELECT s.namespace FROM {schema}.scopes s WHERE s.role = current_user)",
)
_POLICIES: Final = {
    "chunks": _OWN_NAMESPACE,
    "records": _OWN_NAMESPACE,
    "embeddings": ("USING ({own}) WITH CHECK ({own})", "owner = current_user"),
    "scopes": ("FOR SELECT USING ({own})", "role = current_user"),
}
# Which policies there are; a change of theirs needs another name.
_SECURED: Final = (
    "SELECT c.relname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid ="
    " c.relnamespace WHERE n.nspname = %s AND p.polname = 'own' AND c.relrowsecurity"
)
# The least that work. Who may UPDATE a whole table, or DELETE from it, may LOCK it as well, so a role may update the
# columns that are written of a row that is there.
_GRANTS: Final = """
    GRANT USAGE ON SCHEMA {schema} TO {role};
    GRANT SELECT ON {schema}.meta, {schema}.scopes TO {role};
    GRANT SELECT, INSERT ON {schema}.chunks, {schema}.records, {schema}.embeddings, {schema}.commits TO {role};
    GRANT USAGE ON SEQUENCE {schema}.embedding_clock TO {role};
"""
_COLUMN_GRANTS: Final = (
    "SELECT format('GRANT UPDATE (%%s) ON %%I.%%I TO %%I', string_agg(quote_ident(a.attname), ', '), n.nspname,"
    " c.relname, %s::text) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND a.attnum > 0 AND NOT a.attisdropped"
    " AND (c.relname = 'chunks' AND a.attname NOT IN ('namespace', 'number', 'id')"
    " OR c.relname = 'records' AND a.attname IN ('value', 'version', 'number')"
    " OR c.relname = 'commits' AND a.attname IN ('number', 'at')) GROUP BY n.nspname, c.relname"
)
_NEW_COLUMN_GRANTS: Final = (
    "SELECT format('GRANT UPDATE (%%I) ON chunks TO %%I', %s::text, r.rolname)"
    " FROM pg_attribute a CROSS JOIN aclexplode(a.attacl) AS acl JOIN pg_roles r ON r.oid = acl.grantee"
    " WHERE a.attrelid = 'chunks'::regclass AND a.attname = 'content' AND acl.privilege_type = 'UPDATE'"
)
_FUNCTIONS: Final = (
    "SELECT format('REVOKE ALL ON FUNCTION %%s FROM %%I', p.oid::regprocedure, %s::text)"
    " FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = %s AND p.proname = ANY(%s)"
)
# Whoever may take on a role may do what that role may.
_FREE: Final = (
    "SELECT r.rolname, r.rolname = %(role)s, r.rolsuper, r.rolbypassrls"
    " FROM pg_roles r WHERE pg_has_role(%(role)s, r.oid, 'MEMBER') AND (r.rolsuper OR r.rolbypassrls OR r.oid ="
    " (SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %(schema)s AND c.relname = 'chunks'))"
    " ORDER BY r.rolname <> %(role)s, r.rolname LIMIT 1"
)
# What a role may besides: by a group that it is in, as everybody may, or since before it was secured. With the first it
# could lock a table; with the last put functions of its own where the statements of others look for theirs.
_BESIDES: Final = (
    "SELECT p.name || ' on table ' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " CROSS JOIN unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p (name)"
    " WHERE n.nspname = %(schema)s AND c.relname = ANY(%(tables)s) AND has_table_privilege(%(role)s, c.oid, p.name)"
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

    The owner of the tables, who calls this, keeps seeing everything. Where the role loses something, its sessions are
    ended: before, so that nothing that they hold is waited for, and after, so that none goes on with what it had.
    Raises :class:`StoreUnavailableError` for a role that is not there, that row-level security does not hold, or whose
    sessions may not be ended.
    """
    # Whoever waits for a lock on a table holds up all others; the caller tries again.
    await connection.execute("SET lock_timeout = '2s'")
    # No name of a schema in a statement with parameters: a percent sign in it would be taken for one.
    path = sql.Identifier(place.schema).as_string(connection)
    await connection.execute("SELECT set_config('search_path', %s, false)", (f"{path}, pg_temp",))
    owner = await check_owner(connection, place)
    await _check_role(connection, place, role)
    loses = await _loses(connection, place, role, namespaces)
    if loses:
        with suppress(pg.InsufficientPrivilege):  # tried again below, where it is told
            await _end_sessions(connection, await _sessions(connection, role))
    async with connection.transaction():
        await lock_schema(connection, place)
        await _revoke(connection, place, role)
        if namespaces:
            await _protect(connection, place, owner)
            await _grant(connection, place, role)
            right = await _other_right(connection, place, role)
            if right is not None:
                raise StoreUnavailableError(
                    f"{place}: {role!r} has the right {right} by a group that it is in, or because everybody has it,"
                    " and could stop others or deceive them with it; an administrator revokes it there"
                )
        await connection.execute("DELETE FROM scopes WHERE role = %s", (role,))
        await connection.execute(
            "INSERT INTO scopes (role, namespace) SELECT %s, unnest(%s::text[])",
            (role, list(dict.fromkeys(namespaces))),
        )
    if loses:
        await _end_remaining(connection, place, role)


async def grant_column(connection: Connection, column: str) -> None:
    """Let those roles write a new column of chunks that may write the others, column by column."""
    await execute_made(connection, _NEW_COLUMN_GRANTS, column)


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


async def _loses(connection: Connection, place: Place, role: str, namespaces: Sequence[str]) -> bool:
    """Say whether the role may do something now that it may not afterwards."""
    # First, and by the catalogue alone: with such a right it could hold up what reads a table.
    if not namespaces or await _other_right(connection, place, role) is not None:
        return True
    cursor = await connection.execute("SELECT namespace FROM scopes WHERE role = %s", (role,))
    return not {namespace for (namespace,) in await cursor.fetchall()} <= set(namespaces)


async def _other_right(connection: Connection, place: Place, role: str) -> str | None:
    parameters = {"schema": place.schema, "tables": _TABLES, "role": role}
    found = await (await connection.execute(_BESIDES, parameters)).fetchone()
    return None if found is None else str(found[0])


async def _sessions(connection: Connection, role: str) -> set[int]:
    return {pid for (pid,) in await (await connection.execute(_SESSIONS, (role,))).fetchall()}


async def _end_sessions(connection: Connection, sessions: set[int]) -> None:
    statement = "SELECT pg_terminate_backend(pid, %s) FROM unnest(%s::int[]) AS pid"
    await connection.execute(statement, (_END, list(sessions)))


async def _end_remaining(connection: Connection, place: Place, role: str) -> None:
    said = "they do not end"
    # These alone: what begins from here on has the new rights, however often the role connects again.
    begun_before = await _sessions(connection, role)
    try:
        await _end_sessions(connection, begun_before)
    except pg.InsufficientPrivilege as error:
        owner = sql.Identifier(connection.info.user).as_string(connection)
        said = f"{error.diag.message_primary}; an administrator runs: GRANT pg_signal_backend TO {owner};"
    if begun_before & await _sessions(connection, role):
        raise StoreUnavailableError(
            f"{place}: {role!r} has the new rights, but sessions that it began before may go on with what they are"
            f" reading: {said}"
        )


async def _revoke(connection: Connection, place: Place, role: str) -> None:
    """Take what the role was given before, also by others' statements, such as the right to empty a table."""
    schema, name = sql.Identifier(place.schema), sql.Identifier(role)
    for table in _TABLES:
        held = sql.Identifier(place.schema, table)
        await connection.execute(sql.SQL("REVOKE ALL ON TABLE {} FROM {}").format(held, name))
    await connection.execute(
        sql.SQL("REVOKE ALL ON SEQUENCE {}.embedding_clock FROM {}").format(schema, name)
    )
    functions = [each.name for each in removal.ALL]
    await execute_made(connection, _FUNCTIONS, role, place.schema, functions)


async def _grant(connection: Connection, place: Place, role: str) -> None:
    schema, name = sql.Identifier(place.schema), sql.Identifier(role)
    await connection.execute(sql.SQL(_GRANTS).format(schema=schema, role=name))
    await execute_made(connection, _COLUMN_GRANTS, role, place.schema)
    for each in removal.ALL:
        await connection.execute(
            sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(each.signature(place.schema), name)
        )


async def _protect(connection: Connection, place: Place, owner: str) -> None:
    """Make what holds secured roles, unless it is there: those who work with the tables would wait for this."""
    schema = sql.Identifier(place.schema)
    cursor = await connection.execute(_SECURED, (place.schema,))
    there = {table for (table,) in await cursor.fetchall()}
    for table, (form, condition) in _POLICIES.items():
        if table not in there:
            policy = sql.SQL(
                "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; DROP POLICY IF EXISTS own ON {table};"
                f" CREATE POLICY own ON {{table}} {form}"
            )
            own = sql.SQL(condition).format(schema=schema)
            await connection.execute(policy.format(table=sql.Identifier(place.schema, table), own=own))
    await forget_statistics(connection, place.schema)
    for each in removal.ALL:
        await connection.execute(each.function(place.schema))
        await connection.execute(
            sql.SQL("ALTER FUNCTION {} OWNER TO {}").format(
                each.signature(place.schema), sql.Identifier(owner)
            )
        )
