"""The command, the run behind it, and what it reports."""

import json
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from benchmarks.hotpotqa.command import hotpotqa
from benchmarks.hotpotqa.experiment import Setting, run
from benchmarks.hotpotqa.report import f1_levels
from benchmarks.report import level
from jeeves_reflexion import Attempt, ConfigurationError, Evaluation, ScriptedModel, Trial
from jeeves_reflexion.experiments import Plan, Results, Tried
from vectorstores import HashingEmbedder


def test_an_answer_stands_until_the_next_attempt(questions):
    task = questions[0].task

    def tried(seed, number, answer, **more):
        trial = Trial(number, Attempt(answer, **more), Evaluation(0.0, passed=False))
        return Tried("retry", seed, task, trial)

    rows = [tried(0, 1, "1961"), tried(0, 2, "1961", error="E"), tried(0, 3, "in 1961")]
    results = Results((task,), ("retry",), (0, 1), 3, rows)
    assert [each.value for each in f1_levels(results, "retry")] == pytest.approx([1.0, 0.0, 2 / 3])
    results.rows += [tried(1, number, "1961") for number in (1, 2, 3)]
    assert [each.value for each in f1_levels(results, "retry")] == pytest.approx([1.0, 0.5, 5 / 6])


def test_seeds_add_no_questions_to_an_interval():
    one, three = ({str(n): [float(n < 5)] * seeds for n in range(10)} for seeds in (1, 3))
    assert level(one) == level(three)
    nothing = level({"a": [0.0], "b": [0.0]})
    assert nothing.value == nothing.low == 0.0
    assert nothing.high > 0.5  # two questions show little
    with pytest.raises(ValueError, match="no task"):
        level({})


@pytest.fixture
def given(official, endpoint):
    """The options of a run by the model behind the endpoint."""
    return ["--data", str(official), "--embedder", "hashing", "--model", "tiny", "--base-url", endpoint[0]]


@pytest.mark.parametrize("judge", ["oracle", "self"])
def test_the_command_runs_and_reports(given, tmp_path, judge):
    options = [*given, "--holdout", "0.5", "--trials", "2", "--seeds", "0,1", "--judge", judge]
    done = CliRunner().invoke(hotpotqa, [*options, "--out", str(tmp_path / "run"), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    arms = {"retry", "own", "selective", "irrelevant"}
    assert set(found["by_judge"]) == {"oracle", judge}
    assert set(found["by_judge"]["oracle"]) == set(found["f1"]["held-out"]) == arms
    assert [len(found["f1"]["learning"][arm]) for arm in arms] == [2] * 4
    assert (found["learning_tasks"], found["held_out_tasks"]) == (2, 2)
    assert Path(found["report"]).is_file()
    text = CliRunner().invoke(hotpotqa, [*options, "--out", str(tmp_path / "run"), "--resume"]).stdout
    assert ("Passed by their own judge" in text) is (judge == "self")
    assert "2 questions held out" in text
    assert text.count("| EM | 0/4 = 0% (0% to ") == len(arms) * 2


def test_a_run_with_a_model_keeps_gold_from_it(questions, tmp_path):
    def reply(messages):
        text = " ".join(message.content for message in messages)
        assert "1961" not in text or "Odile Marchetti (born" in text, "the answer came from no page"
        return "Thought: t\nAction: Finish[Tamsin]" if "Search" in text else "Look for the year of birth."

    rows = played(questions[:1], tmp_path, Plan(("own",), trials=2, workers=1), ScriptedModel(reply))
    assert [row.trial.attempt.output for row in rows] == ["Tamsin", "Tamsin"]
    assert len(rows[1].trial.recall.offered) == 1


def played(questions, out, plan, model):
    setting = Setting(plan, out, HashingEmbedder(), questions=tuple(questions), model=model)
    return anyio.run(lambda: run(setting, say=str)).rows


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name a --model"),
        (["--data", "nowhere.json", "--model", "m"], "nowhere.json can't be read"),
        (["--base-url", "http://127.0.0.1:9"], "--base-url goes with --model"),
        (["--arms", "nonsense"], "unknown arm"),
        (["--judge", "gold"], "'gold' is not one of"),
        (["--seeds", "one"], "not a list of whole numbers"),
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
