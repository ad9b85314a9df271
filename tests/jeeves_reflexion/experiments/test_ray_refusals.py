"""What is said of an executor before anything is tried, and without a node."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from jeeves_reflexion.cli.program import program
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.experiments.elsewhere import RunsOn
from jeeves_reflexion.experiments.executors import Executor, LocalExecutor
from jeeves_reflexion.experiments.lesson_place import LessonPlace
from jeeves_reflexion.experiments.ray_executor import RayExecutor, RayOptions


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
