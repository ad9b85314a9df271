"""What a role needs that works with the tables of a store and does not own them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg import AsyncConnection, pq, sql
from psycopg.conninfo import conninfo_to_dict

from vectorstores.postgres import removal

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place


TABLES: Final = ("meta", "scopes", "chunks", "records", "embeddings", "commits")


# What is written of a row that is there. Who may UPDATE a whole table, or DELETE from it, may LOCK it as well.
_COLUMNS: Final = (
    "SELECT c.relname, array_agg(a.attname::text) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND a.attnum > 0 AND NOT a.attisdropped"
    " AND (c.relname = 'chunks' AND a.attname NOT IN ('namespace', 'number', 'id')"
    " OR c.relname = 'records' AND a.attname IN ('value', 'version', 'number')"
    " OR c.relname = 'commits' AND a.attname IN ('number', 'at')) GROUP BY c.relname ORDER BY c.relname"
)
_UPDATERS: Final = (
    "SELECT r.rolname FROM pg_attribute a CROSS JOIN aclexplode(a.attacl) AS acl JOIN pg_roles r ON r.oid = acl.grantee"
    " WHERE a.attrelid = 'chunks'::regclass AND a.attname = 'content' AND acl.privilege_type = 'UPDATE'"
)


async def least_grants(connection: AsyncConnection[Any], schema: str, role: str) -> list[sql.Composed]:
    """Return the statements that let a secured role work, with no right by which it could stop others."""
    place, name = sql.Identifier(schema), sql.Identifier(role)
    columns = await (await connection.execute(_COLUMNS, (schema,))).fetchall()
    return [
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(place, name),
        sql.SQL("GRANT SELECT ON {0}.meta, {0}.scopes TO {1}").format(place, name),
        sql.SQL("GRANT SELECT, INSERT ON {0}.chunks, {0}.records, {0}.embeddings, {0}.commits TO {1}").format(
            place, name
        ),
        *(
            sql.SQL("GRANT UPDATE ({}) ON {} TO {}").format(
                sql.SQL(", ").join(map(sql.Identifier, each)), sql.Identifier(schema, table), name
            )
            for table, each in columns
        ),
        *(
            sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(each.signature(schema), name)
            for each in removal.ALL
        ),
        sql.SQL("GRANT USAGE ON SEQUENCE {}.embedding_clock TO {}").format(place, name),
    ]


async def grant_column(connection: AsyncConnection[Any], column: str) -> None:
    """Let those roles write a new column of chunks that may write the others, column by column."""
    for (role,) in await (await connection.execute(_UPDATERS)).fetchall():
        await connection.execute(
            sql.SQL("GRANT UPDATE ({}) ON chunks TO {}").format(sql.Identifier(column), sql.Identifier(role))
        )


def grants(schema: str, role: str) -> list[sql.Composed]:
    """Return the statements that let a trusted role work, which may see all."""
    place, name = sql.Identifier(schema), sql.Identifier(role)
    return [
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(place, name),
        sql.SQL("GRANT SELECT ON {}.meta, {}.scopes TO {}").format(place, place, name),
        *(
            sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {}.{} TO {}").format(
                place, sql.Identifier(table), name
            )
            for table in TABLES[2:]
        ),
        sql.SQL("GRANT USAGE ON SEQUENCE {}.embedding_clock TO {}").format(place, name),
    ]


def advice(said: str, place: Place) -> str:
    """Return what to do about a right that is missing, by what the server said of it."""
    # It gives one code for all three. Where it speaks another language, the statement is what is left.
    if "row-level security" in said:
        return "the owner of the tables lets a role into a namespace by PostgresVectorStore.secure()"
    if "must be owner" in said:
        return "use the address of the role that owns the tables"
    role, database = _who_and_where(place)
    statements = "; ".join(each.as_string(None) for each in grants(place.schema, role))
    return (
        "the owner of the tables lets a role into a namespace by PostgresVectorStore.secure(); for a role that may see"
        f" all, an administrator runs in database {database}: {statements};"
    )


def advice_at_the_door(said: str, place: Place) -> str:
    """Return what to do about a right to connect that is missing, by what the server said; "" where it is not that."""
    role, database = _who_and_where(place)
    if "permission denied for database" in said:
        statement = sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(
            sql.Identifier(database), sql.Identifier(role)
        )
    elif "is not permitted to log in" in said:
        statement = sql.SQL("ALTER ROLE {} LOGIN").format(sql.Identifier(role))
    else:
        return ""
    return f"; an administrator runs: {statement.as_string(None)};"


def _who_and_where(place: Place) -> tuple[str, str]:
    default = {each.keyword: each.val for each in pq.Conninfo.get_defaults()}
    parts = conninfo_to_dict(place.conninfo)
    role = str(parts.get("user") or (default.get(b"user") or b"").decode())
    return role, str(parts.get("dbname") or (default.get(b"dbname") or b"").decode() or role)
