"""What to do about a right that is missing, by what the server said of it.

It gives one code for all; where it speaks another language, the statement for a trusted role is what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place

_GRANTS = (
    "GRANT USAGE ON SCHEMA {0} TO {1}; GRANT SELECT ON {0}.meta, {0}.scopes TO {1};"
    " GRANT SELECT, INSERT, UPDATE, DELETE ON {0}.chunks, {0}.records, {0}.embeddings, {0}.commits TO {1};"
    " GRANT USAGE ON SEQUENCE {0}.embedding_clock TO {1};"
)


def advice(said: str, place: Place) -> str:
    """Return what to do where a statement was refused."""
    if "row-level security" in said:
        return "the owner of the tables lets a role into a namespace by PostgresVectorStore.secure()"
    if "must be owner" in said:
        return "use the address of the role that owns the tables"
    role, database = _role_and_database(place)
    grants = sql.SQL(_GRANTS).format(sql.Identifier(place.schema), sql.Identifier(role)).as_string(None)
    return (
        "the owner of the tables lets a role into a namespace by PostgresVectorStore.secure(); for a role that may see"
        f" all, an administrator runs in database {database}: {grants}"
    )


def advice_on_connecting(said: str, place: Place) -> str:
    """Return what to do where a connection was refused for want of a right; "" where it was for another reason."""
    role, database = map(sql.Identifier, _role_and_database(place))
    if "permission denied for database" in said:
        statement = sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, role)
    elif "is not permitted to log in" in said:
        statement = sql.SQL("ALTER ROLE {} LOGIN").format(role)
    else:
        return ""
    return f"; an administrator runs: {statement.as_string(None)};"


def _role_and_database(place: Place) -> tuple[str, str]:
    default = {each.keyword: each.val for each in pq.Conninfo.get_defaults()}
    parts = conninfo_to_dict(place.conninfo)
    role = str(parts.get("user") or (default.get(b"user") or b"").decode())
    return role, str(parts.get("dbname") or (default.get(b"dbname") or b"").decode() or role)
