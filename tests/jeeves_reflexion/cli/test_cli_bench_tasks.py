"""``jeeves-reflexion bench my_tasks.jsonl``: a user's own tasks, in this process and as one that is killed."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from jeeves_reflexion import ConfigurationError, Task
from jeeves_reflexion.experiments import read_tasks

AGENT = '''
import os, time
from jeeves_reflexion import Attempt, Evaluation

CITIES = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Peru": "Lima", "Chad": "N'Djamena"}

def answer(task, session):
    """Name the country itself, unless a lesson says that it is the capital that is asked for."""
    assert task.reference is None
    with open(os.environ["AGENT_LOG"], "a") as file:
        file.write(f"{session.id} {session.attempt}\\n")
    if os.environ.get("HANG_AFTER") and len(open(os.environ["AGENT_LOG"]).readlines()) > int(os.environ["HANG_AFTER"]):
        print("HANGING", flush=True)
        time.sleep(float(os.environ["HANG_FOR"]))
    country = task.prompt.split()[-1]
    return CITIES[country] if "capital" in session.blocks["reflexion_lessons"] else country

def teach(task, trials):
    return "Name the capital of the country that is asked for."

def never(task, attempt):
    return False

def right(task, attempt):
    return attempt.output == task.reference


'''

CITIES = {
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Japan": "Tokyo",
    "Peru": "Lima",
    "Chad": "N'Djamena",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with an agent and tasks; its module has a name of its own, for modules are imported once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_LOG", str(tmp_path / "agent.log"))
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"agent_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(AGENT)
    lines = [
        {"id": country.lower(), "prompt": f"Which city governs {country}", "reference": city, "kind": "geo"}
        for country, city in CITIES.items()
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return name


def arguments(module, *more):
    return [
        "bench", "tasks.jsonl", "--agent", f"{module}:answer", "--reflector", f"{module}:teach",
        "--embedder", "hashing", "--min-similarity", "-1", "--out", "out", "--json", *more,
    ]  # fmt: skip


def wait_until_it_hangs(started):
    """What an agent prints is on standard error."""
    said = []
    while "HANGING\n" not in said:
        said.append(started.stderr.readline())
        assert said[-1], said


def test_own_tasks_without_a_model(cli, here):
    more = [
        "--arms",
        "react,retry,reflexion,selective@1",
        "--trials",
        "3",
        "--holdout",
        "0.3",
        "--seeds",
        "0,1",
    ]
    result = cli(*arguments(here, *more))
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    arms = found["by_judge"]["oracle"]
    assert [point["solved"] for point in arms["retry"]["curve"]] == [0, 0, 0]
    assert [point["solved"] for point in arms["reflexion"]["curve"]] == [0, 8, 8]
    assert (arms["selective@1"]["transfer"]["solved"], arms["selective@1"]["transfer"]["n"]) == (4, 4)
    assert arms["reflexion"]["transfer"]["solved"] == 0, (
        "a task that was never tried has no reflections of its own"
    )
    assert "at most" in result.stderr
    assert "cost unknown" in result.stderr
    for name in ("config.json", "events.jsonl", "journal.jsonl", "results.json", "rows.jsonl"):
        assert (Path("out") / name).stat().st_size > 0


def test_a_table_for_a_person(cli, here):
    given = [each for each in arguments(here, "--arms", "retry") if each != "--json"]
    result = cli(*given, "--evaluator", f"{here}:right", "--trials", "2")
    assert result.exit_code == 0
    assert "oracle-judged" in result.stdout
    assert "| retry | 0/6" in result.stdout
    assert "No model call was reported" in result.stdout


def test_a_killed_run_goes_on_and_comes_to_the_same(cli, process, here, tmp_path):
    more = ["--arms", "retry,selective", "--trials", "3", "--workers", "1"]
    killed = process(
        *arguments(here, *more), env={**os.environ, "HANG_AFTER": "20", "HANG_FOR": "600"}, cwd=tmp_path
    )
    wait_until_it_hangs(killed)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    refused = cli(*arguments(here, *more))
    assert refused.exit_code == 3
    assert "holds a run already" in json.loads(refused.stdout)["error"]["message"]
    other = cli(*arguments(here, *more, "--resume", "--top-k", "2"))
    assert other.exit_code == 3
    assert "k: - 3  + 2" in json.loads(other.stdout)["error"]["message"]
    resumed = cli(*arguments(here, *more, "--resume", "--workers", "3"))
    assert resumed.exit_code == 0, resumed.stderr
    assert "20 finished tries are in the log" in resumed.stderr
    tried = Path("agent.log").read_text().splitlines()
    twice = {line for line in tried if tried.count(line) > 1}
    assert twice == {tried[20]}, "only the try that the kill cut short is made again"
    whole = cli(*arguments(here, *more, "--out", "whole"))
    for name in ("by_judge", "tries"):
        assert json.loads(resumed.stdout)[name] == json.loads(whole.stdout)[name]


def test_ctrl_c_says_how_to_go_on(cli, process, here, tmp_path):
    more = ["--arms", "retry,selective", "--trials", "3", "--workers", "1"]
    stopped = process(
        *arguments(here, *more), env={**os.environ, "HANG_AFTER": "20", "HANG_FOR": "2"}, cwd=tmp_path
    )
    wait_until_it_hangs(stopped)
    stopped.send_signal(signal.SIGINT)
    out, said = stopped.communicate(timeout=60)
    assert stopped.returncode == 130
    assert "--resume --out out" in json.loads(out)["error"]["message"]
    assert "stopped at arm selective, seed 0, trial 1: 2 of 6 tasks tried" in said
    resumed = cli(*arguments(here, *more, "--resume"))
    assert "20 finished tries are in the log" in resumed.stderr


LOUD = """
import subprocess, sys

print("loaded")

def answer(prompt):
    print("printed")
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    return prompt

def leaving(prompt):
    sys.exit(3) if "Spain" in prompt else None
    return prompt

async def leaving_async(prompt):
    return leaving(prompt)

def stopping(prompt):
    if "Spain" in prompt: raise KeyboardInterrupt
    return prompt

async def stopping_async(prompt):
    return stopping(prompt)
"""


def test_what_an_agent_prints_is_not_among_the_results(process, here, tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    given = arguments("loud", "--reflector", f"{here}:teach", "--arms", "react")
    run = process(*given, cwd=tmp_path)
    out, said = run.communicate(timeout=60)
    assert run.returncode == 0, said
    assert json.loads(out)["estimate"]
    assert (said.count("printed"), said.count("from a child")) == (6, 6)
    assert "loaded" in said
    assert (tmp_path / "out" / "results.json").exists()


@pytest.mark.parametrize("agent", ["leaving", "leaving_async"])
def test_an_agent_that_ends_the_process_stops_the_run_and_is_named(cli, here, tmp_path, agent):
    (tmp_path / "loud.py").write_text(LOUD)
    result = cli(*arguments(here, "--agent", f"loud:{agent}", "--arms", "retry", "--workers", "1"))
    assert result.exit_code == 1, result.stderr
    told = json.loads(result.stdout)["error"]["message"]
    assert "retry/seed 0/learning/spain/trial 1" in told
    assert "sys.exit(3)" in told
    assert "of 6 tasks tried" in result.stderr


@pytest.mark.parametrize("agent", ["stopping", "stopping_async"])
def test_an_interrupt_that_is_raised_within_a_try_ends_the_process_too(process, here, tmp_path, agent):
    (tmp_path / "loud.py").write_text(LOUD)
    more = ["--agent", f"loud:{agent}", "--arms", "retry", "--workers", "1"]
    run = process(*arguments(here, *more), cwd=tmp_path)
    out, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert json.loads(out)["error"]["kind"] == "Interrupted"
    assert "--resume" in out


def test_a_model_answers_judges_and_reflects_and_is_paid_once(cli, server, here):
    server.verdicts = ["score: 0.1"]
    given = ["bench", "tasks.jsonl", "--model", "tiny", "--base-url", server.url, "--embedder", "hashing"]
    given += ["--evaluator", "judge", "--scorer", "exact", "--arms", "reflexion", "--trials", "2", "--json"]
    prices = ["--price-in", "1000", "--price-out", "1000", "--expected-tokens", "90,30"]
    limited = cli(*given, *prices, "--max-cost", "0.4", "--out", "out")
    assert limited.exit_code == 1
    found = json.loads(limited.stdout)
    assert "spending limit" in found["interrupted"]
    assert found["estimate"] == {"most_tries": 12, "tokens": 1440, "cost_usd": pytest.approx(1.44)}
    paid = len(server.asked)
    assert 8 <= paid < 36
    done = cli(*given, *prices, "--max-cost", "9", "--out", "out", "--resume")
    assert done.exit_code == 0, done.stderr
    assert len(server.asked) == 6 * 2 * 3, "each of answer, verdict and lesson once a try"
    found = json.loads(done.stdout)
    assert found["judged_by"] == "self"
    assert found["by_judge"]["self"]["reflexion"]["curve"][-1]["solved"] == 0
    assert found["by_judge"]["oracle"]["reflexion"]["curve"][-1]["solved"] == 1, "Paris is right for France"
    assert found["costs"]["reflexion"]["cost_usd"] == pytest.approx(36 * 0.05)
    prompts = server.prompts()
    assert "Madrid" not in prompts, "the judge of a self-judged run does not see the gold answer"


def test_a_dry_run_tries_nothing(cli, here):
    result = cli(*arguments(here, "--dry-run"))
    assert json.loads(result.stdout)["estimate"]["most_tries"] == 6 * 4 * 2
    assert not Path("agent.log").exists()
    assert not Path("out").exists()


def test_what_cannot_work_is_refused_before_anything_is_tried(cli, here):
    for more, code, said in [
        (["--agent", "nowhere_at_all:x"], 3, "No module named 'nowhere_at_all'"),
        (["--agent", "json"], 3, "--agent 'json': it must be MODULE:NAME"),
        (["--agent", "json.py:loads"], 3, "name the module, not its file: json:loads"),
        (["--evaluator", "exat"], 3, "it must be exact, judge or MODULE:NAME"),
        (["--base-url", "http://127.0.0.1:9"], 2, "go with --model"),
        (["--agent", "json:JSONDecoder"], 3, "is a class"),
        (["--agent", "json:nothing"], 3, "has no attribute 'nothing'"),
        (["--evaluator", "judge"], 3, "--evaluator judge needs --model"),
        (["--arms", "magic"], 3, "unknown arm 'magic'"),
        (["--arms", "irrelevant@2"], 3, "all tasks are of one kind"),
        (["--seeds", "a"], 2, "not a list of whole numbers"),
        (["--price-in", "1"], 2, "--price-in and --price-out go together"),
        (["--evaluator", "judge", "--judged-by", "oracle"], 2, "judged by self"),
        (["--scorer", "judge"], 2, "--scorer needs the gold answer"),
        (["--holdout", "1"], 2, "--holdout"),
        (["--expected-tokens", "5"], 2, "two whole numbers"),
    ]:
        result = cli(*arguments(here), *more)
        assert result.exit_code == code, result.output
        assert said in " ".join((result.stdout + result.stderr).split())
        assert not Path("agent.log").exists()


BUGGY = """
def agent(prompt):
    return undefined

def other(task, given):
    return undefined
"""


def test_a_mistake_in_ones_own_parts_is_one_line_that_names_its_place(cli, here, tmp_path):
    (tmp_path / "buggy_parts.py").write_text(BUGGY)
    for option, name, line in (
        ("--agent", "agent", 3),
        ("--evaluator", "other", 6),
        ("--reflector", "other", 6),
        ("--scorer", "other", 6),
    ):
        result = cli(*arguments(here, option, f"buggy_parts:{name}", "--out", option.strip("-")))
        told = json.loads(result.stdout)["error"]
        assert (result.exit_code, told["kind"]) == (3, "ConfigurationError"), option
        assert told["message"].startswith(f"buggy_parts.py, line {line}, in {name}: NameError")


def test_nobody_reflects_or_tries(cli, here):
    base = ["bench", "tasks.jsonl", "--embedder", "hashing", "--out", "out"]
    assert "no agent: add --agent" in cli(*base).stderr
    assert "nobody writes lessons" in cli(*base, "--agent", f"{here}:answer").stderr
    assert cli(*base, "--agent", f"{here}:answer", "--arms", "react,retry", "--trials", "2").exit_code == 0
    assert "--resume goes with --out" in cli("bench", "tasks.jsonl", "--resume").stderr


def test_a_file_that_is_not_there(cli, here):
    result = cli("bench", "nothing.jsonl", "--agent", f"{here}:answer")
    assert result.exit_code == 2
    assert "Invalid value for 'TASKS': File 'nothing.jsonl' does not exist." in result.stderr


# -- the file


def test_tasks_hold_what_a_task_holds(tmp_path):
    path = tmp_path / "tasks.jsonl"
    line = {
        "prompt": "Say it.", "id": "a", "kind": "talk", "tools": ["t"], "reference": {"x": [1]},
        "expected_output": "words", "metadata": {"n": 1},
    }  # fmt: skip
    path.write_text("\ufeff" + json.dumps(line) + '\n\n{"prompt": "Do it."}\n')
    first, second = read_tasks(path)
    assert first == Task("Say it.", None, "a", "talk", ("t",), "words", {"x": [1]}, {"n": 1})
    assert second == Task("Do it.")


def test_a_line_that_cannot_be_used_is_named(tmp_path):
    for line, said in [
        ("{", "line 2: it is not JSON"),
        ("[]", "line 2: it is not an object"),
        ('{"prompt": " "}', "line 2: its prompt is empty"),
        ('{"id": "x"}', "line 2: it has no prompt"),
        ('{"prompt": "p", "gold": 1}', "line 2: unknown field 'gold'"),
        ('{"prompt": "p", "tools": "t"}', "line 2: tools:"),
        ('{"prompt": "p", "id": 7}', "line 2: id:"),
        ('{"prompt": "p", "id": "first"}', "line 2: line 1 has the same id 'first'"),
        ("[" * 100_000, "line 2: it is not JSON: recursion limit exceeded"),
        ('{"prompt": "p", "reference": NaN}', "line 2: it is not JSON: Out of range float values"),
        ('{"prompt": "p", "metadata": {"x": [1e999]}}', "line 2: it is not JSON: Out of range float values"),
        (b"\xff\xfe", "line 2: it is not JSON"),
        (b'{"prompt": "\xff"}', "line 2: it is not JSON: invalid unicode"),
    ]:
        path = tmp_path / "tasks.jsonl"
        second = line if isinstance(line, bytes) else line.encode()
        path.write_bytes(b'{"prompt": "p", "id": "first"}\n' + second + b"\n")
        with pytest.raises(ConfigurationError) as refused:
            read_tasks(path)
        assert said in str(refused.value)


def test_all_lines_that_cannot_be_used_are_named_up_to_ten(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("{}\n" * 12)
    with pytest.raises(ConfigurationError, match=r"(?s)line 1: .*line 10: .*and 2 more"):
        read_tasks(path)
    path.write_text("\n")
    with pytest.raises(ConfigurationError, match="has no task"):
        read_tasks(path)


def test_withheld_lessons_have_a_lift_in_the_report(cli, here):
    more = ["--arms", "reflexion,selective@1", "--trials", "12", "--holdout", "0.3", "--withhold", "0.5"]
    result = cli(*arguments(here, *more, "--evaluator", f"{here}:never"))
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in Path("out/rows.jsonl").read_text().splitlines()]
    tries = [row for row in rows if row["kind"] == "tried"]
    withheld = {row["arm"] for row in tries if row["trial"] > 1 and not row["recalled"]}
    assert withheld == {"selective@1"}
    held_out = [row for row in tries if row["split"] != "learning" and row["arm"] == "selective@1"]
    assert held_out, "tasks are held out"
    assert all(row["recalled"] for row in held_out)
    assert re.search(r">[+-]\d+ points \(", Path("out/report/report.html").read_text()), "a lift is known"
    refused = cli(*arguments(here, *more[:-1], "0.2", "--evaluator", f"{here}:never", "--resume"))
    assert refused.exit_code != 0
    assert "withhold" in refused.stdout + refused.stderr
