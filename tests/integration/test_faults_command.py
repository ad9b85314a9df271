"""``python -m benchmarks.faults`` writes down what its rounds came to, and fails when anything was lost."""

import json

from click.testing import CliRunner

from benchmarks.faults import __main__ as command
from benchmarks.faults.rounds import Outcome
from benchmarks.faults.verify import Verdict


def test_two_rounds_are_run_and_written_down(tmp_path):
    out = tmp_path / "results" / "faults.json"
    result = CliRunner().invoke(command.main, ["--rounds", "2", "--seed", "5", "--out", str(out)])
    assert result.exit_code == 0, result.output
    said = json.loads(out.read_text())["faiss"]
    assert said["rounds"] == 2
    assert said["killed"] == 8
    assert said["calls"] > 0
    assert (said["lost"], said["torn"], said["wrong"]) == (0, 0, 0)
    assert "| faiss | 2 | 8 |" in out.with_suffix(".md").read_text()


def test_a_loss_is_said_beside_earlier_results_and_fails(tmp_path, monkeypatch):
    async def lose(plan, *, say) -> Outcome:
        return Outcome(Verdict(calls=7, lost=3, notes=["3 items of r0.1.0"]), rounds=1, killed=4)

    out = tmp_path / "faults.json"
    out.write_text(json.dumps({"earlier": {**command.as_json(Outcome(rounds=99), "python")}}))
    monkeypatch.setattr(command, "run_rounds", lose)
    result = CliRunner().invoke(command.main, ["--rounds", "1", "--out", str(out)])
    assert result.exit_code == 1
    assert list(json.loads(out.read_text())) == ["earlier", "faiss"]
    page = out.with_suffix(".md").read_text()
    assert "| earlier | 99 |" in page
    assert "3 items of r0.1.0" in page


def test_a_folder_has_no_server_to_kill():
    result = CliRunner().invoke(command.main, ["--kill-server"])
    assert result.exit_code == 2
    assert "--kill-server is for --store postgres" in result.output
