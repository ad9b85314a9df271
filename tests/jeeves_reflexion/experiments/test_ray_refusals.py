"""What is said of an executor before anything is tried, and without a node."""

import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest
from click.testing import CliRunner

from jeeves_reflexion.cli.program import program
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.experiments.elsewhere import RunsOn
from jeeves_reflexion.experiments.executors import Executor, LocalExecutor
from jeeves_reflexion.experiments.lesson_place import LessonPlace
from jeeves_reflexion.experiments.ray import connection as ray_connection
from jeeves_reflexion.experiments.ray.executor import RayExecutor, RayOptions
from jeeves_reflexion.experiments.ray.processes import last_words


class NoKit:
    """Is pickled, and never opened."""


def test_ray_is_not_loaded_before_it_is_needed():
    ask = "import jeeves_reflexion.experiments.elsewhere, sys; print({'ray', 'psycopg'} & {*sys.modules})"
    said = subprocess.run([sys.executable, "-c", ask], check=True, timeout=60, capture_output=True, text=True)
    assert said.stdout == "set()\n"


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for refused in (lambda: RayExecutor(NoKit(), workers=1), lambda: RunsOn(RayOptions()).check(["retry"])):
        with pytest.raises(MissingDependencyError, match=r'pip install "jeeves-reflexion\[ray\]"'):
            refused()


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.anyio
async def test_trio_is_refused():
    pytest.importorskip("ray")
    with pytest.raises(ConfigurationError, match="runs on asyncio"):
        async with RayExecutor(NoKit(), workers=1):
            pass


def test_the_address_of_ray_client_is_refused_without_its_secrets():
    with pytest.raises(ConfigurationError, match="not of the form host:port") as caught:
        RayOptions("ray://user:hunter2secret@head:10001")
    assert "hunter2secret" not in str(caught.value)


@pytest.mark.parametrize("address", ["head", "head:port", "ray://head:1", "a b:1", "auto"])
def test_an_address_is_a_host_and_a_port(address):
    RayOptions("head.example:6379")
    RayOptions("[::1]:6379")
    with pytest.raises(ConfigurationError, match="not of the form host:port"):
        RayOptions(address)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_port_that_nobody_listens_at_is_an_error_at_once(anyio_backend):
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            ConfigurationError, match=rf"the Ray cluster at {address} can't be reached.*RAY_AUTH"
        ):
            async with RayExecutor(NoKit(), workers=1, options=RayOptions(address)):
                pass


def test_a_cluster_that_does_not_answer_is_given_up_and_left_when_it_does():
    answered, undone = threading.Event(), threading.Event()
    waiting = ray_connection._Waiting(lambda: answered.wait(30), undone.set)
    with pytest.raises(TimeoutError, match=r"no answer within 0 s"):
        waiting.wait(0.05)
    assert not undone.is_set()
    answered.set()
    assert undone.wait(30)


def test_what_a_cluster_answers_is_kept_or_raised():
    undone = []
    ray_connection._Waiting(lambda: None, lambda: undone.append(1)).wait(30)
    for error in (ConnectionError("no"), TimeoutError("its own")):

        def refuse(error=error):
            raise error

        with pytest.raises(type(error), match=str(error)):
            ray_connection._Waiting(refuse, lambda: undone.append(1)).wait(30)
    assert not undone


def test_who_waits_for_a_cluster_can_be_told_to_stop():
    answered, undone, ended = threading.Event(), threading.Event(), []
    waiting = ray_connection._Waiting(lambda: answered.wait(30), undone.set)

    def wait():
        try:
            waiting.wait(30)
        except CancelledError:
            ended.append("cancelled")

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.give_up()
    thread.join(30)
    answered.set()
    assert undone.wait(30)
    assert ended == ["cancelled"]


def test_a_node_of_its_own_gets_a_token_that_is_nowhere_else(monkeypatch):
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "theirs")
        monkeypatch.delenv(name)
    ray_connection._keep_the_token_here()
    assert len(bytes.fromhex(os.environ["RAY_AUTH_TOKEN"])) == 32
    monkeypatch.setenv("RAY_AUTH_TOKEN", "theirs")
    ray_connection._keep_the_token_here()
    assert os.environ["RAY_AUTH_TOKEN"] == "theirs"


@pytest.mark.parametrize(
    ("benchmark", "options", "said"),
    [
        ("alfworld", ["--executor", "ray", "--arms", "own"], "name a database with --lessons"),
        ("alfworld", ["--executor", "ray", "--arms", "own", "--lessons", "folder"], "name a database"),
        ("alfworld", ["--lessons", "mysql://h/d", "--count", "1"], "a PostgreSQL (postgresql://...)"),
        ("alfworld", ["--ray-address", "h:1"], "go with --executor ray"),
        ("refinement", ["--ray-address", "h:1"], "go with --executor ray"),
        ("refinement", ["--executor", "ray", "--model", "m"], "--executor ray is for offline runs"),
    ],
)
def test_benchmarks_refuse_what_can_not_work(tmp_path, benchmark, options, said, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    more = ["--embedder", "hashing"] if benchmark == "alfworld" else []
    done = CliRunner().invoke(program, ["bench", benchmark, *more, *options])
    assert done.exit_code != 0
    assert said in " ".join(done.output.split()) + str(done.exception)


def test_why_a_process_died_is_said_in_a_line():
    oom = (
        "Killed, as the node was running low on memory.\n1.2GB\nRefer to the out of memory issue: https://a.b"
    )
    assert last_words(oom) == "its node ran out of memory, and Ray ended it"
    assert last_words("The actor died.\n\n  It was killed by SIGKILL.\n") == "It was killed by SIGKILL."
    assert last_words(" ") == "Ray does not say why"


def test_lessons_must_be_where_workers_see_them():
    pytest.importorskip("ray")
    RunsOn(RayOptions()).check(["retry", "react"])
    with pytest.raises(
        ConfigurationError, match=r"arms reflexion, selective@2 must be where every worker sees"
    ):
        RunsOn(RayOptions()).check(["retry", "reflexion", "selective@2"])


def test_a_place_of_lessons_is_a_database(tmp_path):
    with pytest.raises(ConfigurationError, match="a PostgreSQL"):
        LessonPlace("test", tmp_path, "/some/folder")
    assert "secret" not in repr(LessonPlace("test", tmp_path, "postgresql://me:secret@host/db"))
    assert "secret" not in repr(RunsOn(None, "postgresql://me:secret@host/db"))


def test_the_local_executor_is_one():
    assert isinstance(LocalExecutor(), Executor)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ray-address", "head:6379"], "go with --executor ray"),
        (["--executor", "ray"], "name a database with --lessons"),
        (["--executor", "ray", "--lessons", "folder"], "a PostgreSQL (postgresql://...)"),
        (
            ["--executor", "ray", "--lessons", "postgresql://h/d", "--ray-address", "ray://h:1"],
            "form host:port",
        ),
    ],
)
def test_the_command_refuses_what_can_not_work(tmp_path, options, said, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.jsonl").write_text('{"prompt": "2 + 2", "reference": "4"}\n')
    agent = ["--agent", "builtins:len", "--reflector", "builtins:len"]
    done = CliRunner().invoke(program, ["bench", "tasks.jsonl", *agent, "--embedder", "hashing", *options])
    assert done.exit_code != 0
    assert said in done.output + str(done.exception)
