"""The benchmark from end to end, in the real engine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from chat_server import chat_server
from click.testing import CliRunner

from benchmarks.alfworld.agent import GameAgent, lessons_in
from benchmarks.alfworld.command import alfworld
from benchmarks.alfworld.dialect import dialect_of
from benchmarks.alfworld.experiment import run
from benchmarks.alfworld.games import spread
from benchmarks.alfworld.model_player import first_line
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.setting import Setting
from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.cli.program import program
from jeeves_reflexion.experiments import ARMS, Plan, arm_of
from vectorstores import Chunk, FaissVectorStore, HashingEmbedder

pytestmark = pytest.mark.engine

COMMAND = [sys.executable, "-c", "from benchmarks.alfworld.command import alfworld; alfworld()"]


def options(made_folder: Path, out: Path, *more: str) -> list[str]:
    return ["--made-games", str(made_folder), "--embedder", "hashing", "--out", str(out), *more]


def rows(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]


def plain(out: Path) -> list[tuple]:
    keys = ("arm", "seed", "task_id", "trial", "passed", "steps", "recalled", "lesson")
    return [tuple(map(str, (row[key] for key in keys))) for row in rows(out) if row["kind"] == "tried"]


def test_all_arms_and_no_difference_by_workers(made_games, tmp_path):
    # The smallest, in which a command takes least: 800 are given.
    for game in sorted(made_games, key=lambda game: game.path.stat().st_size)[:2]:
        shutil.copytree(game.path.parent, tmp_path / "games" / game.id)

    def played(arms, workers):
        plan = Plan(arms=arms, trials=2, seeds=(0,), workers=workers, k=3)
        out = tmp_path / str(workers)
        setting = Setting(plan, out, HashingEmbedder(), games_folder=tmp_path / "games", step_limit=12)
        return out, anyio.run(lambda: run(setting, say=lambda _: None)).results

    arms = tuple(ARMS)
    out, results = played(arms, 2)
    alone, _ = played(("selective",), 1)
    assert plain(alone) == [row for row in plain(out) if row[0] == "selective"]
    first = {arm: results.curve(arm).points[0].share.successes for arm in arms}
    assert len(set(first.values())) == 1, "before any lesson the arms are the same"
    failed = [row for row in results.rows if not row.trial.passed]
    assert failed, "a limit of 12 commands leaves something to learn"
    for row in results.rows:
        assert row.trial.passed == row.trial.attempt.metadata["won"]
        assert len(row.trial.attempt.steps) <= 12
        assert (row.trial.attempt.interrupted == "max_turns") == (not row.trial.passed)
    assert all(row.trial.reflection for row in failed if arm_of(row.arm).learns)
    assert (out / "curve.md").read_text().count("|") > 20


def test_the_second_run_starts_from_the_lessons_of_the_first(made_games, made_folder, tmp_path):
    common = ["--limit", "3", "--trials", "2", "--step-limit", "10", "--arms", "selective", "--workers", "1"]
    lessons = ["--lessons", str(tmp_path / "lessons")]
    runner = CliRunner()
    first = runner.invoke(alfworld, options(made_folder, tmp_path / "a", *common, *lessons))
    assert first.exit_code == 0, first.output
    assert "every arm starts without a lesson" in first.stderr
    learned = [row["lesson"] for row in rows(tmp_path / "a") if row["kind"] == "tried" and row["lesson"]]
    assert learned
    second = runner.invoke(alfworld, options(made_folder, tmp_path / "b", *common, *lessons, "--json"))
    assert second.exit_code == 0, second.output
    assert f"holds {len(learned)} lessons of earlier runs" in second.stderr
    assert any(
        row["recalled"] for row in rows(tmp_path / "b") if row["kind"] == "tried" and row["trial"] == 1
    )
    curve = json.loads(second.stdout)["by_judge"]["oracle"]["selective"]["curve"]
    before = sum(
        row["passed"] for row in rows(tmp_path / "a") if row["kind"] == "tried" and row["trial"] == 1
    )
    assert curve[0]["solved"] > before


def test_ctrl_c_keeps_what_was_learned_and_says_where_it_stopped(made_games, made_folder, tmp_path):
    arguments = options(made_folder, tmp_path / "run", "--limit", "3", "--arms", "monotonic,own")
    arguments += ["--trials", "50", "--step-limit", "1", "--workers", "1"]  # hopeless, so it goes on for long
    process = subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ}
    )
    try:
        journal = tmp_path / "run" / "journal.jsonl"
        deadline = time.monotonic() + 60
        while not (journal.is_file() and journal.read_text().count('"kind": "try"') >= 4):
            assert time.monotonic() < deadline, "the benchmark did not get going"
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        _, said = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode not in (0, None)
    assert "Traceback" not in said
    assert {row["arm"] for row in rows(tmp_path / "run")} == {"monotonic"}
    assert "stopped at arm monotonic" in said
    assert f"the log in {tmp_path / 'run' / 'rows.jsonl'}" in said
    last = json.loads((tmp_path / "run" / "events.jsonl").read_text().splitlines()[-1])
    assert (last["kind"], last["where"][:13]) == ("experiment.interrupted", "arm monotonic")


def test_a_damaged_game_is_named(made_games, made_folder, tmp_path):
    folder = tmp_path / "games" / "task" / "trial"
    folder.mkdir(parents=True)
    source = made_games[0].path.parent
    (folder / "traj_data.json").write_text((source / "traj_data.json").read_text())
    (folder / "game.tw-pddl").write_text((source / "game.tw-pddl").read_text()[:200])
    result = CliRunner().invoke(
        alfworld,
        ["--games", str(tmp_path / "games"), "--embedder", "hashing", "--out", str(tmp_path / "out")],
    )
    assert result.exit_code != 0
    assert "game.tw-pddl" in str(result.exception)
    assert "damaged" in str(result.exception)


def test_genuine_games_are_played(genuine_games, genuine_folder, engine, tmp_path):
    few = [
        "--limit",
        "3",
        "--trials",
        "2",
        "--step-limit",
        "30",
        "--arms",
        "own",
        "--embedder",
        "hashing",
        "--json",
    ]
    where = ["--games", str(genuine_folder), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(alfworld, [*where, *few])
    assert result.exit_code == 0, result.output
    played = {row["task_id"] for row in rows(tmp_path / "out") if row["kind"] == "tried"}
    assert played == {game.id for game in spread(genuine_games)[:3]}
    assert len({game.kind for game in genuine_games if game.id in played}) == 3


def test_nobody_at_the_endpoint_is_no_result(made_games, made_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setattr("vectorstores.json_http.Waits.before", lambda *_: 0.0)
    dead = ["--model", "any", "--base-url", "http://127.0.0.1:9/v1", "--limit", "1", "--trials", "2"]
    arguments = options(made_folder, tmp_path / "out", *dead, "--arms", "retry")
    result = CliRunner().invoke(program, ["bench", "alfworld", *arguments, "--json"])
    assert result.exit_code == 1, result.output
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "ExperimentError"
    assert "127.0.0.1:9" in error["message"]
    assert not (tmp_path / "out" / "report").exists()


def test_a_model_behind_an_endpoint_plays_reflects_and_recalls(made_games, made_folder, tmp_path):
    asked = []

    def reply(body):
        """Only look around, and reflect in one lesson."""
        asked.append(body)
        reflecting = body["messages"][0]["content"].startswith("You write lessons")
        return "Search the fridge first." if reflecting else "> look\nYou see nothing."

    with chat_server(reply) as url:
        where = ["--model", "tiny", "--base-url", url]
        few = ["--limit", "1", "--trials", "2", "--step-limit", "3", "--arms", "own"]
        arguments = options(made_folder, tmp_path / "out", *where, *few, "--json")
        result = CliRunner().invoke(program, ["bench", "alfworld", *arguments])
    assert result.exit_code == 0, result.output
    tried = [row for row in rows(tmp_path / "out") if row["kind"] == "tried"]
    assert [row["lesson"] for row in tried] == ["Search the fridge first."] * 2
    assert tried[1]["recalled"] == ["Search the fridge first."]
    assert [row["usage"]["agent"]["calls"] for row in tried] == [3, 3]
    assert [row["usage"]["reflector"]["output_tokens"] for row in tried] == [10, 10]
    systems = [body["messages"][0]["content"] for body in asked]
    assert sum("- Search the fridge first." in system for system in systems) == 3


def test_reading_a_reply_and_a_block():
    assert first_line("\n  > go to desk 1\nthink: no") == "go to desk 1"
    assert first_line("") == "look"
    assert lessons_in("- one\n- two\n") == ["one", "two"]
    assert lessons_in("") == []


def test_what_cannot_work_is_refused_before_games_are_made(made_games, made_folder, tmp_path):
    runner = CliRunner()
    games = tmp_path / "games"
    (tmp_path / "held").mkdir()
    for name in ("rows.jsonl", "journal.jsonl", "config.json"):
        (tmp_path / "held" / name).write_text("{}\n")
    lessons = tmp_path / "lessons"

    async def fill():
        async with FaissVectorStore(lessons, embedder=HashingEmbedder(), namespace="alfworld") as store:
            await store.add([Chunk("Look into the fridge.")])

    anyio.run(fill)
    for out, more, word in (
        ("held", [], "holds a run already"),
        ("a", ["--lessons", str(lessons), "--seeds", "0,1"], "only one seed"),
    ):
        arguments = options(games, tmp_path / out, "--limit", "1", *more)
        result = runner.invoke(program, ["bench", "alfworld", *arguments])
        assert result.exit_code == 3, result.output
        assert word in " ".join(result.stderr.split())
    assert not games.exists()


def test_a_few_games_are_of_all_kinds(genuine_games):
    kinds = [game.kind for game in spread(genuine_games)]
    assert len(set(kinds[:6])) == 6
    assert sorted(kinds) == sorted(game.kind for game in genuine_games)


def test_the_memory_holds_the_last_three_reflections(made_games, made_folder, tmp_path):
    out = tmp_path / "out"
    arguments = ["--dry-run", "--arms", "reflexion@3", "--limit", "1", "--trials", "5", "--step-limit", "1"]
    where = ["--made-games", str(made_folder), "--embedder", "hashing", "--out", str(out)]
    result = CliRunner().invoke(alfworld, [*arguments, *where])
    assert result.exit_code == 0, result.output
    assert "Model calls: " in result.output
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    tried = [row for row in rows if row["kind"] == "tried"]
    assert [len(row["recalled"]) for row in tried] == [0, 1, 2, 3, 3]
    assert all(row["interrupted"] == "max_turns" and row["steps"] == 1 for row in tried)
    config = (out / "config.json").read_text()
    assert '"reflexion@3"' in config
    assert json.loads(config)["repeats"] == 3
    assert json.loads(config)["player"] == "dry-run"
    assert json.loads(config)["free_thoughts"] is False
    assert "1 game: at most 5 tries, tokens unknown" in result.stderr


def test_genuine_games_are_of_the_older_dialect(genuine_games):
    assert {dialect_of(game) for game in genuine_games[:5]} == {"put"}


def test_repeats_below_one_are_refused():
    with pytest.raises(ConfigurationError, match="repeats"):
        GameAgent(EnginePool(1), {}, lambda t, s: None, step_limit=1, repeats=0)
