"""What the stores of task notes hold to: versions, many writers, real files and processes, damage."""

import contextlib
import importlib.util
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from noting import noted

from jeeves_reflexion import ConfigurationError, Task
from jeeves_reflexion.tasknotes import (
    InMemoryReflectionStore,
    NoteHistory,
    ReflectionInput,
    ReflectionStoreError,
    SqliteReflectionStore,
    TaskReflection,
    VersionedReflectionStore,
    task_identity,
)
from jeeves_reflexion.tasknotes.evolution import document_of, with_reflection
from jeeves_reflexion.tasknotes.strategy import failed_reflection
from vectorstores import FaissVectorStore, HashingEmbedder

pytestmark = pytest.mark.anyio


async def test_scores_and_reflections_at_once_are_all_kept_with_their_version(store):
    await store.score("one", 0, 0.5)
    await store.commit("one", noted("one"), description="Do it.")
    await store.score("one", 1, 0.75)
    history = await store.history("one")
    assert (history.description, history.baseline) == ("Do it.", (0.5,))
    assert [version.scores for version in history.versions] == [(0.75,)]
    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(store.commit, "key", noted(f"text {number}"))
            group.start_soon(store.score, "key", 0, 1.0)
    history = await store.history("key")
    assert (history.run_count, len(history.versions), len(history.baseline)) == (6, 6, 6)


async def test_a_reflection_is_given_back_as_it_was_stored(store):
    later = datetime(2030, 1, 1, tzinfo=UTC)
    for number, (text, count) in enumerate((("a", 7), ("a", 2), ("b", 2), ("c", 3), ("c", 2))):
        given = TaskReflection(text, "e", ["o"], ["s"], later - timedelta(days=number), count)
        await store.store("key", given)
        assert await store.retrieve("key") == given
    assert (await store.commit("key", noted("one more"))).reflection.run_count == 3


async def test_what_was_taken_back_may_be_stored_again_by_hand():
    store = InMemoryReflectionStore()
    await store.commit("key", noted("one"))
    await store.rollback("key", to=0)
    assert (await store.commit("key", noted("one"))).reflection is None
    await store.store("key", noted("one"))
    assert (await store.retrieve("key")).refined_description == "one"


async def test_a_failure_that_is_stored_takes_no_good_ones_place(store):
    failed = failed_reflection(ReflectionInput(Task("Do."), "out"), "no answer")
    await store.store("key", failed)
    assert await store.retrieve("key") == failed
    await store.store("key", noted())
    await store.store("key", failed)
    assert (await store.retrieve("key")).complete


async def test_rollback_by_hand_goes_back_one_or_to_a_version(store):
    for text in ("one", "two", "three"):
        await store.store("key", noted(text))
    assert (await store.rollback("key")).current == 2
    assert (await store.rollback("key", to=0, reason="start over")).reflection is None
    assert await store.retrieve("key") is None
    assert (await store.rollback("key", to=3)).current == 3
    assert (await store.history("key")).changes[-2].reason == "start over"
    with pytest.raises(ReflectionStoreError, match="no version 9"):
        await store.rollback("key", to=9)
    with pytest.raises(ReflectionStoreError, match="no version -1"):
        await store.rollback("key", to=-1)
    for to in (None, 0):
        with pytest.raises(ReflectionStoreError, match="no notes"):
            await store.rollback("unknown", to=to)
    await store.score("unknown", 9, 1.0)  # of a version that is no longer kept
    assert await store.history("unknown") is None


async def test_list_goes_through_all_tasks_and_forget_removes_one(store):
    keys = sorted(task_identity(f"task {number}") for number in range(105))
    for key in keys:
        await store.store(key, noted())
    assert [history.identity for history in await store.list()] == keys
    assert [await store.forget(keys[0]) for _ in range(2)] == [True, False]
    assert await store.history(keys[0]) is None
    assert len(await store.list()) == 104


async def test_a_score_outside_of_its_range_is_refused():
    for score in (-0.1, 1.1, float("nan")):
        with pytest.raises(ConfigurationError, match="score"):
            await InMemoryReflectionStore().score("key", 0, score)


async def test_odd_keys_and_texts_are_kept_as_they_are(store):
    for key in ("../../etc/passwd", "Ümläut key", "a/b", "x" * 300):
        await store.store(key, noted("text \U0001f600 \u2028"))
        assert (await store.retrieve(key)).refined_description == "text \U0001f600 \u2028"


@pytest.fixture
def reopened(tmp_path):
    return lambda: SqliteReflectionStore(tmp_path / "deep" / "notes.sqlite3")


async def test_another_object_reads_what_was_written_for_its_user_alone(reopened, tmp_path):
    await reopened().store("key", noted("kept"))
    assert (await reopened().retrieve("key")).refined_description == "kept"
    for path in tmp_path.rglob("*"):
        if path.suffix == ".sqlite3":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0


async def test_reading_and_changing_nothing_make_no_files(reopened, tmp_path):
    assert await reopened().retrieve("key") is None
    assert await reopened().list() == ()
    assert await reopened().forget("key") is False
    await reopened().score("key", 9, 1.0)
    with pytest.raises(ReflectionStoreError, match="no notes"):
        await reopened().rollback("key")
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys, anyio
from jeeves_reflexion.loop.note_address import open_notes
from jeeves_reflexion.tasknotes import TaskReflection

async def main(place, name, count):
    store = open_notes(place, namespace="tests")
    async with store:
        for number in range(int(count)):
            await store.commit("key", TaskReflection.of_first_run(f"{name} {number}", "e"))
            await store.score("key", 0, 1.0)

anyio.run(main, *sys.argv[1:])
"""


def write_together(place, *, writers, each):
    command = [sys.executable, "-W", "error", "-c", WRITER, str(place)]
    running = [
        subprocess.Popen([*command, f"writer{n}", str(each)], stderr=subprocess.PIPE, text=True)
        for n in range(writers)
    ]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * writers, said


def test_processes_at_once_lose_no_count_and_no_score(tmp_path):
    from jeeves_reflexion.loop.note_address import open_notes

    write_together(tmp_path / "notes.sqlite3", writers=2, each=6)
    history = anyio.run(open_notes(tmp_path / "notes.sqlite3", namespace="tests").history, "key")
    assert (history.run_count, len(history.versions), len(history.baseline)) == (12, 12, 12)


def test_processes_at_once_lose_nothing_in_postgres(postgres_database):
    from jeeves_reflexion.loop.note_address import open_notes

    write_together(postgres_database, writers=2, each=4)

    async def read():
        async with open_notes(postgres_database, namespace="tests") as store:
            return await store.history("key")

    history = anyio.run(read)
    assert (history.run_count, len(history.versions), len(history.baseline)) == (8, 8, 8)


def test_threads_with_loops_of_their_own_share_a_store(tmp_path):
    store = SqliteReflectionStore(tmp_path / "notes.db")
    threads = [
        threading.Thread(target=anyio.run, args=(store.commit, "key", noted(f"text {n}"))) for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert anyio.run(store.retrieve, "key").run_count == 6


async def test_namespaces_of_one_file_do_not_see_each_other(tmp_path):
    mine = SqliteReflectionStore(tmp_path / "notes.db", namespace="mine")
    theirs = SqliteReflectionStore(tmp_path / "notes.db", namespace="theirs")
    await mine.store("key", noted())
    assert await theirs.retrieve("key") is None
    assert await theirs.list() == ()
    assert await theirs.forget("key") is False
    assert await mine.retrieve("key") is not None


async def test_notes_live_in_the_folder_of_the_lessons(tmp_path):
    from jeeves_reflexion.loop.note_address import open_notes

    async with FaissVectorStore(tmp_path / "lessons", embedder=HashingEmbedder(64), namespace="n") as lessons:
        await VersionedReflectionStore(lessons).store("key", noted("kept"))
    async with open_notes(tmp_path / "lessons", namespace="n", create=False) as notes:
        assert (await notes.retrieve("key")).refined_description == "kept"


async def test_a_damaged_file_is_said_to_be_damaged(tmp_path):
    path = tmp_path / "notes.db"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(ReflectionStoreError, match="damaged"):
        await SqliteReflectionStore(path).retrieve("key")


def json_notes(folder, key, value):
    document = {"collection": "task_notes", "key": key, "version": 3, "value": value}
    folder.mkdir(exist_ok=True)
    path = folder / f"task_notes-{key}.json"
    path.write_text(json.dumps(document))
    return path


async def test_a_folder_of_json_files_is_taken_over_once(tmp_path):
    from jeeves_reflexion.loop.note_address import open_notes

    for key in ("abc", "def"):
        json_notes(tmp_path, key, document_of(with_reflection(NoteHistory(key), noted(f"from {key}"))))
    for _ in range(2):
        async with open_notes(tmp_path, namespace="n", create=False) as store:
            assert [each.identity for each in await store.list()][:1] == ["def" if _ else "abc"]
            assert (await store.commit("def", noted("more"))).run_count == 2 + _
            await store.forget("abc")


async def test_json_files_had_no_namespaces_and_are_found_in_each(tmp_path):
    from jeeves_reflexion.loop.note_address import open_notes

    path = json_notes(tmp_path, "abc", document_of(with_reflection(NoteHistory("abc"), noted("kept"))))
    for namespace in ("default", "team"):
        assert await open_notes(tmp_path, namespace=namespace).retrieve("abc") is not None
    await open_notes(tmp_path, namespace="team").forget("abc")
    assert not path.exists()
    for namespace, there in (("team", False), ("other", False), ("default", True)):
        assert (await open_notes(tmp_path, namespace=namespace).retrieve("abc") is not None) is there


async def test_json_files_beside_a_database_that_is_there_are_taken_over_too(tmp_path):
    from jeeves_reflexion.loop.note_address import open_notes

    store = SqliteReflectionStore(tmp_path / "notes.sqlite3", namespace="n")
    await store.commit("abc", noted("newer"))
    for key in ("abc", "def"):
        json_notes(tmp_path, key, document_of(with_reflection(NoteHistory(key), noted("older"))))
    found = await open_notes(tmp_path, namespace="n").list()
    assert [(each.identity, each.reflection.refined_description) for each in found] == [
        ("abc", noted("newer").refined_description),
        ("def", noted("older").refined_description),
    ]


@pytest.mark.skipif(os.name != "posix", reason="pipes and links of POSIX")
@pytest.mark.parametrize("what", ["pipe", "link", "damage"])
async def test_what_holds_no_notes_is_not_taken_over(tmp_path, what):
    from jeeves_reflexion.loop.note_address import open_notes

    path = json_notes(tmp_path / "notes", "abc", {})
    kept = path.rename(tmp_path / "elsewhere.json")
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to(kept)
    else:
        path.write_text("{half")
    store = open_notes(tmp_path / "notes", namespace="n")
    with anyio.fail_after(60):
        for call in (store.retrieve, lambda key: store.store(key, noted()), lambda _: store.list()):
            with pytest.raises(ReflectionStoreError, match=r"task_notes-abc\.json holds no task notes"):
                await call("abc")


async def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    with pytest.raises(ReflectionStoreError, match="another program"):
        await SqliteReflectionStore(path).store("key", noted())


async def test_a_newer_format_is_refused(tmp_path):
    store = SqliteReflectionStore(tmp_path / "notes.db")
    await store.store("key", noted())
    connection = sqlite3.connect(tmp_path / "notes.db")
    connection.execute("PRAGMA user_version=7")
    connection.close()
    with pytest.raises(ReflectionStoreError, match="format 7"):
        await store.retrieve("key")


async def test_a_missing_file_is_an_error_where_none_is_to_be_made(tmp_path):
    store = SqliteReflectionStore(tmp_path / "notes.db", create=False)
    with pytest.raises(ReflectionStoreError, match="there is no file"):
        await store.retrieve("key")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
async def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ReflectionStoreError):
        await SqliteReflectionStore(tmp_path / "notes.db").store("key", noted())


async def test_a_place_that_is_no_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReflectionStoreError):
        await SqliteReflectionStore(tmp_path / "file" / "notes.db").store("key", noted())


async def test_secrets_reach_no_file(reopened, tmp_path):
    secret = "sk-proj-" + "a1B2c3D4" * 4
    store = reopened()
    await store.commit("key", noted(f"use {secret}", f"it printed {secret}"), description=f"key {secret}")
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_what_is_no_record_store_is_refused():
    with pytest.raises(ConfigurationError, match="RecordStore"):
        VersionedReflectionStore(object())


def test_a_missing_namespace_is_refused(tmp_path):
    for namespace in ("", " ", None):
        with pytest.raises(ValueError, match="namespace"):
            SqliteReflectionStore(tmp_path / "notes.db", namespace=namespace)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_postgres_store_wants_an_address_and_shows_no_password(monkeypatch):
    if importlib.util.find_spec("psycopg"):
        monkeypatch.setattr("vectorstores.postgres.connection._COLD", 0.2)
    from jeeves_reflexion.loop.note_address import PostgresReflectionStore

    with pytest.raises(ConfigurationError, match="postgresql://"):
        PostgresReflectionStore("notes.db", namespace="n")
    store = PostgresReflectionStore("postgresql://me:hunter2secret@127.0.0.1:1/none", namespace="n")
    with pytest.raises(ReflectionStoreError) as caught:
        await store.retrieve("key")
    assert "hunter2secret" not in str(caught.value)


async def test_a_list_that_meets_damaged_notes_leaves_no_lock_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("jeeves_reflexion.tasknotes.sqlite.LOCK_SECONDS", 0.1)
    path = tmp_path / "notes.sqlite"
    store = SqliteReflectionStore(path)
    for key in ("damaged", "whole"):
        await store.score(key, 0, 1.0)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE records SET value = '{}' WHERE key = 'damaged'")
    with pytest.raises(ReflectionStoreError, match="can't be read") as caught:
        await store.list()
    assert caught.tb is not None  # whoever keeps the error keeps no lock with it
    await store.score("whole", 0, 0.5)
    assert (await store.history("whole")).baseline == (1.0, 0.5)
