"""``bench --track mlflow`` against a tracker in a database of the test; run by ``scripts/test-adapters mlflow``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import jeeves_reflexion

mlflow = pytest.importorskip("mlflow")

AGENT = """
def answer(task, session):
    return "Paris" if "capital" in session.blocks["reflexion_lessons"] else "France"

def teach(task, trials):
    return "Name the capital of the country that is asked for."
"""
SECRET = "sk-proj-AbCdEf0123456789AbCdEf"


def bench(folder: Path, uri: str, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "my_agent.py").write_text(AGENT, encoding="utf-8")
    tasks = [{"id": f"t{n}", "prompt": f"Which city, {SECRET} {n}?", "reference": "Paris"} for n in range(3)]
    (folder / "my_tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)), encoding="utf-8")
    command = [sys.executable, "-c", "from jeeves_reflexion.cli import main; main()"]
    arguments = ["bench", "my_tasks.jsonl", "--agent", "my_agent:answer", "--reflector", "my_agent:teach"]
    arguments += ["--embedder", "hashing", "--min-similarity", "-1", "--trials", "2", "--track", "mlflow"]
    home = str(Path(jeeves_reflexion.__file__).parents[1])
    variables = {"PYTHONPATH": home, "MLFLOW_TRACKING_URI": uri, "MLFLOW_DISABLE_TELEMETRY": "true"}
    return subprocess.run(
        [*command, *arguments, *more],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_arms_trials_and_the_report_reach_the_tracker(tmp_path):
    uri = f"sqlite:///{tmp_path}/tracker.db"
    done = bench(tmp_path, uri, "--arms", "retry,selective", "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("my_tasks")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"out", "retry", "selective"}
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    whole = runs["out"]
    assert whole.data.params["agent"] == "my_agent:answer"
    assert whole.data.metrics["tries"] == figures["tries"]
    assert f"tracked as run {whole.info.run_id}" in done.stderr
    for arm in ("retry", "selective"):
        assert runs[arm].data.tags["mlflow.parentRunId"] == whole.info.run_id
        history = client.get_metric_history(runs[arm].info.run_id, "solved.oracle")
        curve = figures["by_judge"]["oracle"][arm]["curve"]
        told = [(point["trial"], point["share"]) for point in curve]
        assert sorted((point.step, point.value) for point in history) == told
        assert "cost_usd" not in runs[arm].data.metrics, "unknown is not 0"
    artifacts = {item.path for item in client.list_artifacts(whole.info.run_id)}
    assert artifacts == {"config.json", "results.json", "rows.jsonl", "report"}
    assert "report/report.html" in {item.path for item in client.list_artifacts(whole.info.run_id, "report")}
    written = [path for path in tmp_path.rglob("*") if path.is_file() and "mlruns" in path.parts]
    assert written
    assert not any(SECRET.encode() in path.read_bytes() for path in [*written, tmp_path / "tracker.db"])


def test_a_tracker_that_can_not_be_used_is_told_before_anything_is_tried(tmp_path):
    done = bench(tmp_path, "nonsense://nowhere", "--out", "out")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("error: the tracker can't be used: ")
    assert not (tmp_path / "out").exists()
