"""Row-level security: roles that see and write their own namespaces alone, whatever statement they send."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from psycopg import AsyncConnection, sql
from psycopg import errors as pg

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres import removal
from vectorstores.postgres.rights import TABLES, least_grants
from vectorstores.postgres.schema import check_owner, keep_no_statistics, lock_schema

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place

# Whoever may take on a role may do what that role may.
_FREE: Final = (
    "SELECT r.rolname, r.rolname = %(role)s, r.rolsuper, r.rolbypassrls"
    " FROM pg_roles r WHERE pg_has_role(%(role)s, r.oid, 'MEMBER') AND (r.rolsuper OR r.rolbypassrls OR r.oid ="
    " (SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %(schema)s AND c.relname = 'chunks'))"
    " ORDER BY r.rolname <> %(role)s, r.rolname LIMIT 1"
)


# Which policies there are; a change of theirs needs another name.
_POLICIES: Final = (
    "SELECT c.relname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid ="
    " c.relnamespace WHERE n.nspname = %s AND p.polname = 'own' AND c.relrowsecurity"
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
_FUNCTIONS: Final = (
    "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname = %s AND p.proname = ANY(%s)"
)
_SESSIONS: Final = (
    "FROM pg_stat_activity WHERE usename = %s AND datname = current_database() AND pid <> pg_backend_pid()"
)
# How long a session is given to end.
_END: Final = 5000


async def secure(
    connection: AsyncConnection[Any], place: Place, role: str, namespaces: Sequence[str]
) -> None:
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
            await _end_sessions(connection, role)
    async with connection.transaction():
        await lock_schema(connection, place)
        await _take_rights(connection, place, role)
        if namespaces:
            await _prepare(connection, place, owner)
            for statement in await least_grants(connection, place.schema, role):
                await connection.execute(statement)
            await _check_rights(connection, place, role)
        await connection.execute("DELETE FROM scopes WHERE role = %s", (role,))
        for namespace in dict.fromkeys(namespaces):
            await connection.execute(
                "INSERT INTO scopes (role, namespace) VALUES (%s, %s)", (role, namespace)
            )
    if loses:
        await _end_remaining(connection, place, role)


async def _loses(
    connection: AsyncConnection[Any], place: Place, role: str, namespaces: Sequence[str]
) -> bool:
    """Say whether the role may do something now that it may not afterwards."""
    # First, and by the catalogue alone: with such a right it could hold up what reads a table.
    if not namespaces or await _besides(connection, place, role) is not None:
        return True
    cursor = await connection.execute("SELECT namespace FROM scopes WHERE role = %s", (role,))
    return not {namespace for (namespace,) in await cursor.fetchall()} <= set(namespaces)


async def _besides(connection: AsyncConnection[Any], place: Place, role: str) -> str | None:
    parameters = {"schema": place.schema, "tables": list(TABLES), "role": role}
    found = await (await connection.execute(_BESIDES, parameters)).fetchone()
    return None if found is None else str(found[0])


async def _end_sessions(connection: AsyncConnection[Any], role: str) -> None:
    await connection.execute(f"SELECT pg_terminate_backend(pid, {_END}) {_SESSIONS}", (role,))


async def _end_remaining(connection: AsyncConnection[Any], place: Place, role: str) -> None:
    said = "they do not end"
    try:
        await _end_sessions(connection, role)
    except pg.InsufficientPrivilege as error:
        owner = sql.Identifier(connection.info.user).as_string(connection)
        said = f"{error.diag.message_primary}; an administrator runs: GRANT pg_signal_backend TO {owner};"
    cursor = await connection.execute(f"SELECT count(*) {_SESSIONS}", (role,))
    found = await cursor.fetchone()
    if found != (0,):
        raise StoreUnavailableError(
            f"{place}: {role!r} has the new rights, but sessions that it began before may go on with what they are"
            f" reading: {said}"
        )


async def _take_rights(connection: AsyncConnection[Any], place: Place, role: str) -> None:
    """Take what the role was given before, also by others' statements, such as the right to empty a table."""
    schema, name = sql.Identifier(place.schema), sql.Identifier(role)
    found = await connection.execute(_FUNCTIONS, (place.schema, [each.name for each in removal.ALL]))
    held = [sql.SQL("TABLE {}.{}").format(schema, sql.Identifier(table)) for table in TABLES]
    held += [sql.SQL("SEQUENCE {}.embedding_clock").format(schema)]
    held += [sql.SQL("FUNCTION ") + sql.SQL(function) for (function,) in await found.fetchall()]
    for each in held:
        await connection.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(each, name))


async def _prepare(connection: AsyncConnection[Any], place: Place, owner: str) -> None:
    """Make what holds secured roles, unless it is there: those who work with the tables would wait for this."""
    schema = sql.Identifier(place.schema)
    own = sql.SQL("namespace IN (SELECT s.namespace FROM {}.scopes s WHERE s.role = current_user)").format(
        schema
    )
    policies = {
        "chunks": own,
        "records": own,
        "embeddings": sql.SQL("owner = current_user"),
        # To be read alone: whatever rights it is given besides, a role can't write itself into another's namespace.
        "scopes": sql.SQL("role = current_user"),
    }
    cursor = await connection.execute(_POLICIES, (place.schema,))
    there = {table for (table,) in await cursor.fetchall()}
    for table, condition in policies.items():
        if table not in there:
            for statement in _policy(schema, table, condition, read_only=table == "scopes"):
                await connection.execute(statement)
    await keep_no_statistics(connection, place.schema)
    for each in removal.ALL:
        await connection.execute(each.function(place.schema))
        await connection.execute(
            sql.SQL("ALTER FUNCTION {} OWNER TO {}").format(
                each.signature(place.schema), sql.Identifier(owner)
            )
        )


async def _check_rights(connection: AsyncConnection[Any], place: Place, role: str) -> None:
    right = await _besides(connection, place, role)
    if right is not None:
        raise StoreUnavailableError(
            f"{place}: {role!r} has the right {right} by a group that it is in, or because everybody has it, and could"
            " stop others or deceive them with it; an administrator revokes it there"
        )


async def _check_role(connection: AsyncConnection[Any], place: Place, role: str) -> None:
    cursor = await connection.execute("SELECT count(*) FROM pg_roles WHERE rolname = %s", (role,))
    if await cursor.fetchone() == (0,):
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


def _policy(
    schema: sql.Identifier, table: str, condition: sql.Composable, *, read_only: bool = False
) -> list[sql.Composed]:
    name = sql.SQL("{}.{}").format(schema, sql.Identifier(table))
    form = "FOR SELECT USING ({})" if read_only else "USING ({0}) WITH CHECK ({0})"
    return [
        sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(name),
        sql.SQL("DROP POLICY IF EXISTS own ON {}").format(name),
        sql.SQL("CREATE POLICY own ON {} ").format(name) + sql.SQL(form).format(condition),
    ]
