"""Row-level security: roles that see and write their own namespaces alone, whatever statement they send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from psycopg import AsyncConnection, sql

from vectorstores._pg.rights import TABLES, grants
from vectorstores._pg.schema import lock_schema
from vectorstores.base import StoreUnavailableError

if TYPE_CHECKING:
    from vectorstores._pg.address import Place

# Whoever may take on a role may do what that role may.
_FREE: Final = (
    "SELECT r.rolname, r.rolname = %(role)s, r.rolsuper, r.rolbypassrls"
    " FROM pg_roles r WHERE pg_has_role(%(role)s, r.oid, 'MEMBER') AND (r.rolsuper OR r.rolbypassrls OR r.oid ="
    " (SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %(schema)s AND c.relname = 'chunks'))"
    " ORDER BY r.rolname <> %(role)s, r.rolname LIMIT 1"
)


async def secure(
    connection: AsyncConnection[Any], place: Place, role: str, namespaces: Sequence[str]
) -> None:
    """Turn row-level security on and let ``role`` work in exactly these namespaces.

    The owner of the tables, who calls this, keeps seeing everything. Raises :class:`StoreUnavailableError` for a role
    that is not there, or that row-level security does not hold.
    """
    schema, name = sql.Identifier(place.schema), sql.Identifier(role)
    own = sql.SQL("namespace IN (SELECT s.namespace FROM {}.scopes s WHERE s.role = current_user)").format(
        schema
    )
    policies = {
        "chunks": own,
        "records": own,
        "embeddings": sql.SQL("owner = current_user"),
    }
    statements: list[sql.Composed] = []
    for table, condition in policies.items():
        statements += _policy(schema, table, condition)
    # To be read alone: whatever rights it is given besides, a role can't write itself into another's namespace.
    statements += _policy(schema, "scopes", sql.SQL("role = current_user"), read_only=True)
    # What it was given before by others' statements goes, such as the right to empty a table.
    statements += [
        sql.SQL("REVOKE ALL ON {}.{} FROM {}").format(schema, sql.Identifier(table), name) for table in TABLES
    ]
    statements += grants(place.schema, role)
    async with connection.transaction():
        # Whoever waits for a lock on a table holds up all others; the caller tries again.
        await connection.execute("SET LOCAL lock_timeout = '2s'")
        await lock_schema(connection, place)
        await _check_role(connection, place, role)
        for statement in statements:
            await connection.execute(statement)
        await _let_in(connection, place, role, namespaces)


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


async def _let_in(
    connection: AsyncConnection[Any], place: Place, role: str, namespaces: Sequence[str]
) -> None:
    # No name of a schema in a statement with parameters: a percent sign in it would be taken for one.
    path = sql.Identifier(place.schema).as_string(connection)
    await connection.execute("SELECT set_config('search_path', %s, true)", (f"{path}, pg_temp",))
    await connection.execute("DELETE FROM scopes WHERE role = %s", (role,))
    for namespace in dict.fromkeys(namespaces):
        await connection.execute("INSERT INTO scopes (role, namespace) VALUES (%s, %s)", (role, namespace))


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
