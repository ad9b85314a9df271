"""Names and texts that are no trouble by themselves: ids like files, ends of lines that only Unicode knows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from test_experiments import ROOMS, Seeker, a_store, loops

from jeeves_reflexion import LessonSettings, Provenance, Reflection, Task, VectorLessonStore
from jeeves_reflexion.experiments import Plan, RunLog, arm_lessons, run_experiment
from jeeves_reflexion.experiments.arms import first_written

pytestmark = pytest.mark.anyio

# Behind an arm such as selective@1 these look like addresses, which redaction takes out.
FILES = [Task(f"find the treasure of the {room}", id=f"{room}.txt") for room in ROOMS]


async def played(folder, store, *, resume=False, tasks=FILES, agent=Seeker):
    log = RunLog(folder / "run")
    await log.open({}, resume=resume)
    make = loops(store, tasks, agent=agent)
    return await run_experiment(Plan(("selective@1",), 2), tasks, make, log=log)


async def lessons_of(store):
    return (await VectorLessonStore(store.scoped("selective@1-0")).list(limit=500)).lessons


async def test_runs_whose_names_look_like_addresses_are_told_apart(tmp_path):
    store = a_store()
    await played(tmp_path, store)
    lessons = await lessons_of(store)
    runs = {(each.provenance.run_id, each.task_id) for each in lessons}
    assert len({run for run, _ in runs}) == len({task for _, task in runs}) == len(runs) > 2


async def test_tasks_are_called_the_same_in_design_and_journal_also_where_ids_hide_secrets(tmp_path):
    tasks = [
        Task(f"find the treasure of the {room}", id=f"{room}-{'8f3kQ9zL2m' * 2}@example.org")
        for room in ROOMS
    ]
    await played(tmp_path, a_store(), tasks=tasks)
    design = json.loads((tmp_path / "run" / "config.json").read_bytes())["design"]
    lines = (tmp_path / "run" / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    named = {line["task_id"] for line in map(json.loads, lines) if "task_id" in line}
    assert set(design["tasks"]) == named
    assert len(named) == len(tasks)


async def test_a_run_that_an_earlier_version_began_with_such_ids_is_resumed(tmp_path):
    tasks = [Task(f"find the treasure of the {room}", id=f"{room}@example.org") for room in ROOMS]
    await played(tmp_path, a_store(), tasks=tasks)
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_bytes())
    config["design"]["tasks"] = {"[REDACTED:email]": list(config["design"]["tasks"].values())[-1]}
    path.write_text(json.dumps(config), encoding="utf-8")
    results = await played(tmp_path, a_store(), tasks=tasks, resume=True)
    assert {row.task.id for row in results.rows} == {task.id for task in tasks}


@pytest.mark.parametrize("odd", ["caf\udce9.txt", frozenset({"a", "b"})], ids=["half a character", "a set"])
async def test_an_attempt_whose_environment_names_things_oddly_is_kept_and_not_made_again(odd, tmp_path):
    made = []

    class Odd(Seeker):
        async def __call__(self, task, session):
            made.append(task.id)
            attempt = await super().__call__(task, session)
            return replace(attempt, metadata={"files": {odd: 1}})

    store = a_store()
    await played(tmp_path, store, agent=Odd)
    first = len(made)
    await played(tmp_path, store, agent=Odd, resume=True)
    assert len(made) == first > 0


async def test_a_lesson_of_such_a_run_is_found_when_a_kill_left_it_unsaid(tmp_path):
    store = a_store()
    await played(tmp_path, store)
    before = await lessons_of(store)
    journal = tmp_path / "run" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    said = {line["task_id"]: line["lesson_id"] for line in map(json.loads, lines) if line["kind"] == "stored"}
    kept = [line for line in lines if json.loads(line)["kind"] != "stored"]
    # One is left, else all of them would count as lost with a store in memory.
    first = next(line for line in lines if json.loads(line)["kind"] == "stored")
    journal.write_text("".join([*kept, first]))
    await played(tmp_path, store, resume=True)
    assert await lessons_of(store) == before
    again = map(json.loads, journal.read_text().splitlines())
    assert {line["task_id"]: line["lesson_id"] for line in again if line["kind"] == "stored"} == said


async def test_a_lesson_that_somebody_forgot_is_not_stored_again(tmp_path):
    store = a_store()
    await played(tmp_path, store)
    first, *others = await lessons_of(store)
    assert others
    await VectorLessonStore(store.scoped("selective@1-0")).forget(first.id)
    await played(tmp_path, store, resume=True)
    assert await lessons_of(store) == tuple(others)


async def test_runs_are_compared_as_they_are_kept():
    """A run's id with a secret in it is kept without; who looks for it by its whole id finds it all the same."""
    secret = "run of somebody@example.com"
    for arm in ("monotonic", "selective"):
        lessons = arm_lessons(arm, a_store(), FILES, settings=LessonSettings(min_similarity=-1.0), seed=0)
        beneath = getattr(lessons, "lessons", lessons)
        written = await lessons.record(
            FILES[0],
            Reflection("Open the red door.", outcome="failed"),
            provenance=Provenance(secret, 1, 0.0),
        )
        assert "@" not in written.provenance.run_id
        found = await first_written(beneath, since=0.0, run_id=secret, attempt=1)
        assert found is not None
        assert found.id == written.id
        assert (await lessons.recall(FILES[1], k=3)).offered
        assert not (await lessons.recall(FILES[1], k=3, skip_run=secret)).offered
