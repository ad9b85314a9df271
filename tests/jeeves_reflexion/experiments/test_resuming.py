"""Runs that are killed, resumed, limited and refused: real processes, real kills."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
import resuming
from test_experiments import TASKS, a_store, loops

from jeeves_reflexion import ConfigurationError, ExperimentError, VectorLessonStore
from jeeves_reflexion.experiments import Plan, RunLog, Watcher, journal, run_experiment
from jeeves_reflexion.experiments.past import Past
from vectorstores import FaissVectorStore, HashingEmbedder

SCRIPT = str(Path(resuming.__file__))
ROOT = Path(__file__).parents[3]
TORN = ("journal.jsonl", "events.jsonl")
"""What a kill may leave with half a line at its end."""


def start(folder, store, *more):
    return subprocess.Popen(
        [sys.executable, SCRIPT, str(folder), store, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def finish(folder, store, *more):
    process = start(folder, store, *more)
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    return json.loads(out), err


def killed_in_a_try(folder, store, after, *more):
    process = start(folder, store, "--pause", str(after), *more)
    try:
        assert "PAUSED" in process.stdout.readline(), process.stderr.read()
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def rows(folder):
    """The rows without what the clock says."""
    lines = [json.loads(line) for line in (folder / "run" / "rows.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in {"at", "seconds"}} for line in lines]


def timeless(found):
    """The figures without what the clock says."""
    return json.loads(
        json.dumps(found), object_hook=lambda d: {k: v for k, v in d.items() if "seconds" not in k}
    )


def stored(folder):
    """What is in the lesson stores: texts, support and who taught them, in the order of writing."""

    async def read():
        found = {}
        for arm in resuming.ARMS:
            store = FaissVectorStore(folder / "lessons", embedder=HashingEmbedder(), namespace=f"{arm}-0")
            async with store:
                page = await VectorLessonStore(store).list(limit=500)
            found[arm] = [
                (each.text, each.support, each.provenance.run_id, each.provenance.attempt)
                for each in page.lessons
            ]
        return found

    return anyio.run(read)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run to hold the others against."""
    folder = tmp_path_factory.mktemp("whole")
    found, _ = finish(folder, "faiss", "--model", "--workers", "4")
    return folder, found


def test_a_run_killed_in_the_middle_of_tries_and_of_a_line_comes_to_the_same(whole, tmp_path):
    reference, expected = whole
    for after in (9, 25):
        killed_in_a_try(tmp_path, "faiss", after, "--model", *(["--resume"] if after > 9 else []))
        for name in TORN:
            with (tmp_path / "run" / name).open("a") as file:
                file.write('{"kind": "try", "arm": "re')
    lost = lines(tmp_path / "bill.log") - lines(tmp_path / "run" / "calls.jsonl")
    assert 0 <= lost <= 2, "replies that were on their way into the log"
    begun = (tmp_path / "agent.log").read_text().splitlines()
    assert not (tmp_path / "run" / "results.json").exists()
    found, said = finish(tmp_path, "faiss", "--resume", "--model", "--workers", "4")
    assert "finished tries are in the log and are not made again" in said
    assert rows(tmp_path) == rows(reference)
    assert timeless(found) == timeless(expected)
    assert stored(tmp_path) == stored(reference)
    tries = (tmp_path / "agent.log").read_text().splitlines()
    all_tries = (reference / "agent.log").read_text().splitlines()
    assert set(tries) == set(all_tries)
    assert len(begun) < len(all_tries), "it was killed before its end"
    assert len(tries) - len(all_tries) <= 4, "only what was under way (two workers, two kills) is tried again"
    calls = lines(reference / "bill.log")
    assert lines(tmp_path / "run" / "calls.jsonl") == calls, "the log has each reply once"
    assert lines(tmp_path / "bill.log") == calls + lost, "no reply in the log is paid for twice"
    for name in (*TORN, "rows.jsonl"):
        for line in (tmp_path / "run" / name).read_text().splitlines():
            json.loads(line)


def lines(path):
    return path.read_text().count("\n")


def test_a_lesson_stored_by_a_killed_run_is_not_stored_again(whole, tmp_path):
    (reference, expected), nth = whole, 5
    process = start(tmp_path, "faiss", "--model", "--die-unsaid", str(nth))
    process.communicate(timeout=150)
    assert process.returncode == -signal.SIGKILL
    said = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    before = sum(map(len, stored(tmp_path).values()))
    assert before == nth > sum(line["kind"] == "stored" for line in said), "stored, and not yet said"
    found, _ = finish(tmp_path, "faiss", "--resume", "--model")
    assert stored(tmp_path) == stored(reference)
    assert rows(tmp_path) == rows(reference)
    assert timeless(found) == timeless(expected)


def test_lessons_that_were_in_memory_alone_are_stored_again(whole, tmp_path):
    reference, expected = whole
    killed_in_a_try(tmp_path, "memory", 30, "--model")
    found, _ = finish(tmp_path, "memory", "--resume", "--model")
    assert rows(tmp_path) == rows(reference)
    assert timeless(found) == timeless(expected)


def test_a_finished_run_has_nothing_left_to_do(whole, tmp_path):
    reference, expected = whole
    before = (reference / "agent.log").read_text()
    found, said = finish(reference, "faiss", "--resume", "--model")
    assert (reference / "agent.log").read_text() == before
    assert timeless(found) == timeless(expected)
    assert f"{expected['tries']} finished tries" in said


def test_a_spending_limit_stops_a_run_that_can_be_resumed(whole, tmp_path):
    reference, expected = whole
    limited, said = finish(tmp_path, "faiss", "--model", "--max-cost", "0.2")
    assert limited["complete"] is False
    assert "spending limit of 0.2 USD is reached" in limited["interrupted"]
    assert "stopped at" in said
    paid = (tmp_path / "bill.log").read_text().splitlines()
    assert 20 <= len(paid) <= 21, "the call that crosses the limit is the last, for each of two workers"
    again, _ = finish(tmp_path, "faiss", "--model", "--max-cost", "0.2", "--resume")
    assert (tmp_path / "bill.log").read_text().splitlines() == paid, "the limit holds for the whole run"
    assert again["complete"] is False
    found, _ = finish(tmp_path, "faiss", "--model", "--resume", "--max-cost", "99")
    assert timeless(found) == timeless(expected)
    assert rows(tmp_path) == rows(reference)
    assert len((tmp_path / "bill.log").read_text().splitlines()) == len(
        (reference / "bill.log").read_text().splitlines()
    )


def test_two_processes_are_not_at_one_run(tmp_path):
    process = start(tmp_path, "faiss", "--pause", "3")
    try:
        assert "PAUSED" in process.stdout.readline()
        other = start(tmp_path, "faiss", "--resume")
        _, said = other.communicate(timeout=60)
        assert other.returncode != 0
        assert "another process is using the run" in said
    finally:
        process.kill()
        process.communicate()


@pytest.mark.anyio
async def test_a_configuration_that_is_none_is_one_error_and_lets_the_folder_go(tmp_path):
    log = RunLog(tmp_path / "run")
    await log.open({"player": "one"})
    log.close()
    kept = (tmp_path / "run" / "config.json").read_text()
    broken = ["[]", "5", "null", '"x"', "{}", '{"format": 2}', '{"format": 2, "started": "x"}']
    for config in (*broken, "[" * 100_000, "", "\x00"):
        (tmp_path / "run" / "config.json").write_text(config)
        with pytest.raises(ConfigurationError, match="holds no run that can be resumed"):
            await RunLog(tmp_path / "run").open({"player": "one"}, resume=True)
    (tmp_path / "run" / "config.json").write_text(kept)
    mended = RunLog(tmp_path / "run")
    await mended.open({"player": "one"}, resume=True)
    mended.close()


@pytest.mark.anyio
async def test_another_configuration_is_refused_with_what_differs(tmp_path):
    log = RunLog(tmp_path / "run")
    await log.open({"player": "one", "workers": 2, "nested": {"a": 1}})
    await log.begin({"trials": 3, "tasks": {"a": "1", "b": "2", "workers": "3"}, "workers": 2})
    log.close()
    again = RunLog(tmp_path / "run")
    with pytest.raises(ConfigurationError) as refused:
        await again.open({"player": "two", "workers": 9, "nested": {"a": 2}}, resume=True)
    assert 'player: - "one"  + "two"' in str(refused.value)
    assert "nested: a: - 1  + 2" in str(refused.value)
    assert "workers" not in str(refused.value)
    same = RunLog(tmp_path / "run")
    await same.open({"player": "one", "workers": 9, "nested": {"a": 1}}, resume=True)
    with pytest.raises(ConfigurationError) as refused:
        await same.begin({"trials": 4, "tasks": {"a": "9", "c": "2", "workers": "4"}, "workers": 1})
    assert "trials: - 3  + 4" in str(refused.value)
    assert 'tasks: a: - "1"  + "9"' in str(refused.value)
    assert 'tasks: b: - "2"  + (not set)' in str(refused.value)
    assert 'tasks: c: - (not set)  + "2"' in str(refused.value)
    assert 'tasks: workers: - "3"  + "4"' in str(refused.value)
    assert str(refused.value).count("workers") == 1


@pytest.mark.anyio
async def test_tries_of_a_round_that_could_not_begin_are_made_again(tmp_path):
    from jeeves_reflexion import Attempt, Evaluation, ModelConnectionError, Reflexion

    up = False

    async def agent(task, session):
        if not up:
            raise ModelConnectionError("nobody listens")
        return Attempt("done")

    async def right(task, attempt):
        return Evaluation(1.0, passed=attempt.output == "done")

    def make(arm, seed):
        return Reflexion(agent, evaluator=right, reflector=lambda task, trials: "Do it.")

    for resume in (False, True):
        log = RunLog(tmp_path / "run")
        await log.open({}, resume=resume)
        if not up:
            with pytest.raises(ExperimentError, match="nobody listens"):
                await run_experiment(Plan(("retry",), 2), resuming.TASKS, make, log=log)
        else:
            results = await run_experiment(Plan(("retry",), 2), resuming.TASKS, make, log=log)
        up = True
    assert results.curve("retry").points[0].share.successes == len(resuming.TASKS)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.anyio
async def test_what_was_learned_when_it_was_cancelled_is_stored_once_when_it_goes_on(tmp_path):
    class Stop(Watcher):
        left = 4

        def tried(self, row):
            self.left -= 1
            if not self.left:
                scope.cancel()

    plan = Plan(("reflexion",), 2, workers=1)
    reference, watcher = RunLog(tmp_path / "whole"), Stop()
    await reference.open({})
    expected = await run_experiment(plan, TASKS, loops(a_store()), log=reference)
    store = a_store()
    for resume, each in ((False, watcher), (True, None)):
        log = RunLog(tmp_path / "run")
        await log.open({}, resume=resume)
        with anyio.CancelScope() as scope:
            results = await run_experiment(plan, TASKS, loops(store), log=log, watcher=each)
        if not resume:
            assert (scope.cancelled_caught, len(rows(tmp_path))) == (True, 4)
            last = json.loads(log.events.read_text().splitlines()[-1])
            assert f"4 of {len(TASKS)} tasks tried" in last["where"]
    page = await VectorLessonStore(store.scoped("reflexion-0")).list(limit=500)
    taught = [(row.task.id, row.trial.number) for row in results.rows if row.trial.reflection]
    assert [(each.task_id, each.provenance.attempt) for each in page.lessons] == taught
    assert results.table() == expected.table()


def test_half_a_line_that_a_full_disk_left_spoils_no_later_one(tmp_path):
    place = [{"arm": "retry", "seed": 0, "split": "learning", "task_id": name, "trial": 1} for name in "abc"]
    lines = [{"kind": "stored", **each, "lesson_id": "7" * 99, "refused": ""} for each in place]
    path = tmp_path / "journal.jsonl"
    journal.append(path, lines[:1])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            journal.append(path, lines[1:2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    journal.append(path, lines[2:])
    past = Past(path)
    past.refresh()
    assert [position.task_id for position in past.stored] == ["a", "c"]


@pytest.mark.anyio
async def test_a_stop_before_all_is_read_again_takes_no_row_away(tmp_path):
    class Stop(Watcher):
        def tried(self, row):
            raise OSError("the screen is off")

    store, plan, log = a_store(), Plan(("reflexion",), 2), RunLog(tmp_path / "run")
    await log.open({})
    results = await run_experiment(plan, TASKS, loops(store), log=log)
    again = RunLog(tmp_path / "run")
    await again.open({}, resume=True)
    with pytest.raises(OSError, match="the screen is off"):
        await run_experiment(plan, TASKS, loops(store), log=again, watcher=Stop())
    assert len(rows(tmp_path)) == len(results.rows)


@pytest.mark.anyio
async def test_a_journal_that_cannot_be_read_names_the_line(tmp_path):
    log = RunLog(tmp_path / "run")
    await log.open({})
    await log.begin({})
    log.journal.write_text('{"kind": "stored"}\n')
    log.close()
    again = RunLog(tmp_path / "run")
    await again.open({}, resume=True)
    with pytest.raises(ExperimentError, match="line 1: KeyError"):
        await again.begin({})


def parts_gone(run, lessons):
    """Ways in which a part of a run's folder is lost, each with what is said of it."""
    others = [path for path in run.iterdir() if path.name != "config.json"]
    return {
        "journal": ((run / "journal.jsonl").unlink, "journal.jsonl is missing"),
        "emptied journal": (
            lambda: os.truncate(run / "journal.jsonl", 0),
            "the content of journal.jsonl is missing",
        ),
        "config": ((run / "config.json").unlink, "config.json is missing"),
        "all but the configuration": (
            lambda: [path.unlink() for path in others],
            "journal.jsonl is missing",
        ),
        "all but the lessons": (
            lambda: [*(path.unlink() for path in run.iterdir()), lessons.rename(run / "lessons")],
            "config.json, journal.jsonl is missing",
        ),
        "what tells of tries": (
            lambda: [os.truncate(run / name, 0) for name in ("journal.jsonl", "rows.jsonl")],
            "lessons that this run wrote in arm .*, seed 0",
        ),
    }


PARTS = list(parts_gone(Path(), Path()))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.anyio
async def test_a_folder_that_lacks_a_part_of_its_run_is_refused(tmp_path, part):
    run, lessons, tried = tmp_path / "run", tmp_path / "lessons", []

    async def go():
        async with FaissVectorStore(lessons, embedder=HashingEmbedder(), namespace="test") as store:
            log = RunLog(run)
            await log.open({}, resume=True)
            make = loops(store)
            plan = Plan(arms=("selective",), trials=2)
            return await run_experiment(plan, TASKS, make, log=log, watcher=Tries(tried))

    class Tries(Watcher):
        def __init__(self, rows):
            self.rows = rows

        def tried(self, row):
            self.rows.append(row)

    await go()
    lose, said = parts_gone(run, lessons)[part]
    lose()
    before = len(tried)
    with pytest.raises((ConfigurationError, ExperimentError), match=said) as refused:
        await go()
    assert "name another folder" in str(refused.value)
    assert len(tried) == before, "nothing is tried anew"


@pytest.mark.anyio
async def test_a_start_that_was_killed_is_no_run(tmp_path):
    (tmp_path / "journal.jsonl").touch()
    log = RunLog(tmp_path)
    assert not log.exists
    await log.open({}, resume=True)
    assert (log.exists, log.resumed) == (True, False)
    log.close()
