"""What is said of an executor before anything is tried, and without a node."""

import socket
import subprocess
import sys
import threading

import anyio
import pytest
from click.testing import CliRunner

from jeeves_reflexion.cli.program import program
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.experiments.location import LessonLocation, RunLocation
from jeeves_reflexion.experiments.ray import connection as ray_connection
from jeeves_reflexion.experiments.ray.executor import RayExecutor, RayOptions, last_words


class NoSetup:
    """Is pickled, and never opened."""


def test_ray_is_not_loaded_before_it_is_needed():
    ask = "import jeeves_reflexion.experiments.location, sys; print({'ray', 'psycopg'} & {*sys.modules})"
    said = subprocess.run([sys.executable, "-c", ask], check=True, timeout=60, capture_output=True, text=True)
    assert said.stdout == "set()\n"


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for refused in (
        lambda: RayExecutor(NoSetup(), workers=1),
        lambda: RunLocation(RayOptions()).check(["retry"]),
    ):
        with pytest.raises(MissingDependencyError, match=r'pip install "jeeves-reflexion\[ray\]"'):
            refused()


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.anyio
async def test_trio_is_refused():
    pytest.importorskip("ray")
    with pytest.raises(ConfigurationError, match="runs on asyncio"):
        async with RayExecutor(NoSetup(), workers=1):
            pass


def test_an_address_is_a_host_and_a_port():
    RayOptions("head.example:6379")
    RayOptions("[::1]:6379")
    for address in (
        "ray://user:hunter2secret@head:10001",
        "head",
        "head:port",
        "ray://head:1",
        "a b:1",
        "auto",
    ):
        with pytest.raises(ConfigurationError, match="not of the form host:port") as caught:
            RayOptions(address)
        assert "hunter2secret" not in str(caught.value)


@pytest.mark.anyio
async def test_a_port_that_nobody_listens_at_is_an_error_at_once():
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            ConfigurationError, match=rf"the Ray cluster at {address} can't be reached.*RAY_AUTH"
        ):
            async with RayExecutor(NoSetup(), workers=1, options=RayOptions(address)):
                pass


@pytest.mark.anyio
async def test_a_cluster_that_does_not_answer_is_given_up():
    answered = threading.Event()
    with pytest.raises(TimeoutError, match=r"no answer within 0 s"):
        await ray_connection.in_time(lambda: answered.wait(30), 0.05)
    with anyio.move_on_after(0.05) as scope:
        await ray_connection.in_time(lambda: answered.wait(30), 30)
    assert scope.cancelled_caught
    answered.set()
    await ray_connection.in_time(lambda: None, 30)
    for error in (ConnectionError("no"), TimeoutError("its own")):

        def refuse(error=error):
            raise error

        with pytest.raises(type(error), match=str(error)):
            await ray_connection.in_time(refuse, 30)


def test_a_program_ends_though_a_cluster_still_does_not_answer():
    code = """
import anyio, threading
from jeeves_reflexion.experiments.ray.connection import in_time
try:
    anyio.run(in_time, lambda: threading.Event().wait(60), 0.05)
except TimeoutError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert told.stdout == "there was no answer within 0 s\n"


def test_why_a_process_died_is_said_in_a_line():
    oom = (
        "Killed, as the node was running low on memory.\n1.2GB\nRefer to the out of memory issue: https://a.b"
    )
    assert last_words(oom) == "its node ran out of memory, and Ray ended it"
    assert last_words("The actor died.\n\n  It was killed by SIGKILL.\n") == "It was killed by SIGKILL."
    assert last_words(" ") == "Ray gives no reason"


def test_lessons_must_be_where_workers_see_them():
    pytest.importorskip("ray")
    RunLocation(RayOptions()).check(["retry", "react"])
    with pytest.raises(
        ConfigurationError, match=r"arms reflexion, selective@2 must be where every worker sees"
    ):
        RunLocation(RayOptions()).check(["retry", "reflexion", "selective@2"])


def test_the_address_of_lessons_is_a_database(tmp_path):
    with pytest.raises(ConfigurationError, match="a PostgreSQL"):
        LessonLocation("test", tmp_path, "/some/folder")
    assert "secret" not in repr(LessonLocation("test", tmp_path, "postgresql://me:secret@host/db"))
    assert "secret" not in repr(RunLocation(None, "postgresql://me:secret@host/db"))


TASKS = ["tasks.jsonl", "--agent", "builtins:len", "--reflector", "builtins:len", "--embedder", "hashing"]
RAY = ["--executor", "ray"]


def test_the_command_and_benchmarks_refuse_what_can_not_work(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.jsonl").write_text('{"prompt": "2 + 2", "reference": "4"}\n')
    games = ["alfworld", "--embedder", "hashing"]
    for options, said in (
        ([*TASKS, "--ray-address", "head:6379"], "go with --executor ray"),
        ([*TASKS, *RAY], "name a database with --lessons"),
        ([*TASKS, *RAY, "--lessons", "folder"], "a PostgreSQL (postgresql://...)"),
        ([*TASKS, *RAY, "--lessons", "postgresql://h/d", "--ray-address", "ray://h:1"], "form host:port"),
        ([*games, *RAY, "--arms", "own"], "name a database with --lessons"),
        ([*games, *RAY, "--arms", "own", "--lessons", "folder"], "name a database"),
        ([*games, "--lessons", "mysql://h/d", "--limit", "1"], "a PostgreSQL (postgresql://...)"),
    ):
        done = CliRunner().invoke(program, ["bench", *options])
        assert done.exit_code != 0, options
        assert said in " ".join(done.output.split()) + str(done.exception), options
