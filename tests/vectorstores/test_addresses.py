"""What an address names, and what is refused before anything is made."""

import sys
from pathlib import Path

import pytest

from vectorstores import (
    Chunk,
    HashingEmbedder,
    MissingDependencyError,
    StoreUnavailableError,
    open_store,
    origin_of,
)
from vectorstores.address import folder_of
from vectorstores.postgres.address import DEFAULT_SCHEMA, embedded_folder, split_schema

SECRET = "hunter22"


@pytest.mark.parametrize(
    "address", ["memory:", "postgresql:/host/db", "postgres:x", "file:x", "file:///x", "", " ", "a\0b"]
)
def test_a_slip_makes_no_folder_of_its_name(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreUnavailableError, match="memory://"):
        open_store(address, embedder=HashingEmbedder(16), namespace="n")
    with pytest.raises(StoreUnavailableError):
        origin_of(address)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"postgresql:me:{SECRET}@host/db", "postgresql: begins no address"),
        (f"host=db.example.org dbname=lessons password={SECRET}", "key=value pairs"),
        (f"password = '{SECRET}' host=db.example.org", "key=value pairs"),
    ],
)
def test_a_slip_is_told_without_the_password(tmp_path, monkeypatch, address, said):
    monkeypatch.chdir(tmp_path)
    for use in (lambda: open_store(address, namespace="n"), lambda: origin_of(address)):
        with pytest.raises(StoreUnavailableError, match=rf"{said}.*postgresql://") as caught:
            use()
        assert SECRET not in str(caught.value)


@pytest.mark.anyio
async def test_the_users_home_is_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with open_store("~/lessons", embedder=HashingEmbedder(16), namespace="n") as store:
        await store.add([Chunk("x")])
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert origin_of("~/lessons") == origin_of(tmp_path / "home" / "lessons") is not None
    with pytest.raises(StoreUnavailableError, match="whole path"):
        open_store("~nobody-of-this-name/lessons", namespace="n")


def test_paths_are_taken_as_they_are():
    assert folder_of("./~") == Path("~")
    assert folder_of("./memory:") == Path("memory:")
    assert folder_of("C:lessons") == Path("C:lessons")
    assert folder_of("/a%20b?c#d") == Path("/a%20b?c#d")


@pytest.mark.parametrize(
    ("address", "rest", "schema"),
    [
        ("postgresql://h/db", "postgresql://h/db", DEFAULT_SCHEMA),
        ("postgresql://h/db?schema=a%20b", "postgresql://h/db", "a b"),
        ("postgresql:///db?host=/run&schema=s&port=1", "postgresql:///db?host=/run&port=1", "s"),
        # Other than in a form on the web, a plus is a plus.
        (
            "postgresql://h/db?password=a+b%2Bc&schema=s+t",
            "postgresql://h/db?password=a+b%2Bc",
            "s+t",
        ),
        # As libpq has it, a password may have any sign but @ and /.
        ("postgresql://u:p?w#x@h/db?schema=s", "postgresql://u:p?w#x@h/db", "s"),
        ("postgresql://u:\u2100@h/db?schema=s", "postgresql://u:\u2100@h/db", "s"),
        ("postgresql://[::1/db?schema=s", "postgresql://[::1/db", "s"),
        ("postgresql+embedded:///a#b%3Fc?schema=s", "postgresql+embedded:///a#b%3Fc", "s"),
    ],
)
def test_the_schema_is_taken_out_and_the_rest_left_letter_by_letter(address, rest, schema):
    assert split_schema(address) == (rest, schema)


def test_the_folder_of_an_embedded_server():
    assert embedded_folder("postgresql+embedded:///a#b%3Fc%20d") == Path("/a#b?c d")
    for address, said in (
        ("postgresql+embedded:///a?shema=x", "'shema'"),
        ("postgresql+embedded:///a%00b", "NUL"),
        ("postgresql+embedded://a", "absolute"),
    ):
        with pytest.raises(StoreUnavailableError, match=said):
            embedded_folder(address)


@pytest.mark.parametrize("package", ["psycopg", "pgvector"])
def test_a_package_that_is_missing_is_told_with_the_extra_that_brings_it(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"jeeves-reflexion\[postgres\].*{package}"):
        open_store("postgresql://host/lessons", embedder=HashingEmbedder(16), namespace="n")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    "address", [f"postgresql://u:{SECRET}@[::1/db", f"postgresql://u:{SECRET}\u2100@[/db"]
)
async def test_no_address_shows_its_password_however_wrong_it_is(address):
    try:
        store = open_store(address, embedder=HashingEmbedder(16), namespace="n")
    except MissingDependencyError:
        pytest.skip("psycopg is not installed")
    with pytest.raises(StoreUnavailableError, match="can't be read") as caught:
        await store.count()
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"
