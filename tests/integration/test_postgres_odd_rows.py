"""Rows that a secured role writes by SQL of its own, met by the lessons above the store."""

import pytest

from jeeves_reflexion import LessonStoreError, Provenance, Reflection, Task
from jeeves_reflexion.lessons import VectorLessonStore

psycopg = pytest.importorskip("psycopg")
from postgres_parts import store_at  # noqa: E402


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize("metadata", ["[1]", "3", "null"])
async def test_a_recall_that_meets_metadata_that_is_none_names_the_chunk(postgres_database, metadata):
    async with store_at(postgres_database) as store:
        lessons = VectorLessonStore(store)
        await lessons.record(
            Task("find the pen"), Reflection("Look in the drawer first."), provenance=Provenance("r", 1, 0.0)
        )
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO vectorstores.chunks (namespace, id, content, embed_text, metadata, facts, vector_1)"
                " SELECT namespace, 'odd' || number, content, embed_text, %s, facts, vector_1 FROM vectorstores.chunks",
                (metadata,),
            )
        with pytest.raises(
            LessonStoreError, match=r"metadata of the chunk 'odd.' is damaged: it is not a JSON object"
        ):
            await lessons.recall(Task("find the pen"), k=3)
