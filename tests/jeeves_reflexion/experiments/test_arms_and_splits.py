"""Arms, held-out tasks, gold, judges, costs: what an experiment keeps apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_experiments import TASKS, a_store, loops, treasure_behind

from jeeves_reflexion import (
    Attempt,
    ConfigurationError,
    Evaluation,
    LessonSettings,
    Provenance,
    Reflection,
    Reflexion,
    RewardEvaluator,
    Step,
    Task,
    Trial,
)
from jeeves_reflexion.experiments import (
    ARMS,
    Expected,
    Plan,
    Results,
    RunLog,
    Tried,
    arm_lessons,
    arm_names,
    arm_of,
    estimate,
    figures,
    run_experiment,
    split,
)
from jeeves_reflexion.experiments.arms import last_attempt
from jeeves_reflexion.experiments.journal import rebuilt, trial_json
from jeeves_reflexion.models import Prices
from jeeves_reflexion.types import Lesson, Recall, RecalledLesson, Usage

pytestmark = pytest.mark.anyio


async def played(tmp_path, plan, make, tasks=TASKS, **more):
    log = RunLog(tmp_path / "run")
    await log.open({})
    return await run_experiment(plan, tasks, make, log=log, **more)


# -- arms


def test_arms_are_named_with_a_k_and_what_is_none_is_refused():
    assert arm_of("selective@3").k == 3
    assert arm_of("own").kind == "own"
    assert arm_names(" retry, selective@1,selective@12 ") == ("retry", "selective@1", "selective@12")
    assert all(arm_of(name).k is None for name in ARMS)
    for bad in ("", "magic", "selective@", "selective@0", "selective@-1", "selective@03", "retry@2", "@3"):
        with pytest.raises(ConfigurationError):
            arm_names(bad)


async def test_the_control_arms_have_no_memory_whatever_loop_they_are_given(tmp_path):
    def make(arm, seed):
        loop = loops(a_store())("selective", seed)
        loop.options = type(loop.options)()
        return loop

    results = await played(tmp_path, Plan(("react", "retry", "tabu-retry", "last-attempt"), 3), make)
    assert {row.trial.number for row in results.rows if row.arm == "react"} == {1}
    for row in results.rows:
        assert row.trial.recall is None
        assert row.trial.reflection is None
        shown = {"last-attempt": "Your last attempt at", "tabu-retry": "Your attempts at this task so far"}
        seen = shown.get(row.arm, "") if row.trial.number > 1 else ""
        assert row.trial.block.startswith(seen)
        assert bool(row.trial.block) == bool(seen)
    react = [point.share.successes for point in results.curve("react").points]
    assert react == [react[0]] * 3


async def test_the_last_attempt_is_shown_as_it_was_and_the_actions_of_all_alone(tmp_path):
    results = await played(tmp_path, Plan(("last-attempt", "tabu-retry"), 3), loops(a_store()))
    tabu = {row.task.id: row.trial for row in results.rows if row.arm == "tabu-retry"}  # the last of each
    opened = [row for row in results.rows if row.arm == "tabu-retry" and row.trial.number < 3]
    for row in opened:
        last = tabu[row.task.id]
        if row.number != last.number:
            assert f": open {row.trial.attempt.output}" in last.block
            assert "Answer" not in last.block
    by_task = {}
    for row in (row for row in results.rows if row.arm == "last-attempt"):
        before = by_task.get(row.task.id)
        if before is not None:
            assert f"Action 1: open {before.attempt.output}" in row.trial.block
            assert f"Answer: {before.attempt.output}" in row.trial.block
        by_task[row.task.id] = row.trial
    assert any(row.trial.number == 3 for row in results.rows)


def test_a_long_last_attempt_is_cut_and_says_how_it_ended():
    steps = tuple(Step("", f"look {n}", "dust " * 50) for n in range(500))
    text = last_attempt([Trial(1, Attempt("", steps, interrupted="max_turns"), Evaluation(0.0))])
    assert len(text) < 10_000
    assert text.endswith("It ended early: max_turns")


async def test_a_k_sweep_recalls_so_many(tmp_path):
    plan = Plan(("selective@1", "selective@3"), 2, k=5)
    results = await played(tmp_path, plan, loops(a_store()))
    offered = {
        arm: {len(r.trial.recall.offered) for r in results.rows if r.arm == arm and r.trial.number == 2}
        for arm in plan.arms
    }
    assert offered == {"selective@1": {1}, "selective@3": {3}}


async def test_the_papers_arm_has_the_last_reflections_of_its_own_task_in_order():
    store = a_store()
    lessons = arm_lessons("reflexion", store, TASKS, settings=LessonSettings(), seed=0)
    words = tuple(f"Ask the cook about room {number} first." for number in range(13))
    for task in TASKS[:2]:
        for attempt, text in enumerate(words, 1):
            source = Provenance("run", attempt, 0.0, created_at=1000.0 + attempt)
            await lessons.record(task, Reflection(text), provenance=source)
    for k in (1, 3):  # of more reflections than are searched for k
        recall = await lessons.recall(TASKS[1], k=k)
        assert recall.texts == words[-k:]
    assert {item.lesson.task_id for item in recall.offered} == {TASKS[1].id}


async def test_others_only_withholds_the_tasks_own_lessons_and_no_others():
    lessons = arm_lessons("others-only", a_store(), TASKS, settings=LessonSettings(min_similarity=-1), seed=0)
    for task in TASKS[:2]:
        for text in ("Mind the dog at night.", f"Take the lamp to {task.id}."):
            await lessons.record(task, Reflection(text), provenance=Provenance("run", 1, 0.0))
    recall = await lessons.recall(TASKS[0], k=5)
    assert {item.lesson.task_id for item in recall.offered} == {TASKS[1].id}
    assert set(recall.texts) == {"Mind the dog at night.", f"Take the lamp to {TASKS[1].id}."}


# -- held-out tasks


ids = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=20, unique=True)


@given(ids, st.floats(0.01, 0.99), st.integers(0, 5), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_a_split_parts_the_tasks_by_seed_and_id_alone(names, share, seed, random):
    tasks = [Task("do it", id=name) for name in names]
    learning, held_out = split(tasks, share, seed=seed)
    assert sorted(t.id for t in (*learning, *held_out)) == sorted(names)
    assert len(held_out) == min(max(round(share * len(tasks)), 1), len(tasks) - 1)
    shuffled = list(tasks)
    random.shuffle(shuffled)
    assert {t.id for t in split(shuffled, share, seed=seed)[1]} == {t.id for t in held_out}
    order = {task.id: place for place, task in enumerate(tasks)}
    assert [order[t.id] for t in learning] == sorted(order[t.id] for t in learning)


@given(ids, st.integers(0, 5))
@settings(max_examples=30)
def test_a_larger_share_holds_out_the_same_tasks_and_more(names, seed):
    tasks = [Task("do it", id=name) for name in names]
    held = [{t.id for t in split(tasks, share, seed=seed)[1]} for share in (0.2, 0.5, 0.8)]
    assert held[0] <= held[1] <= held[2]


def test_tasks_of_one_room_are_held_out_together():
    tasks = [Task("do it", id=str(n), metadata={"room": n % 5}) for n in range(20)]
    for seed in range(5):
        learning, held_out = split(tasks, 0.4, seed=seed, by="room")
        assert {task.metadata["room"] for task in learning}.isdisjoint(t.metadata["room"] for t in held_out)
        assert (len(learning), len(held_out)) == (12, 8)
    with pytest.raises(ConfigurationError, match="two rooms"):
        split(tasks[::5], 0.4, by="room")
    with pytest.raises(ConfigurationError, match="no metadata 'floor'"):
        split(tasks, 0.4, by="floor")


def test_what_cannot_be_split():
    assert split(TASKS, 0.0) == (tuple(TASKS), ())
    with pytest.raises(ConfigurationError, match="two tasks"):
        split(TASKS[:1], 0.5)
    with pytest.raises(ConfigurationError, match=r"\[0, 1\)"):
        split(TASKS, 1.0)


async def test_held_out_tasks_see_lessons_and_write_none(tmp_path):
    store = a_store()
    tasks = [
        Task(f"find the treasure behind a door of the {room}, try {n}", id=f"{room}{n}", kind=room)
        for room in ("cellar", "attic", "garage")
        for n in range(3)
    ]
    plan = Plan(("retry", "selective", "monotonic"), 3, seeds=(0, 1), k=4, holdout=0.4)
    results = await played(tmp_path, plan, loops(store, tasks), tasks)
    held = {task.id for task in results.held_out}
    assert len(held) == 4
    out = [row for row in results.rows if row.split == "held-out"]
    assert len(out) == 4 * 3 * 2
    for row in out:
        assert row.task.id in held
        assert row.trial.number == 1
        assert row.trial.reflection is None
    assert any(row.trial.recall.offered for row in out if row.arm == "selective")
    for arm in ("selective", "monotonic"):
        lessons = arm_lessons(
            arm, store.scoped(f"{arm}-0"), tasks, settings=LessonSettings(min_similarity=-1), seed=0
        )
        recalled = await lessons.recall(tasks[0], k=50)
        assert recalled.offered
        assert not {item.lesson.task_id for item in recalled.offered} & held
    assert results.transfer("selective").n == 8
    assert results.curve("selective").points[0].share.n == 5 * 2
    assert "held out, first try" in results.table()
    assert figures(results)["by_judge"]["oracle"]["selective"]["transfer"]["n"] == 8


# -- gold


async def test_gold_reaches_the_evaluator_and_nobody_else(tmp_path):
    gold = "xylophone-canary-77"
    tasks = [
        Task(f"say the word of day {n}", id=f"day{n}", kind=str(n % 2), reference=gold) for n in range(4)
    ]
    seen = {"agent": [], "reflector": [], "evaluator": [], "scorer": []}

    async def agent(task, session):
        seen["agent"].append(repr((task, session.blocks)))
        return Attempt("a word")

    def reflector(task, trials):
        seen["reflector"].append(repr((task, trials)))
        return f"Think of day {task.id} first."

    def judge(name, score):
        async def evaluator(task, attempt):
            seen[name].append(task.reference)
            return Evaluation(score, passed=False, rationale=f"it is {gold}", issues=(f"not {gold}",))

        return evaluator

    def make(arm, seed):
        store = arm_lessons(arm, stores.scoped(f"{arm}-{seed}"), tasks, settings=LessonSettings(), seed=seed)
        return Reflexion(agent, evaluator=judge("evaluator", 0.0), reflector=reflector, lesson_store=store)

    stores = a_store()
    plan = Plan(tuple(ARMS), 2, holdout=0.25)
    results = await played(tmp_path, plan, make, tasks, scorer=judge("scorer", 1.0))
    assert set(seen["evaluator"]) == set(seen["scorer"]) == {gold}
    assert seen["agent"]
    assert seen["reflector"]
    assert gold not in "".join(seen["agent"] + seen["reflector"])
    assert gold not in (tmp_path / "run" / "rows.jsonl").read_text()
    assert gold not in (tmp_path / "run" / "config.json").read_text()
    for row in results.rows:
        assert gold not in row.trial.block
        assert gold not in str(row.as_json())


# -- judges


async def test_self_judged_and_oracle_judged_figures_stand_apart(tmp_path):
    async def content(task, attempt):
        return Evaluation(1.0, passed=attempt.output in {"red", "green", "blue"})

    async def oracle(task, attempt):
        return Evaluation(float(attempt.output == treasure_behind(task)))

    def make(arm, seed):
        loop = loops(a_store())(arm, seed)
        return Reflexion(
            loop.agent, evaluator=content, reflector=lambda t, r: "Look well.", lesson_store=loop.lessons
        )

    plan = Plan(("retry",), 3, judged_by="self")
    results = await played(tmp_path, plan, make, scorer=oracle)
    found = figures(results)["by_judge"]
    assert set(found) == {"self", "oracle"}
    right = sum(
        rows[-1].trial.attempt.output == treasure_behind(task)
        for task in TASKS
        for rows in [[row for row in results.rows if row.task.id == task.id]]
    )
    assert found["oracle"]["retry"]["curve"][-1]["solved"] == right
    assert found["self"]["retry"]["curve"][-1]["solved"] > right
    assert results.curve("retry").judged_by == "self"
    assert "Self-judged" in results.table()
    with pytest.raises(ConfigurationError, match="judged by oracle"):
        Results(tuple(TASKS), ("retry",), (0,), 1).curve("retry", by="self")


# -- costs


def test_an_estimate_counts_every_try_and_says_what_is_unknown():
    plan = Plan(("react", "retry", "selective@2"), 4, seeds=(0, 1), holdout=0.25)
    bare = estimate(plan, TASKS, None, None)
    assert bare.tries == 2 * ((6 + 2) + 2 * (6 * 4 + 2))
    assert "tokens unknown, cost unknown" in str(bare)
    tokens = estimate(plan, TASKS, Expected(1000, 100), None)
    assert (tokens.tokens, tokens.cost_usd) == (bare.tries * 1100, None)
    priced = estimate(plan, TASKS, Expected(1000, 100), Prices(2.0, 10.0))
    assert priced.cost_usd == pytest.approx(bare.tries * 0.003)


def test_costs_of_an_arm_by_solved_task():
    def row(passed, usage):
        trial = Trial(
            1, Attempt("x"), Evaluation(float(passed)), passed=passed, usage={"agent": usage}, seconds=2.0
        )
        return Tried("retry", 0, TASKS[0], trial)

    results = Results(tuple(TASKS), ("retry",), (0,), 1)
    results.rows = [row(False, Usage(1, 100, 20, 0.5)), row(True, Usage(1, 100, 20, 0.25))]
    cost = results.cost("retry").as_json()
    assert (cost["tokens_per_solved"], cost["cost_usd_per_solved"], cost["seconds_per_solved"]) == (
        240,
        0.75,
        4.0,
    )
    results.rows = [row(False, Usage(1, 100, 20, None))]
    cost = results.cost("retry").as_json()
    assert (cost["cost_usd"], cost["tokens_per_solved"]) == (None, None)


async def test_a_spending_limit_needs_prices(tmp_path):
    async def agent(task, session):
        return Attempt("x", usage=Usage(1, 10, 10, None))

    def make(arm, seed):
        return Reflexion(agent, evaluator=RewardEvaluator("won"), reflector=lambda t, r: "No.")

    with pytest.raises(ConfigurationError, match="known prices"):
        await played(tmp_path, Plan(("retry",), 2, max_cost_usd=1.0), make)


async def test_an_agent_that_reports_its_own_cost_is_limited_too(tmp_path):
    async def agent(task, session):
        return Attempt("x", usage=Usage(1, 10, 10, 0.1), metadata={"won": False})

    def make(arm, seed):
        return Reflexion(agent, evaluator=RewardEvaluator("won"), reflector=lambda t, r: "No.")

    results = await played(tmp_path, Plan(("retry",), 3, workers=1, max_cost_usd=0.45), make)
    assert "spending limit" in results.interrupted
    past = (tmp_path / "run" / "journal.jsonl").read_text().splitlines()
    assert len(past) == 5, "a try that is paid for is kept"
    cost = results.cost("retry")
    assert (cost.tries, cost.usage.cost_usd) == (5, pytest.approx(0.5)), (
        "and told of, in a round cut short too"
    )
    assert results.curve("retry").points == ()


# -- values


def test_a_trial_comes_back_whole():
    lesson = Lesson(
        "id", "Look.", "t", "x", Provenance("r", 1, 0.5), evidence=(1, 2), metadata={"a": [1, {"b": None}]}
    )
    trial = Trial(
        2,
        Attempt(
            "out",
            (Step("t", "a", "o", failed=True),),
            Usage(1, 2, 3, None, 1),
            metadata={"n": 1.5, "m": [1, 2]},
        ),
        Evaluation(0.5, quotes_gold=frozenset({"issues", "rationale"}), issues=("i",), confidence=0.1),
        recall=Recall("r", "t", (RecalledLesson(lesson, 0.5, "why"),)),
        reflection=Reflection("Look.", fields={"a": "b"}),
        lesson=lesson,
        usage={"agent": Usage(1, 2, 3, 0.5)},
        problems=("p",),
    )
    data = json.loads(json.dumps(trial_json(trial)))
    again = rebuilt(Trial, data)
    assert again == trial
    assert again.recall.texts == ("Look.",)
    assert rebuilt(Trial, {**data, "of_a_later_version": 1}) == trial
