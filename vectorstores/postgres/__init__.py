"""Stores in PostgreSQL with pgvector. Start with :class:`PostgresVectorStore`.

A read takes a connection from the pool, runs its statement and gives it back; a write is one transaction. The driver is
loaded when a store is made.
"""

from vectorstores.postgres.address import PostgresOptions
from vectorstores.postgres.store import PostgresVectorStore

__all__ = ["PostgresOptions", "PostgresVectorStore"]
