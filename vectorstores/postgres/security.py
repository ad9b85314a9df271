"""Row-level security: a secured role sees and writes only its own namespaces, whatever statement it sends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from psycopg import errors as pg
from psycopg import sql

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres.schema import check_owner

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place
    from vectorstores.postgres.connection import Connection

# The policy ``own`` of each table. ``scopes`` can only be read: whatever other rights a role gets, it can't give itself
# a namespace.
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
# The least rights that work. A role that may DELETE from a table, or UPDATE all its columns, may also LOCK it and so
# stop everybody. So a role updates only the columns that change in an existing row, and deletes by functions.
_GRANTS: Final = """
    GRANT USAGE ON SCHEMA {schema} TO {role};
    GRANT SELECT ON {schema}.meta, {schema}.scopes TO {role};
    GRANT SELECT, INSERT ON {schema}.chunks, {schema}.records TO {role};
    GRANT UPDATE (content) ON {schema}.chunks TO {role};
    GRANT UPDATE (value, version) ON {schema}.records TO {role};
    GRANT EXECUTE ON FUNCTION {schema}.remove_chunks, {schema}.remove_records TO {role};
"""
# The statements that let a role which may update one column of chunks update all, also new ones, except those that
# identify a row.
COLUMN_GRANTS: Final = (
    "SELECT format('GRANT UPDATE (%%s) ON %%I.chunks TO %%I', string_agg(quote_ident(a.attname), ', '), n.nspname,"
    " held.rolname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_attribute a ON a.attrelid = c.oid CROSS JOIN LATERAL"
    " (SELECT DISTINCT r.rolname FROM pg_attribute content CROSS JOIN aclexplode(content.attacl) AS acl"
    " JOIN pg_roles r ON r.oid = acl.grantee WHERE content.attrelid = c.oid AND content.attname = 'content'"
    " AND acl.privilege_type = 'UPDATE') AS held"
    " WHERE n.nspname = %s AND c.relname = 'chunks' AND a.attnum > 0 AND NOT a.attisdropped"
    " AND a.attname NOT IN ('namespace', 'number', 'id') GROUP BY n.nspname, held.rolname"
)
# The functions by which a secured role deletes, with the statements of vectorstores.postgres.chunks. Inside them
# current_user is the owner, so they look up the caller's namespaces by session_user and role, which a caller can't
# forge. They don't even lock rows of others.
_SCOPE: Final = (
    "(SELECT s.namespace FROM scopes s WHERE s.namespace = $1 AND s.role ="
    " CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END)"
)
_FUNCTIONS: Final = """
    CREATE OR REPLACE FUNCTION {schema}.remove_chunks(text, text[]) RETURNS SETOF integer
        LANGUAGE sql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
        WITH gone AS MATERIALIZED (SELECT held.number FROM unnest($2) AS wanted (id) CROSS JOIN LATERAL
            (SELECT number FROM chunks WHERE namespace = {scope} AND id = wanted.id LIMIT 1 FOR UPDATE) AS held)
        DELETE FROM chunks c USING gone WHERE c.namespace = {scope} AND c.number = gone.number RETURNING 1 $$;
    CREATE OR REPLACE FUNCTION {schema}.remove_records(text, text, text[]) RETURNS SETOF integer
        LANGUAGE sql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
        DELETE FROM records WHERE namespace = {scope} AND collection = $2 AND key = ANY($3) RETURNING 1 $$;
    ALTER FUNCTION {schema}.remove_chunks OWNER TO {owner};
    ALTER FUNCTION {schema}.remove_records OWNER TO {owner};
    REVOKE ALL ON FUNCTION {schema}.remove_chunks, {schema}.remove_records FROM PUBLIC;
"""
_REVOKE_FUNCTIONS: Final = (
    "SELECT format('REVOKE ALL ON FUNCTION %%s FROM %%I', p.oid::regprocedure, %s::text) FROM pg_proc p"
    " JOIN pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname = %s AND p.proname IN ('remove_chunks', 'remove_records')"
)
# Finds out whether a role, or one that it may take on, escapes the policies. They don't bind superusers, BYPASSRLS and
# the owner; TRUNCATE ignores them; most rights on a table include the right to lock it; only the owner may write
# ``meta``; and with CREATE the role could put functions where the statements of others look them up.
_FREE: Final = """
    SELECT r.rolname, CASE WHEN r.rolsuper THEN 'is a superuser' WHEN r.rolbypassrls THEN 'has BYPASSRLS'
            WHEN r.oid = chunks.relowner THEN 'owns the tables'
            ELSE 'has rights beyond those of rows on the tables or CREATE beside them' END
        FROM pg_roles r, pg_class chunks JOIN pg_namespace n ON n.oid = chunks.relnamespace
        WHERE n.nspname = %(schema)s AND chunks.relname = 'chunks' AND pg_has_role(%(role)s, r.oid, 'MEMBER')
        AND (r.rolsuper OR r.rolbypassrls OR r.oid = chunks.relowner
            OR EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'r'
                AND (has_table_privilege(r.oid, c.oid, 'UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER' ||
                        CASE WHEN current_setting('server_version_num')::int >= 170000 THEN ', MAINTAIN' ELSE '' END)
                    OR c.relname IN ('meta', 'scopes') AND has_table_privilege(r.oid, c.oid, 'INSERT')))
            OR EXISTS (SELECT FROM pg_namespace used WHERE has_schema_privilege(r.oid, used.oid, 'CREATE') AND
                (used.oid = n.oid OR used.oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'vector'))))
        ORDER BY r.rolsuper OR r.rolbypassrls OR r.oid = chunks.relowner DESC, r.rolname <> %(role)s LIMIT 1
"""
# Whether a role may lock the tables, as roles secured by an earlier version may. Reads only the catalogue: such a lock
# could hold up a query on the tables.
_LOCKS: Final = (
    "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'"
    " AND has_table_privilege(%s, c.oid, 'UPDATE, DELETE, TRUNCATE') LIMIT 1"
)
_END_SESSIONS: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s AND datname = current_database()"
    " AND pid <> pg_backend_pid()"
)


async def secure(connection: Connection, place: Place, role: str, namespaces: Sequence[str]) -> None:
    """Turn row-level security on and let ``role`` work in exactly these namespaces; with none, take all its rights.

    The owner of the tables, who calls this, still sees everything. If the role loses something, its sessions are ended,
    so that none continues with the old rights. Raises :class:`StoreUnavailableError` for a role that does not exist,
    that row-level security does not bind, or whose sessions this role may not end.
    """
    # Whoever waits for a table lock holds up everybody who comes later, so give up soon; the caller retries.
    await connection.execute("SET lock_timeout = '2s'")
    schema, name = sql.Identifier(place.schema), sql.Identifier(role)
    await check_owner(connection, place)
    cursor = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))
    if await cursor.fetchone() is None:
        raise StoreUnavailableError(
            f"{place}: there is no role {role!r}; an administrator runs:"
            f" CREATE ROLE {name.as_string(connection)} LOGIN;"
        )
    locks = await (await connection.execute(_LOCKS, (place.schema, role))).fetchone() is not None
    if locks:
        with suppress(pg.InsufficientPrivilege):  # repeated below, where the error is reported
            await connection.execute(_END_SESSIONS, (role,))
    async with connection.transaction():
        owner = await check_owner(connection, place, lock=True)
        # Literals, since psycopg would read a percent sign in the schema's name as a parameter.
        forget = sql.SQL("DELETE FROM {}.scopes WHERE role = {} RETURNING namespace")
        cursor = await connection.execute(forget.format(schema, sql.Literal(role)))
        before = {namespace for (namespace,) in await cursor.fetchall()}
        # Also the rights that others granted.
        revoke = sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {0} FROM {1}; REVOKE ALL ON SCHEMA {0} FROM {1}")
        await connection.execute(revoke.format(schema, name))
        await execute_made(connection, _REVOKE_FUNCTIONS, role, place.schema)
        if namespaces:
            await _check_freedom(connection, place, role)
            await _protect(connection, place, owner)
            await connection.execute(sql.SQL(_GRANTS).format(schema=schema, role=name))
            await execute_made(connection, COLUMN_GRANTS, place.schema)
            scopes = sql.SQL(", ").join(
                sql.SQL("({}, {})").format(sql.Literal(role), sql.Literal(namespace))
                for namespace in dict.fromkeys(namespaces)
            )
            insert = sql.SQL("INSERT INTO {}.scopes (role, namespace) VALUES {}")
            await connection.execute(insert.format(schema, scopes))
    if before and before <= set(namespaces) and not locks:
        return
    try:
        await connection.execute(_END_SESSIONS, (role,))
    except pg.InsufficientPrivilege as error:
        end = sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = {};").format(
            sql.Literal(role)
        )
        grant = sql.SQL("GRANT pg_signal_backend TO {};").format(sql.Identifier(connection.info.user))
        raise StoreUnavailableError(
            f"{place}: {role!r} has the new rights, but a statement that runs in an older session may read to its"
            f" end: {error.diag.message_primary}; an administrator runs: {end.as_string(connection)}"
            f" {grant.as_string(connection)}"
        ) from error


async def execute_made(connection: Connection, query: str, *parameters: object) -> None:
    """Execute the statements that a query returns; the query quotes the names in them."""
    cursor = await connection.execute(query, parameters)
    for (statement,) in await cursor.fetchall():
        await connection.execute(statement.encode())


async def _check_freedom(connection: Connection, place: Place, role: str) -> None:
    cursor = await connection.execute(_FREE, {"role": role, "schema": place.schema})
    found = await cursor.fetchone()
    if found is not None:
        other, what = found
        who = f"{role!r}" if other == role else f"{role!r} is a member of {other!r}, which"
        raise StoreUnavailableError(
            f"{place}: {who} {what}, so row-level security does not hold it; name a role without such rights, also"
            " without those that everybody has, such as one of CREATE ROLE ... LOGIN NOSUPERUSER NOBYPASSRLS"
        )


async def _protect(connection: Connection, place: Place, owner: str) -> None:
    """Make the functions, and the policies that are missing: to make one again would hold up others."""
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
    schema, scope = sql.Identifier(place.schema), sql.SQL(_SCOPE)
    functions = sql.SQL(_FUNCTIONS).format(schema=schema, owner=sql.Identifier(owner), scope=scope)
    await connection.execute(functions)
