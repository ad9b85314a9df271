"""What a lesson weighs in PostgreSQL: ``python -m benchmarks.vectorstores.sizes postgresql://…/scratch --rows 100000``.

Loads typical lessons into a schema of its own, which is dropped at the end, and prints the bytes of the table, of what
lies beside it and of each index, as Markdown.
"""

from __future__ import annotations

import argparse
import time
import uuid
from typing import Final

import anyio
import psycopg
from psycopg import sql

from benchmarks.vectorstores.vectors import DIM, clustered
from vectorstores import AbsentEmbedder, Origin, PostgresVectorStore

_PARTS: Final = """
    SELECT 'table, without what is stored apart' AS part, pg_relation_size(c.oid) AS bytes FROM pg_class c
    WHERE c.oid = %(table)s::regclass
    UNION ALL
    SELECT 'stored apart (TOAST)', pg_total_relation_size(c.reltoastrelid) FROM pg_class c
    WHERE c.oid = %(table)s::regclass
    UNION ALL
    SELECT i.indexrelid::regclass::text, pg_relation_size(i.indexrelid) FROM pg_index i
    WHERE i.indrelid = %(table)s::regclass
    UNION ALL
    SELECT 'all', pg_total_relation_size(%(table)s::regclass)
    ORDER BY bytes DESC
"""


async def load(conninfo: str, schema: str, rows: int) -> float:
    """Store lessons and return the seconds that it took."""
    corpus = clustered(rows, 1)
    embedder = AbsentEmbedder(Origin("sizes", "none", DIM))
    began = time.perf_counter()
    async with PostgresVectorStore(conninfo, embedder=embedder, namespace="sizes", schema=schema) as store:
        for batch in corpus.batches(0, rows):
            await store.add(batch)
    return time.perf_counter() - began


def table(conninfo: str, schema: str, rows: int) -> str:
    """Return the sizes as a Markdown table."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        found = connection.execute(_PARTS, {"table": f'"{schema}".chunks'}).fetchall()
    lines = ["| part | MB | bytes a lesson |", "| --- | ---: | ---: |"]
    lines += [
        f"| {part.rpartition('.')[2]} | {size / 1e6:,.1f} | {size / rows:,.0f} |" for part, size in found
    ]
    return "\n".join(lines)


def main() -> None:
    """Load, measure, drop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("conninfo")
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    schema = f"sizes_{uuid.uuid4().hex[:8]}"
    try:
        seconds = anyio.run(load, options.conninfo, schema, options.rows)
        print(f"{options.rows:,} lessons, dim {DIM}, loaded in {seconds:.0f} s with every index\n")
        print(table(options.conninfo, schema, options.rows))
    finally:
        with psycopg.connect(options.conninfo, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


if __name__ == "__main__":
    main()
