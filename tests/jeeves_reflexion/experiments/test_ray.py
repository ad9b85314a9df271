"""Experiments on Ray: the same results in any number of processes, and nothing is missed when some of them die."""

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
import resuming

# Ray reads these once. The token is for the other processes that connect to the node.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_worker_niceness": "0",
}

pytest.importorskip("ray", reason="Ray is not installed (the extra 'ray')")
pytest.importorskip("psycopg", reason="psycopg is not installed (the extra 'postgres')")

import ray
import treasure

from benchmarks.hotpotqa import experiment as hotpotqa
from benchmarks.hotpotqa import questions as hotpotqa_questions
from jeeves_reflexion import ConfigurationError, Reflexion, ScriptedModel, VectorLessonStore
from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments import Plan, RunLog, ray_executor, run_experiment
from jeeves_reflexion.experiments.elsewhere import RunsOn
from jeeves_reflexion.experiments.lesson_place import LessonPlace
from jeeves_reflexion.experiments.ray_executor import RayExecutor, RayOptions
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


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows(folder):
    """The rows without what the clock says."""
    found = [row for row in lines(folder / "run" / "rows.jsonl") if row["kind"] != "interrupted"]
    return [{k: v for k, v in row.items() if k not in {"at", "seconds"}} for row in found]


def places(folder, kind):
    """How often each try is in the journal, or each lesson."""
    found = [line for line in lines(folder / "run" / "journal.jsonl") if line["kind"] == kind]
    return Counter((line["arm"], line["split"], line["task_id"], line["trial"]) for line in found)


def count(path):
    return path.read_text().count("\n")


async def stored(folder, dsn, log):
    """What is in the lesson stores: texts, support and who taught them, in the order of writing."""
    place, found = LessonPlace(treasure.HELD, folder, dsn).of(log), {}
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


async def pid_of(path):
    """The process that wrote its number to a file, once it has."""
    await until(lambda: path.exists() and path.read_text().endswith(" "))
    return int(path.read_text())


async def gone(pid):
    with anyio.fail_after(60):
        await until(lambda: not alive(pid))


def alive(pid):
    return Path(f"/proc/{pid}").exists()


async def until(done):
    while not done():  # noqa: ASYNC110 - it happens in other processes
        await anyio.sleep(0.01)


async def test_killed_processes_lose_nothing_and_double_nothing(node, whole, tmp_path, postgres_dsn):
    with anyio.fail_after(150):
        async with anyio.create_task_group() as group:
            group.start_soon(kill, tmp_path, (9, 25))
            results, log = await treasure.play(tmp_path, postgres_dsn, victims=(9, 25))
    assert results.table() == whole.results.table()
    assert rows(tmp_path) == rows(whole.folder)
    assert set(places(tmp_path, "try").values()) == {1}
    assert places(tmp_path, "try") == places(whole.folder, "try")
    assert places(tmp_path, "stored") == places(whole.folder, "stored")
    assert await stored(tmp_path, postgres_dsn, log) == whole.lessons
    assert any(whole.lessons.values())
    assert count(tmp_path / "bill.log") == count(whole.folder / "bill.log"), "no answer is paid for twice"
    assert count(tmp_path / "run" / "calls.jsonl") == count(tmp_path / "bill.log")


async def test_one_process_comes_to_the_same(node, whole, tmp_path, postgres_dsn):
    results, log = await treasure.play(tmp_path, postgres_dsn, workers=1)
    assert results.table() == whole.results.table()
    assert rows(tmp_path) == rows(whole.folder)
    assert await stored(tmp_path, postgres_dsn, log) == whole.lessons


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
    before = sum(places(tmp_path, "try").values())
    assert 0 < before < sum(places(whole.folder, "try").values())
    unsaid = count(tmp_path / "bill.log") - count(tmp_path / "run" / "calls.jsonl")
    results, log = await treasure.play(tmp_path, postgres_dsn, resume=True)
    assert results.table() == whole.results.table()
    assert rows(tmp_path) == rows(whole.folder)
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
    results, _ = await treasure.play(tmp_path, postgres_dsn, workers=2, max_cost=99.0, resume=True)
    assert rows(tmp_path) == rows(whole.folder)
    assert results.table() == whole.results.table()
    assert count(tmp_path / "bill.log") == count(whole.folder / "bill.log")


async def played_with(kit, tmp_path, agent=None):
    """Play two tasks with a kit."""

    def make(arm, seed):
        return Reflexion(agent or treasure.nobody, evaluator=treasure.right, reflector=resuming.teach)

    log = RunLog(tmp_path / "run")
    await log.open({})
    async with RayExecutor(kit, workers=1) as executor:
        return await run_experiment(
            Plan(("retry",), 1), resuming.TASKS[:2], make, log=log, executor=executor, on_stop="wait"
        )


async def test_a_try_that_kills_each_process_stops_the_run(node, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_executor, "MOST_DEATHS", 2)
    with pytest.raises(
        ExperimentError, match=r"the worker process of retry/seed 0/learning/\w+/trial 1 died 2 times"
    ):
        await played_with(treasure.SmallKit("deadly"), tmp_path)


async def test_errors_in_a_worker_keep_their_class_and_say_where(node, tmp_path):
    with pytest.raises(
        ConfigurationError, match=r"no such setting \(in the worker process \d+ on "
    ) as caught:
        await played_with(treasure.SmallKit("misconfigured"), tmp_path)
    assert "def misconfigured" not in str(caught.value)
    assert any("in misconfigured" in note for note in caught.value.__notes__)


async def test_a_module_that_workers_lack_is_said_with_what_to_do(node, tmp_path):
    with pytest.raises(ConfigurationError, match=r"nowhere_to_be_found.*--ray-working-dir"):
        await played_with(treasure.SmallKit("lacking"), tmp_path)


async def test_a_kit_that_can_not_be_pickled_is_refused_at_once():
    with pytest.raises(ConfigurationError, match=r"can't be sent to worker processes.*agent as module:name"):
        RayExecutor(treasure.SmallKit(threading.Lock()), workers=1)


async def test_lessons_that_other_machines_can_not_see_are_refused(node, tmp_path):
    place = LessonPlace("test", tmp_path)
    kit = treasure.TreasureKit(tmp_path, place)
    log = RunLog(tmp_path / "run")
    await log.open({})
    async with kit.open(lambda _: None) as tools, RayExecutor(kit, workers=1) as executor:
        with pytest.raises(ConfigurationError, match=r"must be in PostgreSQL.*and not in a folder"):
            await run_experiment(
                Plan(("selective",), 1), resuming.TASKS, tools.make_loop, log=log, executor=executor
            )


async def test_a_cancelled_experiment_ends_its_processes(node, tmp_path):
    with anyio.move_on_after(60) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(played_with, treasure.SmallKit("hanging", str(tmp_path)), tmp_path)
            pid = await pid_of(tmp_path / "hanging")
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    await gone(pid)


# -- a benchmark -------------------------------------------------------------------------------------------------------

PAGES = [
    ["Tamsin", ["Tamsin is a town on a lake.", " Its mayor is Bram Holt."]],
    ["Bram Holt", ["He is a painter."]],
]
QUESTIONS = [
    {"question": "Who is the mayor of Tamsin?", "answer": "Bram Holt", "supporting_facts": [["Tamsin", 1]]},
    {"question": "What is Bram Holt?", "answer": "painter", "supporting_facts": [["Bram Holt", 0]]},
]


async def test_hotpotqa_with_a_model_comes_to_the_same(node, tmp_path, postgres_dsn):
    rows = [
        {"_id": f"q{number}", "type": "bridge", "level": "hard", "context": PAGES, **row}
        for number, row in enumerate(QUESTIONS)
    ]
    (tmp_path / "questions.json").write_text(json.dumps(rows))
    found = []
    for place in (RunsOn(), RunsOn(RayOptions(), postgres_dsn)):
        model = ScriptedModel(answer_or_lesson)
        setting = hotpotqa.Setting(
            tuple(hotpotqa_questions.load_questions(tmp_path / "questions.json")),
            Plan(("retry", "selective"), trials=2, workers=2),
            tmp_path / ("far" if place.ray else "here"),
            HashingEmbedder(),
            agent="react",
            model=model,
            runs_on=place,
        )
        finished = await hotpotqa.run(setting)
        found.append((finished.outcomes, sorted(finished.lessons), len(model.calls)))
    assert found[0] == found[1]
    assert any(outcome.recalled for outcome in found[0][0])
    assert {outcome.em for outcome in found[0][0]} == {0.0, 1.0}


def answer_or_lesson(messages):
    text = " ".join(message.content for message in messages)
    return "Thought: t\nAction: Finish[painter]" if "Search" in text else "Look on the page of the town."


# -- the command line --------------------------------------------------------------------------------------------------

AGENT = """
import sys

CAPITALS = {"Peru": "Lima", "France": "Paris", "Italy": "Rome", "Kenya": "Nairobi"}

def answer(task, session):
    if "ray" in sys.modules:
        print("this is the worker's own output")
    land = task.prompt.split()[-1]
    return CAPITALS[land] if f"of {land} is" in session.blocks["reflexion_lessons"] else "Lima"

def teach(task, trials):
    land = task.prompt.split()[-1]
    return f"The capital of {land} is {CAPITALS[land]}."
"""


def test_the_command_starts_a_node_and_leaves_nothing_behind(tmp_path, postgres_dsn):
    (tmp_path / "capital_agent.py").write_text(AGENT)
    lands = {"Peru": "Lima", "France": "Paris", "Italy": "Rome", "Kenya": "Nairobi"}
    tasks = [
        {"prompt": f"Which city governs {land}", "id": land, "reference": city}
        for land, city in lands.items()
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    mark = f"JEEVES_TEST_MARK={tmp_path.name}"
    local = bench(tmp_path, "--out", "here")
    far = bench(
        tmp_path,
        "--out",
        "far",
        "--executor",
        "ray",
        env={"JEEVES_BENCH_LESSONS": postgres_dsn, **pair(mark)},
    )
    assert far["by_judge"] == local["by_judge"]
    assert far["by_judge"]["oracle"]["reflexion"]["curve"][-1]["solved"] == 4
    assert "postgres" not in (tmp_path / "far" / "config.json").read_text()
    end = time.monotonic() + 20
    while left := marked(mark):
        assert time.monotonic() < end, left
        time.sleep(0.1)


def pair(mark):
    return dict([mark.split("=")])


def bench(folder, *more, env=()):
    program = [sys.executable, "-c", "from jeeves_reflexion.cli import main; main()", "bench", "tasks.jsonl"]
    program += ["--agent", "capital_agent:answer", "--reflector", "capital_agent:teach"]
    program += [
        "--arms",
        "retry,reflexion",
        "--trials",
        "2",
        "--workers",
        "2",
        "--embedder",
        "hashing",
        "--json",
    ]
    done = subprocess.run(
        [*program, *more],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, **dict(env)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def marked(mark):
    """The processes that were started with a mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append((path.parent / "cmdline").read_bytes().replace(b"\0", b" ")[:80])
        except OSError:
            continue  # it ended, or is somebody else's
    return found
