"""The retrieval benchmark: its labels, its figures, and a whole page from a set of a few lines."""

from __future__ import annotations

import gzip
import io
import json
import math
import tarfile
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from benchmarks.alfworld.requirements import require_engine
from benchmarks.lessons.retrieval import main
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
from benchmarks.lessons.retrieval_figures import (
    Asked,
    differences,
    estimates,
    ndcg,
    precision,
    recall,
    shares,
)
from benchmarks.lessons.retrieval_play import Field, Outcome, play
from benchmarks.lessons.retrieval_recall import Library, Way, same_kind_first
from benchmarks.lessons.retrieval_report import play_rows
from benchmarks.lessons.retrieval_words import heaviest
from jeeves_reflexion import ConfigurationError, MissingDependencyError, Task
from jeeves_reflexion.lessons.recalling import Picking
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
    assert found["MRR"].value == pytest.approx(0.25)  # of the two that could be answered
    assert found["empty"].value == pytest.approx(1 / 3)
    assert found["precision"].value == pytest.approx(1 / 6)
    assert found["precision"].low <= found["precision"].value <= found["precision"].high


def test_differences_are_paired_and_by_cluster():
    better = [asked([3], [3], query=str(n), cluster=str(n // 5)) for n in range(20)]
    worse = [asked([0], [3], query=str(n), cluster=str(n // 5)) for n in range(20)]
    apart = differences(better, worse)["nDCG@5"]
    assert (apart.value, apart.low, apart.high) == (1.0, 1.0, 1.0)
    assert differences(better, better)["recall@5"].value == 0.0
    with pytest.raises(ValueError, match="same queries"):
        differences(better, worse[::-1])
    apart = shares({"a": [True, True], "b": [False]}, {"a": [False, False], "b": [False]})
    assert apart.value == pytest.approx(2 / 3)
    assert (apart.low, apart.high) == (0.0, 1.0)


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
        assert [each.offered[0] for each in free.asked] == [3, 3, 1]
        assert [len(each.possible) for each in free.asked] == [3, 3, 2]
        for floor in (0.0, 0.2, 0.5, 0.9):
            kept = await library.ask(queries, Way("floor", floor=floor))
            assert [each.above(floor).offered for each in free.asked] == [each.offered for each in kept.asked]
        assert not kept.asked[1].offered
        way = Way("kind", floor=-1.0, picking=Picking(strategy=same_kind_first))
        heat = (await library.ask(queries, way)).asked[1]
        assert heat.offered == (3, 0, 0)
    finally:
        await library.close()


def test_what_was_won_is_held_against_the_default_of_the_same_lessons():
    def outcome(way, won, *, others=False):
        return Outcome(way, others, won, 1, 4, 1.5, 0.25)

    nearest, other = Way("nearest"), Way("other")
    found = play_rows([
        outcome(None, {"a": [False], "b": [True, False]}),
        outcome(nearest, {"a": [True], "b": [True, True]}),
        outcome(other, {"a": [True], "b": [True, True]}),
        outcome(nearest, {"a": [False], "b": [True, False]}, others=True),
        outcome(other, {"a": [True], "b": [True, True]}, others=True),
    ])  # fmt: skip
    assert [row["solved"][0] for row in found] == [2, 4, 4, 2, 4]
    assert [row["difference"][0] for row in found] == pytest.approx([-0.5, 0.0, 0.0, 0.0, 0.5])


def test_the_heaviest_are_the_first_of_a_sort():
    assert heaviest([0.1, 3.0, 2.0])[:2] == [1, 2]


@pytest.fixture
def data(tmp_path):
    """A folder like the benchmark's own, of a few lines."""
    folder = tmp_path / "data"
    for name in ("alfworld", "hotpotqa", "humaneval"):
        (folder / name).mkdir(parents=True)
    rows = [
        {"env": f"env_{env}", "reflections": [{"text": text}, {"text": text}]}
        for env, text in (
            (2, "Wash the plate."),
            (54, "Take the plate to the sink."),
            (16, "Look for a vase."),
            (20, "Heat."),
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
        "trials": [{"reflections_after": ["Search."]}, {"reflections_after": []}],
    }
    solved = {"id": "i", "question": "When?", "trials": [{"reflections_after": []}]}
    log = folder / "hotpotqa" / "hotpotqa_replay_cot_no_context_reflexion.jsonl"
    log.write_text("\n".join(map(json.dumps, (question, solved))), encoding="utf-8")
    with gzip.open(folder / "humaneval" / "HumanEval.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"task_id": "HumanEval/0", "prompt": "def f(): ..."}) + "\n")
    return folder


def test_sets_are_read_without_repetitions_and_without_tasks_that_nobody_said(data):
    lessons = alfworld_lessons(data / "alfworld" / "logged_reflections.jsonl", read_goals())
    assert [each.text for each in lessons] == ["Wash the plate.", "Take the plate to the sink.", "Heat."]
    assert [(each.apart, each.task.id) for each in held_out_queries(lessons)] == [
        (f"env_{n}", f"env_{n}") for n in (2, 54, 20)
    ]
    described = described_queries(data / "alfworld" / "valid_seen_140.tar.xz")
    assert [each.task.prompt[-3:] for each in described] == [" 0.", " 1.", " 2."]
    assert {each.goal for each in described} == {Goal(CLEAN, "plate", "countertop")}


def test_the_page_is_written_part_by_part(data, tmp_path):
    options = [str(data), "--embedder", "hashing", "--out", str(tmp_path / "out"), "--part"]
    result = CliRunner().invoke(main, [*options, "set"], catch_exceptions=False)
    assert result.exit_code == 0
    page = (tmp_path / "out" / "lessons_retrieval.md").read_text(encoding="utf-8")
    assert "(not run)" in page
    assert "3 distinct reflections" in page
    assert "| nearest | 1.000" in page
    result = CliRunner().invoke(main, [*options, "words"], catch_exceptions=False)
    assert result.exit_code == 0
    kept = json.loads((tmp_path / "out" / "lessons_retrieval.json").read_text(encoding="utf-8"))
    assert kept["set"]["sizes"]["described"] == 3
    assert "words" in kept


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_every_way_plays_the_same_first_tries(tmp_path):
    try:
        require_engine()
    except (ConfigurationError, MissingDependencyError) as error:
        pytest.skip(str(error))
    said: list[str] = []
    field = Field(count=2, game_seed=5, seeds=(0,), workers=1)
    ways = [Way("nearest", floor=-1.0), Way("never", floor=1.0)]
    none, *found = anyio.run(lambda: play(tmp_path, field, ways, HashingEmbedder(), said.append))[0]
    assert [(each.way.name, each.others) for each in found] == [
        (way.name, others) for way in ways for others in (False, True)
    ]
    assert len(said) == 4
    assert {each.first for each in found} == {none.first}
    assert {tuple(each.won) for each in found} == {tuple(none.won)}
    never_others = found[3]
    assert (never_others.offered, never_others.won) == (0.0, none.won)
    assert none.won
    assert found[0].offered > 0
