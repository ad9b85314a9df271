"""Experiments on Ray: the same results in any number of processes, and nothing is missed when some of them die."""

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
import resuming

# Ray reads these once. The token is for the other processes that connect to the node.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_worker_niceness": "0",
    "RAY_health_check_failure_threshold": "60",  # a busy machine is no dead one
}

pytest.importorskip("ray", reason="Ray is not installed (the extra 'ray')")
pytest.importorskip("psycopg", reason="psycopg is not installed (the extra 'postgres')")

import ray
import treasure
from looking import AGENT, bench, count, engines, gone, marked, pair, pid_of, places, rows

from benchmarks.alfworld import experiment as alfworld
from benchmarks.hotpotqa import experiment as hotpotqa
from benchmarks.hotpotqa import questions as hotpotqa_questions
from benchmarks.humaneval import experiment as humaneval
from benchmarks.humaneval import problems as humaneval_problems
from jeeves_reflexion import ConfigurationError, Reflexion, ScriptedModel, Task, VectorLessonStore
from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments import Plan, RunLog, arm_of, run_experiment
from jeeves_reflexion.experiments.location import LessonLocation, RunLocation
from jeeves_reflexion.experiments.ray import executor as ray_executor
from jeeves_reflexion.experiments.ray.executor import RayExecutor, RayOptions
from jeeves_reflexion.sandbox import probe
from vectorstores import HashingEmbedder

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def node():
    """The address of a Ray node of this machine with two processors."""
    context = ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=80 * 1024 * 1024,
    )
    yield context.address_info["gcs_address"]
    ray.shutdown()


@dataclass
class Played:
    folder: Path
    results: object
    lessons: dict


@pytest.fixture(scope="module")
def whole(tmp_path_factory, postgres_dsn):
    """A run in this process to hold the others against."""
    folder = tmp_path_factory.mktemp("whole")

    async def run():
        results, log = await treasure.play(folder, postgres_dsn, ray=False)
        return Played(folder, results, await stored(folder, postgres_dsn, log))

    return anyio.run(run)


async def stored(folder, dsn, log):
    """What is in the lesson stores: texts, support and who taught them, in the order of writing."""
    place, found = LessonLocation(treasure.HELD, folder, dsn).of(log), {}
    async with place.store(HashingEmbedder()) as store:
        for arm in resuming.ARMS:
            page = await VectorLessonStore(place.scope(store, arm, 0)).list(limit=500)
            found[arm] = [
                (each.text, each.support, each.provenance.run_id, each.provenance.attempt)
                for each in page.lessons
            ]
    return found


async def kill(folder, victims):
    """Kill the worker processes that say that they are in the middle of a try."""
    for victim in victims:
        os.kill(await pid_of(folder / f"victim-{victim}"), signal.SIGKILL)


async def test_killed_processes_lose_nothing_and_double_nothing(node, whole, tmp_path, postgres_dsn):
    with anyio.fail_after(150):
        async with anyio.create_task_group() as group:
            group.start_soon(kill, tmp_path, (9, 25))
            results, log = await treasure.play(tmp_path, postgres_dsn, victims=(9, 25))
    assert results.table() == whole.results.table()
    assert rows(tmp_path / "run") == rows(whole.folder / "run")
    assert set(places(tmp_path / "run", "try").values()) == {1}
    assert places(tmp_path / "run", "try") == places(whole.folder / "run", "try")
    assert places(tmp_path / "run", "stored") == places(whole.folder / "run", "stored")
    assert await stored(tmp_path, postgres_dsn, log) == whole.lessons
    assert any(whole.lessons.values())
    assert count(tmp_path / "bill.log") == count(whole.folder / "bill.log"), "no answer is paid for twice"
    assert count(tmp_path / "run" / "calls.jsonl") == count(tmp_path / "bill.log")


async def test_a_killed_experiment_goes_on_from_its_folder(node, whole, tmp_path, postgres_dsn):
    program = [sys.executable, treasure.__file__, str(tmp_path), postgres_dsn, "--ray", node, "--pause", "20"]
    process = started(program)
    try:
        with anyio.fail_after(150):
            worker = await pid_of(tmp_path / "victim-20")
    finally:
        process.kill()
        said = process.communicate()[1].decode()
    assert process.returncode == -signal.SIGKILL, said
    await gone(worker)
    before = sum(places(tmp_path / "run", "try").values())
    assert 0 < before < sum(places(whole.folder / "run", "try").values())
    unsaid = count(tmp_path / "bill.log") - count(tmp_path / "run" / "calls.jsonl")
    results, log = await treasure.play(tmp_path, postgres_dsn, ray=False, resume=True)
    assert results.table() == whole.results.table()
    assert rows(tmp_path / "run") == rows(whole.folder / "run")
    assert await stored(tmp_path, postgres_dsn, log) == whole.lessons
    assert count(tmp_path / "bill.log") == count(whole.folder / "bill.log") + unsaid


def started(program):
    return subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


async def test_the_spending_limit_holds_for_all_processes_together(node, whole, tmp_path, postgres_dsn):
    limited, _ = await treasure.play(tmp_path, postgres_dsn, workers=2, max_cost=0.3)
    assert "spending limit of 0.3 USD is reached" in limited.interrupted
    assert 30 <= count(tmp_path / "bill.log") <= 31, (
        "the call that crosses the limit is the last, of each process"
    )
    results, _ = await treasure.play(tmp_path, postgres_dsn, ray=False, max_cost=99.0, resume=True)
    assert rows(tmp_path / "run") == rows(whole.folder / "run")
    assert results.table() == whole.results.table()
    assert count(tmp_path / "bill.log") == count(whole.folder / "bill.log")


def nobody_here(arm, seed):
    return Reflexion(treasure.nobody, evaluator=treasure.right, reflector=resuming.teach)


async def played_with(setup, tmp_path, **more):
    """Play two tasks with a setup."""
    log = RunLog(tmp_path / "run")
    await log.open({})
    async with RayExecutor(setup, workers=1, **more) as executor:
        return await run_experiment(
            Plan(("retry",), 1), resuming.TASKS[:2], nobody_here, log=log, executor=executor
        )


async def test_what_goes_wrong_in_a_worker_is_said_as_it_would_be_here(node, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_executor, "MOST_DEATHS", 2)
    models = {"mine": ScriptedModel(["never asked"])}
    async with RayExecutor(treasure.SmallSetup("troubled"), workers=1, models=models) as executor:

        async def play(what):
            log = RunLog(tmp_path / what)
            await log.open({})
            return await run_experiment(
                Plan(("retry",), 1), [Task(what, id=what)], nobody_here, log=log, executor=executor
            )

        with pytest.raises(
            ConfigurationError, match=r"no such setting \(in the worker process \d+ on "
        ) as caught:
            await play("misconfigured")
        assert "def troubled" not in str(caught.value)
        assert any("in troubled" in note for note in caught.value.__notes__)
        with pytest.raises(ConfigurationError, match=r"can't be read: ValueError"):
            await play("unsaid")
        with pytest.raises(ExperimentError, match=r"SystemExit: 3 \(in the worker"):
            await play("exit")
        with pytest.raises(ExperimentError, match=r"(?s)retry/seed 0/learning/unread/trial 1: .*style"):
            await play("unread")
        results = await play("large")  # in the same process: an exit does not end its event loop
        assert len(results.rows[0].trial.attempt.output) == 1_000_000
        with pytest.raises(ExperimentError, match=r"a worker process failed: .*cannot pickle"):
            await play("unsent")
        with pytest.raises(
            ExperimentError, match="the worker process of retry/seed 0/learning/deadly/trial 1 died 2 times"
        ):
            await play("deadly")


async def test_a_process_that_is_not_there_in_time_is_told(node, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_executor, "START_SECONDS", 0.01)
    with pytest.raises(
        ExperimentError, match="no worker process started within 0 s: does the cluster have a free proc"
    ):
        await played_with(treasure.SmallSetup("hanging"), tmp_path)


async def test_a_module_that_workers_lack_is_said_with_what_to_do(node, tmp_path):
    with pytest.raises(ConfigurationError, match=r"nowhere_to_be_found.*--ray-working-dir"):
        await played_with(treasure.SmallSetup("lacking"), tmp_path)


async def test_a_setup_that_can_not_be_pickled_is_refused_at_once():
    with pytest.raises(ConfigurationError, match=r"can't be sent to worker processes.*agent as module:name"):
        RayExecutor(treasure.SmallSetup(threading.Lock()), workers=1)


async def test_lessons_that_other_machines_can_not_see_are_refused(tmp_path):
    setup = treasure.TreasureSetup(tmp_path, LessonLocation("test", tmp_path))
    executor = RayExecutor(setup, workers=1)
    async with setup.open(lambda _: None) as tools:
        executor.check(arm_of("retry"), tools.make_loop("retry", 0))
        with pytest.raises(ConfigurationError, match=r"must be in PostgreSQL.*and not in a folder"):
            executor.check(arm_of("selective"), tools.make_loop("selective", 0))
        with pytest.raises(ConfigurationError, match="lessons must be in a store"):
            executor.check(arm_of("selective"), nobody_here("selective", 0))


async def test_a_cancelled_experiment_ends_its_processes(node, tmp_path):
    with anyio.move_on_after(60) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(played_with, treasure.SmallSetup("hanging", str(tmp_path)), tmp_path)
            pid = await pid_of(tmp_path / "hanging")
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    await gone(pid)


# -- benchmarks --------------------------------------------------------------------------------------------------------

PAGES = [
    ["Tamsin", ["Tamsin is a town on a lake.", " Its mayor is Bram Holt."]],
    ["Bram Holt", ["He is a painter."]],
]
QUESTIONS = [
    {"question": "Who is the mayor of Tamsin?", "answer": "Bram Holt", "supporting_facts": [["Tamsin", 1]]},
    {"question": "What is Bram Holt?", "answer": "painter", "supporting_facts": [["Bram Holt", 0]]},
]


async def test_hotpotqa_with_a_model_comes_to_the_same(node, tmp_path, postgres_dsn):
    given = [
        {"_id": f"q{number}", "type": "bridge", "level": "hard", "context": PAGES, **row}
        for number, row in enumerate(QUESTIONS)
    ]
    (tmp_path / "questions.json").write_text(json.dumps(given))
    found = []
    for place in (RunLocation(), RunLocation(RayOptions(), postgres_dsn)):
        model = ScriptedModel(answer_or_lesson)
        setting = hotpotqa.Setting(
            Plan(("selective",), trials=2, workers=1),
            tmp_path / ("far" if place.ray else "here"),
            HashingEmbedder(),
            questions=tuple(hotpotqa_questions.load_questions(tmp_path / "questions.json")),
            model=model,
            runs_on=place,
        )
        await hotpotqa.run(setting, say=str)
        found.append((rows(setting.out), len(model.calls)))
    assert found[0] == found[1]
    tried = [row for row in found[0][0] if row["kind"] == "tried"]
    assert any(row["recalled"] for row in tried)
    assert {row["passed"] for row in tried} == {False, True}


def answer_or_lesson(messages):
    text = " ".join(message.content for message in messages)
    return "Thought: t\nAction: Finish[painter]" if "Search" in text else "Look on the page of the town."


async def test_humaneval_comes_to_the_same(node, tmp_path, postgres_dsn):
    if not probe().complete:
        pytest.skip("this machine can't isolate code")
    prompt = 'def double(n):\n    """Return twice n.\n\n    >>> double(2)\n    4\n    """\n'
    test = "def check(candidate):\n    assert candidate(21) == 42\n"
    problem = {"task_id": "Tiny/double", "prompt": prompt, "entry_point": "double", "test": test}
    (tmp_path / "problems.jsonl").write_text(json.dumps(problem) + "\n")
    found = []
    for place in (RunLocation(), RunLocation(RayOptions(), postgres_dsn)):
        out = tmp_path / ("far" if place.ray else "here")
        setting = humaneval.Setting(
            Plan(("reflexion",), trials=1, judged_by="self"),
            out,
            HashingEmbedder(),
            problems=humaneval_problems.load_problems(tmp_path / "problems.jsonl"),
            model=ScriptedModel(["def double(n):\n    return n + 3", "Multiply by two, and add nothing."]),
            runs_on=place,
        )
        await humaneval.run(setting, say=lambda _: None)
        found.append(rows(out))
    assert found[0] == found[1]
    assert next(row["passed"] for row in found[0] if row["kind"] == "tried") is False


@pytest.mark.engine
async def test_alfworld_loses_nothing_when_a_process_with_its_engine_is_killed(
    node, made_games, made_folder, tmp_path, postgres_dsn
):
    found = []
    for place in (RunLocation(), RunLocation(RayOptions(), postgres_dsn)):
        out, killed, asked = tmp_path / ("far" if place.ray else "here"), [], []

        def play(messages, place=place, killed=killed, asked=asked):
            """Look around; the fifth question costs the process that asks its life."""
            asked.append(messages)
            if place.ray and len(asked) == 5:
                killed += engines()
                for worker in {worker for _, worker in killed}:
                    os.kill(worker, signal.SIGKILL)
            if messages[0].content.startswith("You write lessons"):
                return "Search the drawers first."
            return f"go to {len(messages)}"

        setting = alfworld.Setting(
            Plan(("own",), trials=2, workers=1, k=3),
            out,
            HashingEmbedder(),
            made_games=made_folder,
            count=1,
            step_limit=3,
            model=ScriptedModel(play),
            runs_on=place,
        )
        finished = await alfworld.run(setting, say=lambda _: None)
        found.append(
            (
                rows(out),
                [places(out, kind) for kind in ("try", "stored")],
                finished.results.table(),
                len(asked),
            )
        )
    assert killed, "no engine was found to be killed"
    for engine, _ in killed:
        await gone(engine)
    assert not engines(), "engines end with their workers"
    assert found[0] == found[1]
    assert any(row.get("recalled") for row in found[0][0])


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_command_starts_a_node_and_leaves_nothing_behind(tmp_path, postgres_dsn):
    (tmp_path / "capital_agent.py").write_text(AGENT)
    lands = {"Peru": "Lima", "France": "Paris", "Italy": "Rome", "Kenya": "Nairobi"}
    tasks = [
        {"prompt": f"Which city governs {land}", "id": land, "reference": city}
        for land, city in lands.items()
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    (tmp_path / "home").mkdir()
    mark = f"JEEVES_TEST_MARK={tmp_path.name}"
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    with TemporaryDirectory(prefix="ray-") as short:  # a socket's path must be short
        ours = {"HOME": str(tmp_path / "home"), "RAY_TMPDIR": short, "JEEVES_BENCH_LESSONS": postgres_dsn}
        far = bench(tmp_path, env={**theirs, **ours, **pair(mark)})
        assert not list(Path(short).glob("ray/session_2*")), "the node's logs are still there"
    by_arm = far["by_judge"]["oracle"]
    assert [point["solved"] for point in by_arm["retry"]["curve"]] == [1, 1]
    assert [point["solved"] for point in by_arm["reflexion"]["curve"]] == [1, 4]
    assert "postgres" not in (tmp_path / "far" / "config.json").read_text()
    assert not (tmp_path / "home" / ".ray").exists(), "Ray left a token for everybody to read"
    end = time.monotonic() + 20
    while left := marked(mark):
        assert time.monotonic() < end, left
        time.sleep(0.1)
