"""Row-level security: roles that see and write their own namespaces alone, whatever statement they send."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from psycopg import errors as pg
from psycopg import sql

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres.schema import check_owner, execute_made, forget_statistics, lock_schema

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
# The least that work. Who may DELETE from a table, or UPDATE all of it, may LOCK it as well, and so stop everybody. So
# a role updates the columns that are written of a row that is there, and deletes by functions.
_GRANTS: Final = """
    GRANT USAGE ON SCHEMA {schema} TO {role};
    GRANT SELECT ON {schema}.meta, {schema}.scopes TO {role};
    GRANT SELECT, INSERT ON {schema}.chunks, {schema}.records, {schema}.commits TO {role};
    GRANT UPDATE (content) ON {schema}.chunks TO {role};
    GRANT UPDATE (number, value, version) ON {schema}.records TO {role};
    GRANT UPDATE (number, at) ON {schema}.commits TO {role};
    GRANT EXECUTE ON FUNCTION {schema}.remove_chunks, {schema}.remove_records, {schema}.remove_commits TO {role};
"""
# Who may update one column of chunks may update all but those by which a row is known.
_COLUMN_GRANTS: Final = (
    "SELECT format('GRANT UPDATE (%%s) ON %%I.chunks TO %%I', string_agg(quote_ident(a.attname), ', '), n.nspname,"
    " held.rolname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_attribute a ON a.attrelid = c.oid CROSS JOIN LATERAL"
    " (SELECT DISTINCT r.rolname FROM pg_attribute content CROSS JOIN aclexplode(content.attacl) AS acl"
    " JOIN pg_roles r ON r.oid = acl.grantee WHERE content.attrelid = c.oid AND content.attname = 'content'"
    " AND acl.privilege_type = 'UPDATE') AS held"
    " WHERE n.nspname = %s AND c.relname = 'chunks' AND a.attnum > 0 AND NOT a.attisdropped"
    " AND a.attname NOT IN ('namespace', 'number', 'id') GROUP BY n.nspname, held.rolname"
)
# By these a secured role deletes. Inside of them current_user is the owner, so they look up who calls, and what that
# role may: of others' rows not even the locks are taken. Nobody can say that they are another than these two.
_CALLER: Final = sql.SQL(
    "(CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END)"
)
_SCOPE: Final = sql.SQL("(SELECT s.namespace FROM scopes s WHERE s.role = {} AND s.namespace = $1)").format(
    _CALLER
)
# As the statements of vectorstores.postgres.chunks and pool do. Of notes its own alone: who holds another's in an open
# transaction holds up that program's next write.
_FUNCTIONS: Final = """
    CREATE OR REPLACE FUNCTION {schema}.remove_chunks(text, text[]) RETURNS SETOF text
        LANGUAGE sql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
        WITH gone AS MATERIALIZED (SELECT held.number FROM unnest($2) AS wanted (id) CROSS JOIN LATERAL
            (SELECT number FROM chunks WHERE namespace = {scope} AND id = wanted.id LIMIT 1 FOR UPDATE) AS held)
        DELETE FROM chunks c USING gone WHERE c.namespace = {scope} AND c.number = gone.number RETURNING c.id $$;
    CREATE OR REPLACE FUNCTION {schema}.remove_records(text, text, text[]) RETURNS SETOF integer
        LANGUAGE sql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
        DELETE FROM records WHERE namespace = {scope} AND collection = $2 AND key = ANY($3) RETURNING 1 $$;
    CREATE OR REPLACE FUNCTION {schema}.remove_commits() RETURNS SETOF integer
        LANGUAGE sql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
        DELETE FROM commits WHERE connection IN (SELECT connection FROM commits
            WHERE owner = {caller} AND at < now() - interval '1 day' ORDER BY connection FOR UPDATE SKIP LOCKED)
        RETURNING 1 $$;
    ALTER FUNCTION {schema}.remove_chunks OWNER TO {owner};
    ALTER FUNCTION {schema}.remove_records OWNER TO {owner};
    ALTER FUNCTION {schema}.remove_commits OWNER TO {owner};
    REVOKE ALL ON FUNCTION {schema}.remove_chunks, {schema}.remove_records, {schema}.remove_commits FROM PUBLIC;
"""
_REVOKE_FUNCTIONS: Final = (
    "SELECT format('REVOKE ALL ON FUNCTION %%s FROM %%I', p.oid::regprocedure, %s::text) FROM pg_proc p"
    " JOIN pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname = %s AND p.proname IN ('remove_chunks', 'remove_records', 'remove_commits')"
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
# could lock a table, or hold up what waits for ``meta``; with the last put functions of its own where the statements of
# others look for theirs.
_BESIDES: Final = (
    "SELECT p.name || ' on table ' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_roles r ON pg_has_role(%(role)s, r.oid, 'MEMBER')"
    " CROSS JOIN unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'INSERT']"
    " || CASE WHEN current_setting('server_version_num')::int >= 170000 THEN ARRAY['MAINTAIN'] END) AS p (name)"
    " WHERE n.nspname = %(schema)s AND c.relname = ANY(%(tables)s) AND has_table_privilege(r.oid, c.oid, p.name)"
    " AND (p.name <> 'INSERT' OR c.relname IN ('meta', 'scopes'))"
    " UNION ALL SELECT 'CREATE on schema ' || n.nspname FROM pg_namespace n"
    " JOIN pg_roles r ON pg_has_role(%(role)s, r.oid, 'MEMBER') WHERE (n.nspname = %(schema)s"
    " OR n.oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'vector'))"
    " AND has_schema_privilege(r.oid, n.oid, 'CREATE') LIMIT 1"
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
            await _end_sessions(connection, role)
    async with connection.transaction():
        await lock_schema(connection, place)
        await _revoke(connection, place, role)
        if namespaces:
            await _protect(connection, place, owner)
            schema, name = sql.Identifier(place.schema), sql.Identifier(role)
            await connection.execute(sql.SQL(_GRANTS).format(schema=schema, role=name))
            await grant_columns(connection, place)
            right = await _right_besides(connection, place, role)
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
        said = "they do not end"
        try:
            ended = await _end_sessions(connection, role)
        except pg.InsufficientPrivilege as error:
            ended = False
            user = sql.Identifier(connection.info.user).as_string(connection)
            said = f"{error.diag.message_primary}; an administrator runs: GRANT pg_signal_backend TO {user};"
        if not ended:
            raise StoreUnavailableError(
                f"{place}: {role!r} has the new rights, but sessions that it began before may go on with what they are"
                f" reading: {said}"
            )


async def grant_columns(connection: Connection, place: Place) -> None:
    """Let secured roles write all columns of chunks that are written of a row that is there, also new ones."""
    await execute_made(connection, _COLUMN_GRANTS, place.schema)


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
    if not namespaces or await _right_besides(connection, place, role) is not None:
        return True
    cursor = await connection.execute("SELECT namespace FROM scopes WHERE role = %s", (role,))
    return not {namespace for (namespace,) in await cursor.fetchall()} <= set(namespaces)


async def _right_besides(connection: Connection, place: Place, role: str) -> str | None:
    parameters = {"schema": place.schema, "tables": _TABLES, "role": role}
    found = await (await connection.execute(_BESIDES, parameters)).fetchone()
    return None if found is None else str(found[0])


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
    schema, name = sql.Identifier(place.schema), sql.Identifier(role)
    for table in _TABLES:
        held = sql.Identifier(place.schema, table)
        await connection.execute(sql.SQL("REVOKE ALL ON TABLE {} FROM {}").format(held, name))
    await execute_made(connection, _REVOKE_FUNCTIONS, role, place.schema)
    # Who finds a table by its name may wait for a lock on it, even one that is refused in the end.
    await connection.execute(sql.SQL("REVOKE ALL ON SCHEMA {} FROM {}").format(schema, name))


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
    functions = sql.SQL(_FUNCTIONS).format(
        schema=schema, owner=sql.Identifier(owner), caller=_CALLER, scope=_SCOPE
    )
    await connection.execute(functions)
