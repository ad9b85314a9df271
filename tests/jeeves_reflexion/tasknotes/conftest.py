"""Stores of every kind."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jeeves_reflexion.tasknotes import (
    InMemoryReflectionStore,
    SqliteReflectionStore,
    VersionedReflectionStore,
)
from vectorstores import HashingEmbedder, open_store


@pytest.fixture(params=["memory", "sqlite", "lesson-store", "postgres"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[VersionedReflectionStore]:
    """A store of each kind, empty."""
    made: VersionedReflectionStore
    match request.param:
        case "memory":
            made = InMemoryReflectionStore()
        case "sqlite":
            made = SqliteReflectionStore(tmp_path / "notes.sqlite3")
        case "lesson-store":
            made = VersionedReflectionStore(
                open_store(tmp_path / "lessons", embedder=HashingEmbedder(), namespace="tests")
            )
        case _:
            if anyio_backend == "trio":
                pytest.skip("psycopg runs on asyncio only")
            from jeeves_reflexion.loop.note_address import PostgresReflectionStore

            database = request.getfixturevalue("postgres_database")
            made = PostgresReflectionStore(f"{database}&schema=s{uuid.uuid4().hex}", namespace="tests")
    async with made:
        yield made
