"""``jeeves-reflexion workflow``: running and checking a file from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from tables import table

from jeeves_reflexion.cli.program import program
from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.cli.workflow import show
from jeeves_reflexion.events import DraftJudged

GOOD = '{"name": "Ada", "email": "ada@example.org", "age": 36}'


@pytest.fixture
def file(tmp_path, example):
    path = tmp_path / "profile.yaml"
    path.write_text(example)
    return path


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def cli(*arguments, stdin=None):
    result = CliRunner().invoke(program, ["workflow", *map(os.fspath, arguments)], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_run_prints_the_final_state_and_tells_what_happens(file, endpoint):
    endpoint.replies = ['{"name": "Ada"}', GOOD]
    done = cli("run", file, "--state", '{"request": "Ada"}', "--base-url", endpoint.url, "--allow-weaker")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["message"] == "Created profile for Ada"
    assert "attempt 1: not valid, score 0.00" in done.stderr
    assert "'email' is a required property" in done.stderr
    assert [body["model"] for body in endpoint.asked] == ["gpt-4", "gpt-4"]


def test_a_draft_that_could_not_be_judged_has_no_score(capsys):
    show(Screen(), DraftJudged(run_id="r", number=1, score=None, satisfactory=False))
    assert capsys.readouterr().err == "  attempt 1: not valid, no score\n"


def test_a_model_of_ones_own_answers_for_the_one_in_the_file(file, endpoint, tmp_path):
    endpoint.replies = [GOOD]
    (tmp_path / "state.json").write_text('{"request": "Ada"}')
    given = ("--base-url", endpoint.url, "--model", "small", "--allow-weaker", "--json")
    for state, stdin in ((f"@{tmp_path}/state.json", None), ("-", '{"request": "Ada"}')):
        done = cli("run", file, "--state", state, *given, stdin=stdin)
        assert json.loads(done.stdout)["success"] is True
        assert done.stderr == ""
    assert {body["model"] for body in endpoint.asked} == {"small"}


@table("options", [("--json",), ("--quiet",), ()])
def test_a_run_without_a_valid_output_ends_with_1_and_prints_its_state(file, endpoint, options):
    endpoint.replies = ['{"name": "Ada"}'] * 20
    state = '{"request": "Ada"}'
    done = cli("run", file, "--state", state, "--base-url", endpoint.url, "--allow-weaker", *options)
    assert done.exit_code == 1
    assert json.loads(done.stdout)["success"] is False


def test_a_workflow_without_a_loop_succeeds(tmp_path, endpoint):
    file = tmp_path / "plain.yaml"
    file.write_text("name: plain\nnodes: [{name: a, uses: llm.call, with: {prompt: hi, model: m}}]")
    endpoint.replies = ["hello"]
    done = cli("run", file, "--base-url", endpoint.url, "--allow-weaker")
    assert (done.exit_code, "success" in json.loads(done.stdout)) == (0, False)


@table(
    ("state", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "must be a JSON object"),
        ("@none.json", "can't be read"),
        ('{"a": NaN}', "plain JSON"),
    ],
)
def test_a_state_that_is_none_is_an_error_of_the_configuration(file, state, said, endpoint):
    done = cli("run", file, "--state", state, "--base-url", endpoint.url)
    assert done.exit_code == 3
    assert said in done.stderr


@table("seconds", ["nan", "inf", "0", "86401"])
def test_a_timeout_that_is_no_time_ends_with_2(file, seconds, endpoint):
    done = cli("run", file, "--timeout", seconds, "--base-url", endpoint.url)
    assert done.exit_code == 2
    assert "--timeout" in done.stderr
    assert not endpoint.asked


def test_check_says_what_is_wrong_and_where(file, tmp_path):
    assert cli("check", file).stdout == "json-generator-with-reflection: 2 nodes, no problem found\n"
    assert json.loads(cli("check", file, "--json").stdout)["nodes"] == ["generate_profile", "use_profile"]
    file.write_text(file.read_text().replace("max_iterations", "max_iteration"))
    done = cli("check", file)
    assert done.exit_code == 3
    assert "profile.yaml, line 48: node 'generate_profile', with.max_iteration: unknown key" in done.stderr
    assert "did you mean 'max_iterations'" in done.stderr
    file.write_text("nodes: [{name: a, uses: llm.cal}]")
    assert json.loads(cli("check", file, "--json").stdout)["error"]["kind"] == "WorkflowFileError"


def test_the_schema_for_editors_is_printed():
    printed = json.loads(cli("schema").stdout)
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_a_missing_package_names_the_extra():
    script = (
        "import sys\nsys.modules['yaml'] = None\n"
        "from jeeves_reflexion.cli import main\nsys.argv[1:] = ['workflow', 'check', 'x.yaml']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert 'pip install "jeeves-reflexion[workflows]"' in done.stderr
