"""The runner on tasks small enough to reason about: a room with a treasure behind one of some doors."""

from __future__ import annotations

import gc
import hashlib
import io
import json
from dataclasses import replace

import anyio
import pytest

from jeeves_reflexion import (
    Attempt,
    ConfigurationError,
    Evaluation,
    ExperimentError,
    LessonRefusedError,
    LessonSettings,
    LessonStoreError,
    LoopOptions,
    ModelConnectionError,
    Reflexion,
    RewardEvaluator,
    Step,
    Task,
    Trial,
    VectorLessonStore,
)
from jeeves_reflexion.experiments import (
    ARMS,
    PlainProgress,
    Plan,
    RunLog,
    Watcher,
    arm_lessons,
    run_experiment,
)
from jeeves_reflexion.experiments.executors import LocalExecutor
from jeeves_reflexion.summary import counted
from vectorstores import HashingEmbedder, InMemoryVectorStore

pytestmark = pytest.mark.anyio

DOORS = ("red", "green", "blue", "white", "black", "brown")
ROOMS = ("cellar", "attic", "garage", "kitchen", "stable", "library", "chapel", "tower")


def number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def treasure_behind(task: Task) -> str:
    return DOORS[number(task.id) % len(DOORS)]


TASKS = [
    Task(f"find the treasure behind a door of the {room}", id=room, kind="even" if i % 2 == 0 else "odd")
    for i, room in enumerate(ROOMS)
]


class Seeker:
    """Opens one door a try: the one that a lesson about this room names, else one by chance."""

    def __init__(self, seed: int, *, delay: float = 0.0) -> None:
        self.seed = seed
        self.delay = delay

    async def __call__(self, task, session):
        await anyio.sleep(self.delay * (number(task.id) % 3))
        door = DOORS[number(f"{self.seed}:{task.id}:{session.attempt}") % len(DOORS)]
        for line in session.blocks["reflexion_lessons"].splitlines():
            if f"the {task.id}," in line:
                door = line.rsplit(" ", 2)[-2]
        found = door == treasure_behind(task)
        return Attempt(
            door, (Step("", f"open {door}", "gold" if found else "dust"),), metadata={"won": found}
        )


def teach(task, trials):
    return f"In the {task.id}, open the {treasure_behind(task)} door."


def loops(store, tasks=TASKS, *, delay=0.0, agent=Seeker):
    def make(arm, seed):
        return Reflexion(
            agent(seed, delay=delay),
            evaluator=RewardEvaluator("won"),
            reflector=teach,
            lesson_store=arm_lessons(
                arm,
                store.scoped(f"{arm}-{seed}"),
                tasks,
                settings=LessonSettings(min_similarity=-1.0),
                seed=seed,
            ),
            max_attempts=3,
            options=LoopOptions(learn=arm != "retry"),
        )

    return make


def a_store():
    return InMemoryVectorStore(HashingEmbedder(), namespace="test")


def shape(results):
    return [
        (r.arm, r.seed, r.task.id, r.trial.number, r.trial.attempt.output, r.trial.passed)
        + ((r.trial.recall.texts,) if r.trial.recall else ())
        for r in results.rows
    ]


def tried_rows(log):
    return [json.loads(line) for line in log.rows.read_text().splitlines()]


def last_event(log):
    event = json.loads(log.events.read_text().splitlines()[-1])
    assert event["kind"] == "experiment.interrupted"
    return event


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_results_do_not_depend_on_the_number_of_workers(tmp_path):
    plans = [Plan(arms=tuple(ARMS), trials=2, seeds=(1,), workers=w, k=3) for w in (1, 4)]
    tasks = TASKS[:5]
    shapes = []
    for plan in plans:
        log = RunLog(tmp_path / str(plan.workers))
        await log.open({})
        shapes.append(shape(await run_experiment(plan, tasks, loops(a_store(), delay=0.002), log=log)))
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) > len(tasks) * len(ARMS)


async def test_the_arms_differ_in_memory_alone(tmp_path):
    log = RunLog(tmp_path / "run")
    await log.open({"note": "test"})
    plan = Plan(arms=tuple(ARMS), trials=2, seeds=(0,), workers=2, k=8)
    results = await run_experiment(plan, TASKS, loops(a_store()), log=log)
    first = {arm: [r for r in shape(results) if r[0] == arm and r[3] == 1] for arm in ARMS}
    assert len({tuple(row[1:6] for row in rows) for rows in first.values()}) == 1, (
        "the first try knows nothing"
    )
    second = {arm: results.curve(arm).points[1].share.successes for arm in ARMS}
    assert second["own"] == second["selective"] == second["monotonic"] == len(TASKS)
    assert second["retry"] < second["own"]
    assert second["irrelevant"] < second["own"]
    for row in results.rows:
        recalled = row.trial.recall.offered if row.trial.recall else ()
        match row.arm:
            case "retry":
                assert row.trial.recall is None
                assert row.trial.reflection is None
            case "own":
                assert all(item.lesson.task_id == row.task.id for item in recalled)
            case "irrelevant":
                assert all(item.lesson.task_kind != row.task.kind for item in recalled)
    offered = [
        len(r.trial.recall.offered) for r in results.rows if r.arm == "irrelevant" and r.trial.number == 2
    ]
    assert min(offered) > 1, "the placebo has as many words as there are lessons of another kind"


async def test_the_curve_is_cumulative_and_the_table_says_n(tmp_path):
    log = RunLog(tmp_path / "run")
    await log.open({})
    plan = Plan(arms=("own",), trials=3, seeds=(0,))
    results = await run_experiment(plan, TASKS, loops(a_store()), log=log)
    solved = [p.share.successes for p in results.curve("own").points]
    assert solved == sorted(solved)
    assert all(p.share.n == len(TASKS) for p in results.curve("own").points)
    assert f"{solved[0]}/{len(TASKS)}" in results.table()


async def test_the_log_holds_every_try_and_no_secret(tmp_path):
    key = "sk-proj-" + "a1B2" * 8

    def leak(task, trials):
        return f"In the {task.id}, use {key} at the {treasure_behind(task)} door."

    def make(arm, seed):
        loop = loops(a_store())(arm, seed)
        return Reflexion(loop.agent, evaluator=loop.evaluator, reflector=leak, lesson_store=loop.lessons)

    log = RunLog(tmp_path / "run")
    await log.open({"key": key})
    results = await run_experiment(Plan(arms=("own",), trials=2), TASKS, make, log=log)
    assert len(tried_rows(log)) == len(results.rows)
    written = "".join(path.read_text() for path in (tmp_path / "run").iterdir())
    assert key not in written
    assert "[REDACTED:" in written


async def test_a_folder_with_a_run_is_refused(tmp_path):
    await RunLog(tmp_path).open({})
    with pytest.raises(ConfigurationError, match="holds a run already"):
        await RunLog(tmp_path).open({})


class HardToStore:
    """Keeps lessons, slowly, and refuses those of one room."""

    def __init__(self, lessons, *, refused=None, delay=0.0, error=None):
        self.lessons, self.refused, self.delay, self.kept = lessons, refused, delay, []
        self.error = error or LessonStoreError("the disk is full")

    async def recall(self, task, *, k, run_id="", attempt=0, skip_run=""):
        return await self.lessons.recall(task, k=k, run_id=run_id, attempt=attempt, skip_run=skip_run)

    async def outcome(self, recall_id, evaluation):
        return await self.lessons.outcome(recall_id, evaluation)

    async def record(self, task, reflection, *, provenance):
        await anyio.sleep(self.delay)
        if task.id == self.refused:
            raise self.error
        lesson = await self.lessons.record(task, reflection, provenance=provenance)
        self.kept.append(task.id)
        return lesson


def with_store(lessons):
    def make(arm, seed):
        return Reflexion(
            Seeker(seed), evaluator=RewardEvaluator("won"), reflector=teach, lesson_store=lessons
        )

    return make


class Noting(LocalExecutor):
    """Keeps the trials it made, which the results do not."""

    def __init__(self):
        self.trials = []

    async def make(self, job, loop, scorer, budget):
        made = await super().make(job, loop, scorer, budget)
        self.trials.append((job.task.id, made.entry.trial))
        return made


async def test_results_read_their_trials_from_the_folder_and_hold_none(tmp_path):
    others = [each for each in gc.get_objects() if isinstance(each, Trial)]  # of other tests
    log, executor = RunLog(tmp_path), Noting()
    await log.open({})
    async with a_store() as store:
        lessons = VectorLessonStore(store)
        hard = HardToStore(lessons, refused=ROOMS[2], error=LessonRefusedError("not such a lesson", "7" * 32))
        plan = Plan(arms=("selective@2",), trials=2)
        results = await run_experiment(plan, TASKS, with_store(hard), log=log, executor=executor)
        made = {(task, trial.number): trial for task, trial in executor.trials}
        assert any(trial.recall.left_out for trial in made.values())
        assert {(row.task.id, row.number) for row in results.rows} == made.keys()
        for row in results.rows:
            first, trial = made[row.task.id, row.number], row.trial
            if trial.lesson is not None:
                assert trial.lesson.text == (await lessons.get(trial.lesson.id)).text == row.lesson
            refused = ("not such a lesson",) if row.task.id == ROOMS[2] and not row.passed else ()
            assert trial.problems == refused
            recall = replace(first.recall, left_out=())
            assert trial == replace(
                first, recall=recall, lesson=trial.lesson, pending=False, problems=refused
            )
    assert any(row.trial.lesson for row in results.rows)
    assert any(row.trial.problems for row in results.rows)
    executor.trials.clear()
    made.clear()
    del first, trial, hard
    gc.collect()
    held = [each for each in gc.get_objects() if isinstance(each, Trial)]
    assert all(any(each is other for other in others) for each in held)
    log.journal.unlink()
    with pytest.raises(ExperimentError, match="can't be read"):
        _ = results.rows[0].trial


async def test_results_give_no_trial_of_another_run_that_took_their_folder(tmp_path):
    shown = []
    for words in ("first", "other"):
        log, agent = RunLog(tmp_path / "run"), lambda seed, delay, words=words: lambda task, session: words
        await log.open({})
        results = await run_experiment(
            Plan(arms=("retry",), trials=1), TASKS, loops(a_store(), agent=agent), log=log
        )
        shown.append(results.rows)
        assert {row.trial.attempt.output for row in results.rows} == {words}
        (tmp_path / "run").rename(tmp_path / words)
        if words == "first":
            with pytest.raises(ExperimentError, match="can't be read"):
                _ = results.rows[0].trial
    (tmp_path / "other").rename(tmp_path / "run")
    said = []
    for row in shown[0]:
        with pytest.raises(ExperimentError) as refused:
            _ = row.trial
        said.append(str(refused.value))
    assert any("holds another try" in each for each in said)


@pytest.mark.parametrize("what", ["verdict", "lesson"])
async def test_what_could_not_be_read_back_stops_the_run_at_once_and_is_made_again(tmp_path, what):
    class Numbered(HardToStore):
        async def record(self, task, reflection, *, provenance):
            lesson = await super().record(task, reflection, provenance=provenance)
            return replace(lesson, id=7) if odd else lesson

    async def judge(task, attempt):
        return Evaluation(0.0, criteria_scores={"style": None} if odd and what == "verdict" else {})

    def make(arm, seed):
        return Reflexion(
            Seeker(seed), evaluator=judge, reflector=teach, lesson_store=lessons if what == "lesson" else None
        )

    store = a_store()
    lessons, plan = Numbered(VectorLessonStore(store)), Plan(arms=("selective",), trials=2)
    for odd in (True, False):
        log = RunLog(tmp_path)
        await log.open({}, resume=not odd)
        if odd:
            with pytest.raises(
                ExperimentError, match=r"(?s)selective/seed 0/learning/\w+/trial 1: .*(style|id)"
            ):
                await run_experiment(plan, TASKS, make, log=log)
        else:
            results = await run_experiment(plan, TASKS, make, log=log)
    assert len([row.trial for row in results.rows]) == 2 * len(TASKS)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_cancellation_while_lessons_are_stored_loses_none(tmp_path):
    lessons = HardToStore(VectorLessonStore(a_store()), delay=0.02)
    log = RunLog(tmp_path / "run")
    await log.open({})
    with anyio.CancelScope() as scope:

        class Late(Watcher):
            left = len(TASKS)

            def tried(self, row):
                self.left -= 1
                if not self.left:
                    scope.deadline = anyio.current_time() + 0.03

        await run_experiment(
            Plan(arms=("own",), trials=3), TASKS, with_store(lessons), log=log, watcher=Late()
        )
    assert scope.cancelled_caught
    tried = tried_rows(log)
    assert len(tried) == len(TASKS)
    assert lessons.kept == [row["task_id"] for row in tried if not row["passed"]]
    assert "cancelled" in last_event(log)["why"]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_lesson_that_cannot_be_stored_loses_no_other(tmp_path):
    lessons = HardToStore(VectorLessonStore(a_store()), refused=TASKS[2].id)
    log = RunLog(tmp_path / "run")
    await log.open({})
    with pytest.raises(LessonStoreError, match="disk is full"):
        await run_experiment(Plan(arms=("own",), trials=3), TASKS, with_store(lessons), log=log)
    tried = tried_rows(log)
    assert [line["task_id"] for line in tried] == [task.id for task in TASKS]
    failed = [line["task_id"] for line in tried if not line["passed"]]
    assert TASKS[2].id in failed
    assert lessons.kept == [task for task in failed if task != TASKS[2].id]
    assert "disk is full" in last_event(log)["why"]


async def test_where_nothing_can_be_begun_there_is_no_result(tmp_path):
    async def dead(task, session):
        raise ModelConnectionError("nobody listens at 127.0.0.1:9")

    def make(arm, seed):
        return Reflexion(dead, evaluator=RewardEvaluator("won"), reflector=teach)

    log = RunLog(tmp_path / "run")
    await log.open({})
    with pytest.raises(ExperimentError, match="nobody listens"):
        await run_experiment(Plan(arms=("retry",), trials=3), TASKS, make, log=log)


async def test_tries_that_ended_in_an_error_are_counted(tmp_path):
    class Stumbling(Seeker):
        async def __call__(self, task, session):
            if task.id == TASKS[0].id:
                raise RuntimeError("stumbled")
            return await super().__call__(task, session)

    log = RunLog(tmp_path / "run")
    await log.open({})
    plan = Plan(arms=("own",), trials=2)
    results = await run_experiment(plan, TASKS, loops(a_store(), agent=Stumbling), log=log)
    assert f"2 of {len(results.rows)} tries ended in an error" in results.table()


async def test_a_log_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ExperimentError, match="can't be written"):
        await RunLog(tmp_path / "file" / "run").open({})
    log = RunLog(tmp_path / "run")
    await log.open({})
    log.events.symlink_to("/dev/full")
    with pytest.raises(ExperimentError, match=r"events\.jsonl.*No space left"):
        await log.tell("started", {})


async def test_a_store_that_fails_ends_it_with_its_own_error(tmp_path):
    log = RunLog(tmp_path / "run")
    await log.open({})
    store = a_store()
    await store.close()
    with pytest.raises(LessonStoreError, match="closed"):
        await run_experiment(Plan(arms=("selective",)), TASKS, loops(store), log=log)


async def test_tasks_must_be_told_apart(tmp_path):
    with pytest.raises(ConfigurationError, match="distinct ids"):
        await run_experiment(Plan(), [TASKS[0], TASKS[0]], loops(a_store()), log=RunLog(tmp_path))


def test_a_plan_that_cannot_work_says_why():
    for bad in (
        {"arms": ("magic",)},
        {"arms": ()},
        {"trials": 0},
        {"workers": 0},
        {"k": 0},
        {"seeds": (1, 1)},
        {"holdout": 1.0},
        {"max_cost_usd": 0.0},
        {"cluster": "room"},
        {"trials": 2.5},
    ):
        with pytest.raises(ConfigurationError, match=next(iter(bad)).rstrip("s")):
            Plan(**bad)


async def test_plain_progress_has_a_line_for_each_trial(tmp_path):
    out = io.StringIO()
    log = RunLog(tmp_path / "run")
    await log.open({})
    plan = Plan(arms=("retry", "own"), trials=2)
    results = await run_experiment(plan, TASKS, loops(a_store()), log=log, watcher=PlainProgress(out))
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    written = sum(
        r.trial.reflection is not None for r in results.rows if r.arm == "own" and r.trial.number == 1
    )
    assert f", {counted(written, 'lesson')} written, " in lines[2]
    assert ", no lessons written, " in lines[0]


async def test_a_run_goes_on_where_every_agent_gives_an_empty_error_with_its_answer(tmp_path):
    def answering(seed, delay):
        return lambda task: Attempt("red", error="", metadata={"won": False})

    log = RunLog(tmp_path / "run")
    await log.open({})
    plan = Plan(arms=("retry",), trials=2, seeds=(0,))
    results = await run_experiment(plan, TASKS[:2], loops(a_store(), agent=answering), log=log)
    assert [row.number for row in results.rows] == [1, 1, 2, 2]
