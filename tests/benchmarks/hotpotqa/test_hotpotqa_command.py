"""The command, the run behind it, and what it reports."""

import json
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from benchmarks.hotpotqa.command import hotpotqa
from benchmarks.hotpotqa.experiment import Setting, run
from benchmarks.hotpotqa.outcomes import Outcome, standing
from benchmarks.report import level
from jeeves_reflexion import ConfigurationError, ScriptedModel
from jeeves_reflexion.experiments import Plan
from vectorstores import HashingEmbedder


def outcome(question, trial, em, *, arm="retry", seed=0, split="learning"):
    return Outcome(
        split,
        arm,
        seed,
        question,
        trial,
        "x",
        em,
        em,
        passed=bool(em),
        halted=False,
        error=False,
        recalled=0,
        tokens=0,
    )


def test_an_answer_stands_until_the_next_attempt():
    rows = [outcome("a", 1, 1.0), outcome("b", 1, 0.0), outcome("b", 2, 1.0), outcome("b", 3, 0.0)]
    means = [level(standing(rows, "learning", "retry", trial, "em")).value for trial in (1, 2, 3)]
    assert means == [0.5, 1.0, 0.5]


def test_seeds_add_no_questions_to_an_interval():
    one = [outcome(str(n), 1, float(n < 5)) for n in range(10)]
    three = [outcome(str(n), 1, float(n < 5), seed=seed) for n in range(10) for seed in range(3)]
    assert level(standing(one, "learning", "retry", 1, "em")) == level(
        standing(three, "learning", "retry", 1, "em")
    )
    nothing = level({"a": [0.0], "b": [0.0]})
    assert nothing.value == nothing.low == 0.0
    assert nothing.high > 0.5  # two questions show little
    with pytest.raises(ValueError, match="no task"):
        level({})


@pytest.fixture
def given(official, endpoint):
    """The options of a run by the model behind the endpoint."""
    return ["--data", str(official), "--embedder", "hashing", "--model", "tiny", "--base-url", endpoint[0]]


def test_the_command_runs_reports_and_writes_the_page(given, tmp_path):
    options = ["--holdout", "0.5", "--trials", "2", "--seeds", "0,1", "--judges", "oracle,self"]
    places = ["--out", str(tmp_path / "run"), "--page", str(tmp_path / "page")]
    result = CliRunner().invoke(hotpotqa, [*given, *options, *places, "--json"])
    assert result.exit_code == 0, result.output
    oracle, judged_by_itself = json.loads(result.stdout)["runs"]
    assert (oracle["judged_by"], judged_by_itself["judged_by"]) == ("oracle", "self")
    assert set(oracle["learning"]) == {"retry", "own", "selective", "irrelevant"}
    assert [point["trial"] for point in oracle["learning"]["own"]] == [1, 2]
    assert oracle["held-out"]["retry"][0]["questions"] in {2, 3, 4}
    page = (tmp_path / "page" / "hotpotqa.md").read_text(encoding="utf-8")
    assert page.index("Judged by oracle") < page.index("Judged by self")
    assert page.count("No lesson was recalled for any held-out question, which is no memory: own") == 2
    assert str(tmp_path) not in page
    rows = (tmp_path / "run" / "oracle" / "outcomes.jsonl").read_text(encoding="utf-8").splitlines()
    tried = [json.loads(row) for row in rows]
    assert {row["split"] for row in tried} == {"learning", "held-out"}
    for seed in (0, 1):
        split = {
            name: {r["question"] for r in tried if (r["split"], r["seed"]) == (name, seed)}
            for name in ("learning", "held-out")
        }
        assert not split["learning"] & split["held-out"]


def test_a_run_with_a_model_keeps_gold_from_it(questions, tmp_path):
    def reply(messages):
        text = " ".join(message.content for message in messages)
        assert "1961" not in text or "Odile Marchetti (born" in text, "the answer came from no page"
        return "Thought: t\nAction: Finish[Tamsin]" if "Search" in text else "Look for the year of birth."

    setting = Setting(
        tuple(questions[:1]),
        Plan(("own",), trials=2, workers=1),
        tmp_path,
        HashingEmbedder(),
        agent="react",
        model=ScriptedModel(reply),
    )
    finished = anyio.run(run, setting)
    assert [row.answer for row in finished.outcomes] == ["Tamsin", "Tamsin"]
    assert finished.outcomes[1].recalled == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name a --model"),
        (["--data", "nowhere.json", "--model", "m"], "nowhere.json can't be read"),
        (["--base-url", "http://127.0.0.1:9"], "--base-url goes with --model"),
        (["--arms", "nonsense"], "unknown arm"),
        (["--judges", "gold"], "a judge is oracle or self"),
        (["--seeds", "one"], "no list of whole numbers"),
    ],
)
def test_options_that_cant_work_are_refused(official, options, said):
    result = CliRunner().invoke(hotpotqa, ["--data", str(official), *options])
    assert result.exit_code != 0
    assert said in (result.output + str(result.exception))


def test_a_run_is_not_overwritten(given, tmp_path):
    options = [*given, "--trials", "1", "--arms", "retry", "--out", str(tmp_path)]
    assert CliRunner().invoke(hotpotqa, options).exit_code == 0
    again = CliRunner().invoke(hotpotqa, options)
    assert isinstance(again.exception, ConfigurationError)
    resumed = CliRunner().invoke(hotpotqa, [*options, "--resume"])
    assert resumed.exit_code == 0, resumed.output


def test_an_index_of_all_paragraphs_is_searched(questions, tmp_path):
    model = ScriptedModel(["Thought: t\nAction: Search[zinc]", "Thought: t\nAction: Finish[x]"] * 4)
    plan = Plan(("retry",), trials=1, workers=1)
    setting = Setting(tuple(questions), plan, Path(tmp_path), HashingEmbedder(), model, pages="bm25")
    finished = anyio.run(run, setting)
    assert len(finished.outcomes) == 4
    assert not any(row.error for row in finished.outcomes)
