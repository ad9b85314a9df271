"""How rows are deleted: by DELETE, or by functions of the tables' owner where a role may not.

Whoever may DELETE from a table, or UPDATE all of it, may also LOCK it, and so stop everybody. So a secured role may do
neither: it updates the columns that it writes, and deletes by these functions, which look up what it may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

if TYPE_CHECKING:
    from vectorstores.postgres.session import About

# Inside of such a function current_user is the owner. A role can't say that it is another than these two.
_CALLER: Final = (
    "CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END"
)
# The namespace if the role may work in it, else NULL, which no row has: of others' not even the rows are locked.
_SCOPE: Final = f"(SELECT s.namespace FROM scopes s WHERE s.role = {_CALLER} AND s.namespace = $1)"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Removal:
    """A statement that deletes, as a role with the right to DELETE sends it and as a function.

    ``body`` has ``{0}``, ``{1}`` … where its arguments stand, but ``{scope}`` for a namespace, which comes first, and
    ``{caller}`` for the role.
    """

    name: str
    arguments: tuple[str, ...]
    returns: str
    body: str

    def statement(self, about: About) -> bytes:
        """Return the statement for this role; it takes :meth:`parameters`."""
        values = [f"%(a{number})b::{kind}" for number, kind in enumerate(self.arguments)]
        if not about.deletes:
            return f"SELECT * FROM {self.name}({', '.join(values)})".encode()  # noqa: S608 - names of ours
        return self.body.format(*values, scope="%(a0)b::text", caller="current_user").encode()

    def parameters(self, *values: str | Sequence[str | bytes]) -> dict[str, Any]:
        """Name the arguments as :meth:`statement` does."""
        return {f"a{number}": value for number, value in enumerate(values)}

    def function(self, schema: str) -> sql.Composed:
        """Return the statements that make the function, for nobody yet."""
        places = [f"${number}" for number in range(1, len(self.arguments) + 1)]
        body = self.body.format(*places, scope=_SCOPE, caller=_CALLER)
        return sql.SQL(
            "CREATE OR REPLACE FUNCTION {name} RETURNS {returns} LANGUAGE sql SECURITY DEFINER"
            " SET search_path = {schema}, pg_temp AS {body}; REVOKE ALL ON FUNCTION {name} FROM PUBLIC"
        ).format(
            name=self.signature(schema),
            returns=sql.SQL(self.returns),
            schema=sql.Identifier(schema),
            body=sql.Literal(body),
        )

    def signature(self, schema: str) -> sql.Composed:
        """Return the function's name and arguments."""
        kinds = sql.SQL(", ".join(self.arguments))
        return sql.SQL("{}({})").format(sql.Identifier(schema, self.name), kinds)


# Row by row, so that whatever the planner believes of the table, each is found by its id: PostgreSQL before 17 would
# read the whole namespace, and compare each with all of the ids. In the order of the ids, which are given sorted, so
# that two writers of the same chunks wait for each other and not in a circle.
CHUNKS: Final = Removal(
    "remove_chunks",
    ("text", "text[]"),
    "SETOF text",
    "WITH gone AS MATERIALIZED (SELECT held.number FROM unnest({1}) AS wanted (id) CROSS JOIN LATERAL"
    " (SELECT number FROM chunks WHERE namespace = {scope} AND id = wanted.id LIMIT 1 FOR UPDATE) AS held)"
    " DELETE FROM chunks c USING gone WHERE c.namespace = {scope} AND c.number = gone.number"
    " RETURNING coalesce(c.embed_text, c.content)",
)
RECORDS: Final = Removal(
    "remove_records",
    ("text", "text", "text[]"),
    "SETOF integer",
    "DELETE FROM records WHERE namespace = {scope} AND collection = {1} AND key = ANY({2}) RETURNING 1",
)
# What another writer holds, it is deleting: nobody waits for a row of a cache.
EMBEDDINGS: Final = Removal(
    "remove_embeddings",
    ("bytea[]",),
    "SETOF integer",
    "DELETE FROM embeddings WHERE owner = {caller} AND key IN (SELECT key FROM embeddings"
    " WHERE owner = {caller} AND key = ANY({0}) FOR UPDATE SKIP LOCKED) RETURNING 1",
)
# Longer than any call is tried again. Nobody asks for these any more, whosever they are.
COMMITS: Final = Removal(
    "remove_commits",
    (),
    "SETOF integer",
    "DELETE FROM commits WHERE connection IN (SELECT connection FROM commits WHERE at < now() - interval '1 day'"
    " ORDER BY connection FOR UPDATE SKIP LOCKED) RETURNING 1",
)
ALL: Final = (CHUNKS, RECORDS, EMBEDDINGS, COMMITS)
