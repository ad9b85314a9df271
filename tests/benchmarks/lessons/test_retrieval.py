"""The retrieval benchmark: its labels, its figures, and a whole page from a set of a few lines."""

from __future__ import annotations

import io
import json
import math
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.lessons.retrieval import Asked, Library, Way, estimates, main, ndcg, precision, recall
from benchmarks.lessons.retrieval_data import (
    Document,
    Goal,
    Query,
    alfworld_lessons,
    described_queries,
    grade,
    held_out_queries,
    read_goals,
)
from jeeves_reflexion import Task
from vectorstores import HashingEmbedder

LOG = Path(__file__).parents[4] / "shared" / "data" / "alfworld" / "logged_reflections.jsonl"
CLEAN = "pick_clean_then_place_in_recep"
HEAT = "pick_heat_then_place_in_recep"


def test_a_grade_counts_kind_then_thing_and_place():
    wanted = Goal(CLEAN, "plate", "cabinet")
    assert grade(wanted, wanted) == 3
    assert grade(wanted, Goal(CLEAN, "mug", "cabinet")) == grade(wanted, Goal(CLEAN, "plate", "shelf")) == 2
    assert grade(wanted, Goal(CLEAN, "mug", "shelf")) == grade(wanted, Goal(HEAT, "plate", "cabinet")) == 1
    assert grade(wanted, Goal(HEAT, "plate", "shelf")) == grade(wanted, "a question") == 0
    assert grade("one", "one") == 3
    assert grade("one", "another") == 0


def test_every_goal_is_read_off_a_reflection_that_says_it():
    if not LOG.exists():
        pytest.skip(f"needs {LOG}")
    goals = read_goals()
    rows = [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines()]
    lines = retrieval_goals()
    assert len(goals) == len(lines) == 48
    for line in lines:
        texts = [each["text"] for row in rows if row["env"] == line["env"] for each in row["reflections"]]
        assert any(line["quote"] in text for text in texts), line
        assert line["place"] in line["quote"]
    unsaid = {row["env"] for row in rows if row["reflections"]} - goals.keys()
    assert unsaid == {"env_16", "env_65"}


def retrieval_goals():
    from_file = Path(read_goals.__code__.co_filename).with_name("corpora") / "alfworld_goals.jsonl"
    return [json.loads(line) for line in from_file.read_text(encoding="utf-8").splitlines()]


def asked(offered, possible, *, query="q", cluster="c", similarities=()):
    return Asked(query, cluster, tuple(offered), tuple(possible), tuple(similarities))


def test_the_figures_are_those_of_their_definitions():
    one = asked([0, 3, 1], [3, 2, 2, 1, 0, 0, 0])
    gain = 7 / math.log2(3) + 1 / math.log2(4)
    best = 7 + 3 / math.log2(3) + 3 / math.log2(4) + 1 / math.log2(5)
    assert ndcg(one) == pytest.approx(gain / best)
    assert recall(one, 5) == pytest.approx(1 / 3)
    assert recall(one, 1) == 0.0
    assert precision(one) == pytest.approx(1 / 3)
    found = estimates(
        [one, asked([], [3], query="r", cluster="d"), asked([1], [1, 0], query="s", cluster="e")]
    )
    assert found["empty"].value == pytest.approx(1 / 3)
    assert found["precision"].value == pytest.approx(1 / 6)
    assert found["precision"].low <= found["precision"].value <= found["precision"].high


def test_differences_are_paired_and_by_cluster():
    better = [asked([3], [3], query=str(n), cluster=str(n // 5)) for n in range(20)]
    worse = [asked([0], [3], query=str(n), cluster=str(n // 5)) for n in range(20)]
    apart = estimates(better, worse)["nDCG@5"]
    assert (apart.value, apart.low, apart.high) == (1.0, 1.0, 1.0)
    assert estimates(better, better)["recall@5"].value == 0.0
    with pytest.raises(ValueError, match="same queries"):
        estimates(better, worse[::-1])


def documents():
    goals = [Goal(CLEAN, "plate", "cabinet"), Goal(CLEAN, "mug", "shelf"), Goal(HEAT, "egg", "fridge")]
    words = {CLEAN: "wash it in the sinkbasin", HEAT: "open the microwave before you heat it"}
    return [
        Document(
            Task(f"{g.kind} {g.thing} {g.place}", id=g.thing, kind=g.kind), f"{g.thing}: {words[g.kind]}", g
        )
        for g in goals
    ]


@pytest.mark.anyio
async def test_a_floor_on_similarities_is_what_the_store_would_do():
    library = Library(documents(), HashingEmbedder())
    wanted = Goal(CLEAN, "plate", "cabinet")
    queries = [
        Query(Task(f"{CLEAN} plate cabinet", id="1", kind=CLEAN), wanted, "1"),
        Query(Task("heat the egg fridge", id="2", kind=HEAT), Goal(HEAT, "egg", "fridge"), "2"),
        Query(Task(f"{CLEAN} plate cabinet", id="3", kind=CLEAN), wanted, "3", apart="plate"),
    ]
    try:
        free = await library.ask(queries, Way("all", floor=-1.0))
        assert [each.recalled[0] for each in free] == [3, 3, 1]
        assert [len(each.possible) for each in free] == [3, 3, 2]
        for floor in (0.0, 0.2, 0.5, 0.9):
            kept = await library.ask(queries, Way("floor", floor=floor))
            assert [each.above(floor).recalled for each in free] == [each.recalled for each in kept]
        assert not kept[1].recalled
    finally:
        await library.close()


@pytest.fixture
def data(tmp_path):
    """A folder like the benchmark's own, of a few lines."""
    folder = tmp_path / "data"
    for name in ("alfworld", "hotpotqa"):
        (folder / name).mkdir(parents=True)
    rows = [
        {"env": f"env_{env}", "reflections": [{"text": text}, {"text": text}]}
        for env, text in (
            (2, "Wash the plate."),
            (54, "Take the plate to the sink."),
            (16, "Look for a vase."),
            (20, "Heat it first."),
        )
    ]
    (folder / "alfworld" / "logged_reflections.jsonl").write_text(
        "\n".join(map(json.dumps, rows)), encoding="utf-8"
    )
    game = {
        "task_id": "t",
        "task_type": CLEAN,
        "pddl_params": {"object_target": "Plate", "parent_target": "CounterTop", "toggle_target": ""},
        "turk_annotations": {
            "anns": [{"task_desc": f"Put a clean plate on the counter, {n}. "} for n in range(4)]
        },
    }
    with tarfile.open(folder / "alfworld" / "valid_seen_140.tar.xz", "w:xz") as tar:
        text = json.dumps(game).encode()
        info = tarfile.TarInfo("a/traj_data.json")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    question = {
        "id": "h",
        "question": "Who? ",
        "trials": [{"reflections_after": ["Search for it."]}, {"reflections_after": []}],
    }
    solved = {"id": "i", "question": "When?", "trials": [{"reflections_after": []}]}
    log = folder / "hotpotqa" / "hotpotqa_replay_cot_no_context_reflexion.jsonl"
    log.write_text("\n".join(map(json.dumps, (question, solved))), encoding="utf-8")
    return folder


def test_sets_are_read_without_repetitions_and_without_tasks_that_nobody_said(data):
    lessons = alfworld_lessons(data / "alfworld" / "logged_reflections.jsonl", read_goals())
    assert [each.text for each in lessons] == [
        "Wash the plate.",
        "Take the plate to the sink.",
        "Heat it first.",
    ]
    assert [(each.apart, each.task.id) for each in held_out_queries(lessons)] == [
        (f"env_{n}", f"env_{n}") for n in (2, 54, 20)
    ]
    described = described_queries(data / "alfworld" / "valid_seen_140.tar.xz")
    assert [each.task.prompt[-3:] for each in described] == [" 0.", " 1.", " 2."]
    assert {each.goal for each in described} == {Goal(CLEAN, "plate", "countertop")}


def test_the_page_is_written(data, tmp_path):
    options = [str(data), "--embedder", "hashing", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, options, catch_exceptions=False)
    assert result.exit_code == 0
    page = (tmp_path / "out" / "lessons_retrieval.md").read_text(encoding="utf-8")
    assert "3 distinct reflections" in " ".join(page.split())
    assert "| by task, the default | 1.000" in page
    assert "| 0.3 |" in page
    kept = json.loads((tmp_path / "out" / "lessons_retrieval.json").read_text(encoding="utf-8"))
    assert kept["described"]["queries"] == 3
