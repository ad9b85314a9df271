"""What a role needs that works with the tables of a store and does not own them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from vectorstores._pg.address import Place


TABLES: Final = ("meta", "scopes", "chunks", "records", "embeddings", "commits")


def grants(schema: str, role: str) -> list[sql.Composed]:
    """Return the statements that let a role work. It may read ``scopes``, and not write itself into it."""
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
    return f"an administrator runs in database {database}: {statements};"


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
