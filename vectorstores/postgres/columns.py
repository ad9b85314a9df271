"""The vectors' column and its index. Their names carry the generation: a re-embedded store gets new ones."""

from __future__ import annotations

from typing import Final

from psycopg import sql

# pgvector holds so many components, and indexes so many: as vector, and as halfvec.
MAX_DIM: Final = 16_000
MAX_INDEXED_DIM: Final = 2000
MAX_HALF_DIM: Final = 4000
# Vectors up to this dimension stay in the row: a page holds it, and a search does not gather them from elsewhere.
INLINE_DIM: Final = 1024
# Bytes of a page that the vectors of one row may take, so that the rest of the row has room beside them.
_PAGE: Final = 6000


def column_name(generation: int) -> str:
    """Return the name of a column of vectors."""
    return f"vector_{generation}"


def index_name(generation: int) -> str:
    """Return the name of the index over a column of vectors."""
    return f"chunks_by_vector_{generation}"


def add_column(generation: int, dim: int, *, beside: int = 0) -> list[sql.Composed]:
    """Return the statements that add a column; for a while it stands beside one of ``beside`` components."""
    column = sql.Identifier(column_name(generation))
    statements = [
        sql.SQL("ALTER TABLE chunks ADD COLUMN {} vector({})").format(column, sql.Literal(dim)),
        sql.SQL("ALTER TABLE chunks ALTER COLUMN {} SET STATISTICS 0").format(column),
    ]
    if dim <= INLINE_DIM:
        # MAIN goes elsewhere only where the row would not fit into a page: two long vectors don't.
        fits = 4 * (dim + (beside if beside <= INLINE_DIM else 0)) <= _PAGE
        statements.append(store_column(generation, "PLAIN" if fits else "MAIN"))
    return statements


def store_column(generation: int, storage: str) -> sql.Composed:
    """Return the statement that says where the vectors of rows written from now on lie."""
    column = sql.Identifier(column_name(generation))
    return sql.SQL("ALTER TABLE chunks ALTER COLUMN {} SET STORAGE {}").format(column, sql.SQL(storage))


def require_vector(generation: int) -> sql.Composed:
    """Return the statement that has the table refuse rows without a vector from now on.

    Of those that are there none is looked at: the table is locked for this.
    """
    column = column_name(generation)
    return sql.SQL("ALTER TABLE chunks ADD CONSTRAINT {} CHECK ({} IS NOT NULL) NOT VALID").format(
        sql.Identifier(f"{column}_is_there"), sql.Identifier(column)
    )


def add_index(generation: int, dim: int, *, concurrently: bool = False) -> sql.Composed | None:
    """Return the statement that makes the index, None where there can be none."""
    if dim > MAX_HALF_DIM:
        return None
    column = sql.Identifier(column_name(generation))
    over = (
        sql.SQL("{} vector_ip_ops").format(column)
        if dim <= MAX_INDEXED_DIM
        else sql.SQL("({}::halfvec({})) halfvec_ip_ops").format(column, sql.Literal(dim))
    )
    return sql.SQL("CREATE INDEX {} {} ON chunks USING hnsw ({})").format(
        sql.SQL("CONCURRENTLY" if concurrently else ""), sql.Identifier(index_name(generation)), over
    )
