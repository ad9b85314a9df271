"""A secured role with SQL of its own: what it can't read, change, stop or hold up."""

import json
import threading
import uuid
from contextlib import suppress

import anyio
import pytest

from vectorstores import (
    Chunk,
    HashingEmbedder,
    PostgresVectorStore,
    RecordWrite,
    StoreCorruptError,
    StoreUnavailableError,
    reembed,
)

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.anyio
DIM = 16
TABLES = ("meta", "scopes", "chunks", "records")
# Beside ACCESS SHARE, ROW SHARE and ROW EXCLUSIVE, under which rows are read and written.
OTHER_MODES = ("SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def store_at(url: str, namespace: str = "own", dim: int = DIM) -> PostgresVectorStore:
    return PostgresVectorStore(url, embedder=HashingEmbedder(dim), namespace=namespace)


@pytest.fixture
def admin(postgres_database):
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        # PostgreSQL 14 lets everybody make functions there.
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        yield connection


@pytest.fixture
def role(admin, postgres_database):
    """A role that may log in, and its address."""
    name = f"role_{uuid.uuid4().hex[:12]}"
    parts = psycopg.conninfo.conninfo_to_dict(postgres_database)
    admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'sesame'")
    yield name, psycopg.conninfo.make_conninfo(**parts | {"user": name, "password": "sesame"})
    admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def fill(owner: PostgresVectorStore) -> None:
    await owner.add([Chunk("mine", id="c")])
    secret = owner.scoped("secret")
    await secret.add([Chunk("theirs", id="c")])
    await secret.append_once("r", "k", 1)


def tenant(url: str, **options: object):
    connection = psycopg.connect(url, **options)
    connection.execute("SET search_path = vectorstores, public")
    return connection


def locks_taken(thief) -> list[tuple[str, str]]:
    """Return the locks beyond those of rows that can be had on the tables."""
    taken = []
    for table in TABLES:
        for mode in OTHER_MODES:
            with suppress(psycopg.errors.InsufficientPrivilege), thief.transaction():
                thief.execute(f"LOCK TABLE vectorstores.{table} IN {mode} MODE")
                taken.append((table, mode))
    return taken


@pytest.mark.parametrize("moved", [False, True])
async def test_a_secured_role_takes_no_lock_but_those_of_rows(postgres_database, role, admin, moved):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
    if moved:
        await reembed(postgres_database, embedder=HashingEmbedder(2 * DIM))
    tables = admin.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'vectorstores'::regnamespace AND relkind = 'r'"
    )
    assert {table for (table,) in tables} == set(TABLES)
    with tenant(url, autocommit=True) as thief:
        assert locks_taken(thief) == []
        for statement in (
            *(f"SELECT 1 FROM {table} FOR SHARE" for table in ("meta", "scopes")),
            *(f"SELECT 1 FROM {table} FOR KEY SHARE" for table in ("meta", "scopes")),
            *(f"TRUNCATE {table}" for table in TABLES),
            *(f"DELETE FROM {table}" for table in TABLES),
            *(f"CREATE INDEX ON {table} ((1))" for table in TABLES),
            *(f"ALTER TABLE {table} SET (fillfactor = 50)" for table in TABLES),
            *(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY" for table in TABLES),
            "INSERT INTO records (namespace, collection, key, value, version) VALUES ('secret', 'r', 'x', '1', 1)",
            "UPDATE chunks SET namespace = 'secret'",
            "UPDATE records SET key = 'x'",
            "INSERT INTO scopes VALUES (current_user, 'secret')",
            "CREATE FUNCTION unnest(text[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT $1[1]'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                thief.execute(statement)
        assert thief.execute("UPDATE records SET value = '7' WHERE collection = 'r'").rowcount == 0
        # Nor the locks of others' rows.
        for table, mine in (("chunks", 1), ("records", 0)):
            assert len(thief.execute(f"SELECT 1 FROM {table} FOR UPDATE").fetchall()) == mine


async def test_what_a_secured_role_may_hold_stops_nobody(postgres_database, role, admin):
    """The locks of rows, all of its rows, and every advisory lock that was ever used."""
    name, url = role
    other = f"other_{name}"
    admin.execute(f"CREATE ROLE {other}")
    try:
        async with store_at(postgres_database, "secret") as owner:
            await fill(owner.scoped("own"))
            await owner.secure(name, ["own"])
            with tenant(url) as thief:
                for table in TABLES:
                    thief.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
                for table in ("chunks", "records"):
                    thief.execute(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
                thief.execute("SELECT 1 FROM chunks FOR UPDATE")
                for key in (
                    "vectorstores vectorstores",
                    "vectorstores another",
                    "vectorstores indexes of vectorstores",
                ):
                    thief.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (key,))
                with anyio.fail_after(30):
                    await owner.add([Chunk(f"new {n}", id=f"n{n}") for n in range(40)])
                    await owner.add([Chunk("mine", id="again")])
                    assert await owner.delete(["n1"], records=[RecordWrite("r", "x", 1)]) == 1
                    assert await owner.delete_records("r", ["x"]) == 1
                    assert len(await owner.search("new 3", k=50)) == 41
                    await owner.secure(other, ["own", "more"])
                    await owner.secure(other, ["own"])
                    async with PostgresVectorStore(
                        postgres_database, embedder=HashingEmbedder(DIM), namespace="n", schema="another"
                    ) as another:
                        assert await another.count() == 0
                    await owner.secure(name, [])
                with pytest.raises(psycopg.OperationalError):
                    thief.execute("SELECT 1")
    finally:
        admin.execute(f"DROP OWNED BY {other}; DROP ROLE {other}")


async def test_a_role_that_waits_for_a_lock_that_it_is_refused_is_ended_by_taking_its_rights(
    postgres_database, role, admin
):
    """PostgreSQL looks whether a role may make a rule only when it holds the table; whoever comes later waits."""
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
        with tenant(url) as holder, tenant(url, autocommit=True) as thief:
            holder.execute("SELECT 1 FROM chunks FOR UPDATE")

            def wait() -> None:
                with suppress(psycopg.Error):
                    thief.execute("CREATE RULE r AS ON INSERT TO chunks DO NOTHING")

            thread = threading.Thread(target=wait)
            thread.start()
            with anyio.fail_after(30):
                while not admin.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                await owner.secure(name, [])
                assert await owner.count() == 1
            thread.join()
            with pytest.raises(psycopg.OperationalError):
                holder.execute("SELECT 1")
    # It does not even find the tables any more, so it can wait for none.
    with tenant(url, autocommit=True) as thief:
        for statement in (
            "PREPARE p AS SELECT 1 FROM vectorstores.chunks",
            "CREATE RULE r AS ON INSERT TO vectorstores.chunks DO NOTHING",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema"):
                thief.execute(statement)


async def test_the_functions_that_delete_reach_nothing_of_others(postgres_database, role, admin):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
        with tenant(url) as thief:
            for statement in (
                "SELECT * FROM remove_chunks('secret', '{c}')",
                "SELECT * FROM remove_records('secret', 'r', '{k}')",
                "SELECT * FROM remove_chunks(NULL, '{c}')",
            ):
                assert thief.execute(statement).fetchall() == []
            # Nor does it hold them, as long as its transaction is open.
            with anyio.fail_after(60):
                await owner.add([Chunk("mine", id="c")])
                assert await owner.scoped("secret").delete(["c"]) == 1
        # Whoever takes the role on is that role; whoever is no secured role may not call them.
        admin.execute(f"SET ROLE {name}")
        assert admin.execute("SELECT * FROM vectorstores.remove_chunks('secret', '{c}')").fetchall() == []
        assert admin.execute("SELECT * FROM vectorstores.remove_chunks('own', '{c}')").fetchall() == [(1,)]
        admin.execute("RESET ROLE")
        admin.execute(f"CREATE ROLE stranger_{name}; GRANT USAGE ON SCHEMA vectorstores TO stranger_{name}")
        admin.execute(f"SET ROLE stranger_{name}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            admin.execute("SELECT * FROM vectorstores.remove_chunks('own', '{c}')")
        admin.execute(f"RESET ROLE; DROP OWNED BY stranger_{name}; DROP ROLE stranger_{name}")


async def test_rights_of_an_earlier_version_hold_nothing_up(postgres_database, role, admin):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
        # Or more than was ever given by this package.
        for namespaces, tables in (
            ([], "chunks, records"),
            (["own"], "chunks, records"),
            ([], "meta, scopes"),
        ):
            admin.execute(
                f"GRANT USAGE ON SCHEMA vectorstores TO {name};"
                f" GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA vectorstores TO {name}"
            )
            thief = tenant(url)
            thief.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")
            with anyio.fail_after(30):
                await owner.secure(name, namespaces)
            with pytest.raises(psycopg.OperationalError):
                thief.execute("SELECT 1")
        assert await owner.count() == 1


async def test_a_role_with_the_rights_of_an_earlier_version_works_until_it_is_secured_once_more(
    postgres_database, role, admin
):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
        admin.execute(
            "DROP FUNCTION vectorstores.remove_chunks, vectorstores.remove_records;"
            f" GRANT UPDATE, DELETE ON vectorstores.chunks, vectorstores.records TO {name}"
        )
        for secured_again in (False, True):
            if secured_again:
                await owner.secure(name, ["own"])
            async with store_at(url) as store:
                await store.add([Chunk("new", id="n")], records=[RecordWrite("r", "x", 1)])
                assert await store.delete(["n"]) == await store.delete_records("r", ["x"]) == 1
            with psycopg.connect(url, autocommit=True) as thief:
                assert (locks_taken(thief) == []) is secured_again


async def test_rights_that_a_role_has_as_everybody_or_by_a_group_are_told(postgres_database, role, admin):
    name, _ = role
    group = f"group_{name}"
    async with store_at(postgres_database) as owner:
        await fill(owner)
        admin.execute(f"CREATE ROLE {group}; ALTER ROLE {name} NOINHERIT; GRANT {group} TO {name}")
        try:
            for right in (
                "TRUNCATE ON vectorstores.chunks",
                "INSERT ON vectorstores.meta",
                "DELETE ON vectorstores.chunks",
                "UPDATE ON vectorstores.records",
                *(["MAINTAIN ON vectorstores.chunks"] if admin.info.server_version >= 170000 else []),
                "CREATE ON SCHEMA vectorstores",
                "CREATE ON SCHEMA public",
            ):
                for who, said in (("PUBLIC", "beyond those of rows"), (group, f"is a member of '{group}'")):
                    admin.execute(f"GRANT {right} TO {who}")
                    with pytest.raises(StoreUnavailableError, match=f"{said}.*does not hold it"):
                        await owner.secure(name, ["own"])
                    admin.execute(f"REVOKE {right} FROM {who}")
        finally:
            admin.execute(f"DROP OWNED BY {group}; DROP ROLE {group}")
        await owner.secure(name, ["own"])


async def test_what_is_taken_away_is_gone_for_sessions_that_have_begun(postgres_database, role):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own", "secret"])
        store = store_at(url)
        assert await store.count() == await store.scoped("secret").count() == 1
        with tenant(url) as thief:
            thief.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            thief.execute("DECLARE reading CURSOR FOR SELECT content FROM chunks WHERE namespace = 'secret'")
            await owner.secure(name, ["own"])
            with pytest.raises(psycopg.OperationalError):
                thief.execute("FETCH ALL FROM reading")
        # Its programs go on with what is left.
        assert await store.count() == 1
        assert await store.scoped("secret").count() == 0
        # Who loses nothing keeps its sessions.
        with tenant(url) as at_work:
            await owner.secure(name, ["own", "more"])
            await owner.secure(name, ["more", "own"])
            assert at_work.execute("SELECT count(*) FROM chunks").fetchone() == (1,)
        await store.close()


async def test_a_role_that_reconnects_all_the_time_makes_its_revocation_no_error(postgres_database, role):
    name, url = role
    ends, begun = threading.Event(), threading.Semaphore(0)

    def reconnect() -> None:
        while not ends.is_set():
            with suppress(psycopg.OperationalError), psycopg.connect(url) as connection:
                connection.execute("SELECT 1")
                begun.release()

    threads = [threading.Thread(target=reconnect) for _ in range(8)]
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own", "secret"])
        with tenant(url) as thief:
            for thread in threads:
                thread.start()
            try:
                for _ in range(100):
                    await anyio.to_thread.run_sync(begun.acquire)
                await owner.secure(name, ["own"])
                await owner.secure(name, [])
            finally:
                ends.set()
                for thread in threads:
                    thread.join()
            with pytest.raises(psycopg.OperationalError):
                thief.execute("SELECT 1")
        with tenant(url) as again, pytest.raises(psycopg.errors.InsufficientPrivilege):
            again.execute("SELECT * FROM vectorstores.chunks")


PUT = "INSERT INTO chunks (namespace, id, content, metadata, facts, vector_1) VALUES ('own', %s, 'z', %s, '{}', %s)"


@pytest.mark.parametrize("moved", [False, True])
async def test_a_row_without_a_vector_is_refused(postgres_database, role, moved):
    name, url = role
    column, dim = ("vector_2", 2 * DIM) if moved else ("vector_1", DIM)
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
    if moved:
        await reembed(postgres_database, embedder=HashingEmbedder(dim))
    with tenant(url, autocommit=True) as thief:
        for statement in (
            "INSERT INTO chunks (namespace, id, content, metadata, facts) VALUES ('own', 'z', 'z', '{}', '{}')",
            f"UPDATE chunks SET {column} = NULL WHERE id = 'c'",
        ):
            with pytest.raises(psycopg.errors.IntegrityError):
                thief.execute(statement)
    async with store_at(postgres_database, dim=dim) as owner:
        assert [hit.chunk.id for hit in await owner.search("mine")] == ["c"]


async def test_a_row_without_a_vector_in_a_store_of_an_earlier_version_is_told_by_its_id(
    postgres_database, role, admin
):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
        admin.execute("ALTER TABLE vectorstores.chunks DROP CONSTRAINT vector_1_is_there")
        with tenant(url) as thief:
            thief.execute(PUT, ("no vector here", "{}", None))
        with pytest.raises(StoreCorruptError, match=r"'no vector here' has no vector.*delete"):
            await owner.search("mine")
        with pytest.raises(StoreCorruptError, match=r"'no vector here' has no vector.*delete"):
            await owner.get_by_ids(["no vector here"], vectors=True)
        assert len(await owner.scoped("secret").search("theirs")) == 1
        assert await owner.delete(["no vector here"]) == 1
        assert [hit.chunk.id for hit in await owner.search("mine")] == ["c"]


@pytest.mark.parametrize(
    "metadata",
    [
        "[1]",
        "3",
        "null",
        '"{}"',
        f'{{"n": {"9" * 5000}}}',
        f'{{"n": {"[" * 2000}{"]" * 2000}}}',
    ],
    ids=["list", "number", "null", "text", "digits", "deep"],
)
async def test_metadata_that_no_store_writes_is_told_by_the_id_of_its_chunk(
    postgres_database, role, metadata
):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
        with tenant(url) as thief:
            thief.execute(PUT, ("odd", metadata, json.dumps([0.25] * DIM)))
        for read in (
            lambda: owner.search("mine"),
            lambda: owner.get_by_ids(["odd"]),
            owner.scan,
        ):
            with pytest.raises(StoreCorruptError, match="metadata of the chunk 'odd'"):
                await read()
        assert [chunk.id for chunk in (await owner.scoped("secret").scan()).chunks] == ["c"]
        assert await owner.delete(["odd"]) == 1
        assert [hit.chunk.id for hit in await owner.search("mine")] == ["c"]


@pytest.mark.parametrize(
    "value",
    ["9" * 5000, "[" * 2000 + "]" * 2000],
    ids=["digits", "deep"],
)
async def test_a_record_that_no_store_writes_is_told_by_its_key(postgres_database, role, value):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
        with tenant(url) as thief:
            thief.execute(
                "INSERT INTO records (namespace, collection, key, value, version) VALUES ('own', 'r', 'odd', %s, 1)",
                (value,),
            )
        for read in (lambda: owner.get("r", "odd"), lambda: owner.scan_records("r")):
            with pytest.raises(StoreCorruptError, match="record r/odd"):
                await read()
        assert await owner.delete_records("r", ["odd"]) == 1


async def test_a_secured_role_does_its_work(postgres_database, role):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
        async with store_at(url) as store:
            await store.add([Chunk(f"text {n}", id=f"c{n}") for n in range(40)])
            await store.add([Chunk("replaced", id="c1"), Chunk("new", id="n")])
            await store.add([Chunk("text 2", id="c2", metadata={"kind": "lesson"})])
            assert await store.delete(["c3", "c4", "nobody"]) == 2
            assert (await store.compare_and_swap("r", "a", 1, version=None)).version == 1
            assert (await store.compare_and_swap("r", "a", 2, version=1)).version == 2
            assert await store.append_once("r", "b", 1)
            assert not await store.append_once("r", "b", 1)
            assert await store.delete_records("r", ["a", "nobody"]) == 1
            hits = await store.search("replaced", k=1)
            assert [hit.chunk.content for hit in hits] == ["replaced"]
            assert [hit.chunk.id for hit in await store.search("x", filter={"kind": "lesson"})] == ["c2"]


async def test_sessions_that_may_not_be_ended_are_told_and_the_rights_are_gone(
    postgres_database, role, admin
):
    name, url = role
    owner_of_tables = f"owner_{name}"
    parts = psycopg.conninfo.conninfo_to_dict(url) | {"user": owner_of_tables}
    try:
        admin.execute("CREATE EXTENSION vector")
        admin.execute(f"CREATE ROLE {owner_of_tables} LOGIN PASSWORD 'sesame'")
        admin.execute(f"CREATE SCHEMA vectorstores AUTHORIZATION {owner_of_tables}")
        async with store_at(psycopg.conninfo.make_conninfo(**parts)) as owner:
            await fill(owner)
            await owner.secure(name, ["own"])
            with tenant(url) as thief:
                said = rf"may go on.*GRANT pg_signal_backend TO .*{owner_of_tables}"
                with pytest.raises(StoreUnavailableError, match=said) as caught:
                    await owner.secure(name, [])
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    thief.execute("SELECT * FROM vectorstores.chunks")
                # Another call may find that nothing is taken, and end none: so how to is said.
                admin.execute(str(caught.value).partition("an administrator runs: ")[2])
                with pytest.raises(psycopg.OperationalError):
                    thief.execute("SELECT 1")
            admin.execute(f"GRANT pg_signal_backend TO {owner_of_tables}")
            await owner.secure(name, [])
    finally:
        admin.execute(f"DROP OWNED BY {owner_of_tables} CASCADE; DROP ROLE {owner_of_tables}")


async def test_estimates_confirm_no_text_that_is_guessed(postgres_database, role, admin):
    name, url = role
    columns = {
        "chunks": ("id", "content", "embed_text"),
        "records": ("collection", "key"),
    }
    async with store_at(postgres_database) as owner:
        await fill(owner)
        secret = owner.scoped("secret")
        await secret.add(
            [Chunk("the merger is on friday", id=f"s{n}", embed_text="friday") for n in range(200)],
            records=[RecordWrite("plans", f"k{n}", n) for n in range(200)],
        )
        await owner.secure(name, ["own"])
        admin.execute("ANALYZE")
        said = "SELECT attname FROM pg_stats WHERE schemaname = 'vectorstores' AND tablename = %s AND attname = ANY(%s)"
        for table, names in columns.items():
            assert admin.execute(said, (table, list(names))).fetchall() == []
        conditions = ("{} = %s", "{} < %s", "{} >= %s", "{} LIKE %s || '%%'")
        with tenant(url, autocommit=True) as thief:
            for table, names in columns.items():
                for column in names:
                    for condition in conditions:
                        plans = [
                            thief.execute(
                                f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {table} WHERE {condition.format(column)}",
                                (guess,),
                            ).fetchone()[0][0]["Plan"]["Plan Rows"]
                            for guess in ("the merger is on friday", "friday", "plans", "s1", "k1", "zzz")
                        ]
                        assert len(set(plans)) == 1, f"{table}.{column} {condition}: {plans}"
        # What lies under the collation that it was made with is found as before.
        assert [chunk.id for chunk in await secret.get_by_ids(["s1"])] == ["s1"]
        assert (await secret.get("plans", "k7")).value == 7


async def test_a_secured_role_works_on_after_a_move_to_another_embedder(postgres_database, role):
    name, url = role
    async with store_at(postgres_database) as owner:
        await fill(owner)
        await owner.secure(name, ["own"])
    await reembed(postgres_database, embedder=HashingEmbedder(2 * DIM))
    async with store_at(url, dim=2 * DIM) as store:
        await store.add([Chunk("replaced", id="c"), Chunk("new", id="d")])
        assert [hit.chunk.id for hit in await store.search("replaced", k=1)] == ["c"]
        assert await store.delete(["c"]) == 1
