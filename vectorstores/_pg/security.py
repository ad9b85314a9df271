"""Row-level security: roles that see and write their own namespaces alone, whatever statement they send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection, sql

from vectorstores._pg.rights import grants
from vectorstores._pg.schema import lock_schema

if TYPE_CHECKING:
    from vectorstores._pg.address import Place


async def secure(
    connection: AsyncConnection[Any], place: Place, role: str, namespaces: Sequence[str]
) -> None:
    """Turn row-level security on and let ``role`` work in exactly these namespaces.

    The owner of the tables, who calls this, keeps seeing everything.
    """
    schema = sql.Identifier(place.schema)
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
    statements += _policy(schema, "scopes", sql.SQL("role = current_user"))
    statements += grants(place.schema, role)
    async with connection.transaction():
        await lock_schema(connection, place)
        for statement in statements:
            await connection.execute(statement)
        await connection.execute(sql.SQL("DELETE FROM {}.scopes WHERE role = %s").format(schema), (role,))
        for namespace in dict.fromkeys(namespaces):
            await connection.execute(
                sql.SQL("INSERT INTO {}.scopes (role, namespace) VALUES (%s, %s)").format(schema),
                (role, namespace),
            )


def _policy(schema: sql.Identifier, table: str, condition: sql.Composable) -> list[sql.Composed]:
    name = sql.SQL("{}.{}").format(schema, sql.Identifier(table))
    return [
        sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(name),
        sql.SQL("DROP POLICY IF EXISTS own ON {}").format(name),
        sql.SQL("CREATE POLICY own ON {} USING ({}) WITH CHECK ({})").format(name, condition, condition),
    ]
