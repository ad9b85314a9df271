"""``jeeves-reflexion run`` against a server on this machine."""

import importlib.util
import json
import signal
import subprocess
from collections.abc import Callable
from typing import Any, get_args

import pytest

from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.events import LessonsRecalled, ModelFailed, RunFinished, StepTaken
from jeeves_reflexion.loop.trace import Trace
from jeeves_reflexion.types import Step, StopReason
from vectorstores import origin_of
from vectorstores._extras import warn_once

ESCAPES = "\x1b]0;owned\x07\x1b[31mParis\x1b[0m [/red] :smile: \x9b2J\u202e"


def test_an_answer_that_passes_goes_to_stdout_and_its_story_to_stderr(run, server):
    result = run("What is the capital of France?")
    assert result.exit_code == 0
    assert result.stdout == "Paris\n"
    assert "attempt 1 of 3" in result.stderr
    assert "recalled no lessons" in result.stderr
    assert "score 1.00: passed" in result.stderr
    assert "100 tokens" in result.stderr


def test_a_failed_attempt_teaches_the_next_one_and_later_runs(run, cli, server):
    server.answers = ["France", "Paris"]
    server.verdicts = ["score: 0.2", "score: 0.9"]
    first = run("What is the capital of France?")
    assert first.exit_code == 0
    assert first.stdout == "Paris\n"
    assert "score 0.20: not passed" in first.stderr
    assert "learned: Name the capital, not the country." in first.stderr
    assert "1 lesson kept" in first.stderr
    said = first.stderr.splitlines()[-1]
    assert said.startswith("run: ")
    assert cli("lessons", "outcome", said.removeprefix("run: "), "0.1").exit_code == 0

    server.asked.clear()
    second = run("What is the capital of France, please?")
    assert "recalled 1 lesson\n    - Name the capital, not the country." in second.stderr
    assert "Name the capital" in json.dumps(server.asked[0])


def test_a_run_that_never_passes_prints_its_best_answer_and_ends_with_1(run, server):
    server.answers = ["good", "better", "bad"]
    server.verdicts = ["score: 0.4", "score: 0.6", "score: 0.1"]
    result = run("Say something.", "--max-attempts", "3")
    assert result.exit_code == 1
    assert result.stdout == "better\n"
    assert (
        "not passed: the attempts are used up (3 attempts, best score 0.60, 3 lessons kept" in result.stderr
    )


def test_json_is_one_object_with_everything(run, server, place):
    server.answers, server.verdicts = ["France", "Paris"], ["score: 0.2", "score: 0.9"]
    result = run("What is the capital of France?", "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (answer["passed"], answer["stop_reason"], answer["score"]) == (True, "passed", 0.9)
    assert (answer["output"], answer["attempts"], answer["best_attempt"]) == ("Paris", 2, 2)
    assert [trial["attempt"]["output"] for trial in answer["trials"]] == ["France", "Paris"]
    assert answer["trials"][1]["recall"]["offered"][0]["lesson"]["text"].startswith("Name the capital")
    assert [lesson["text"] for lesson in answer["lessons"]] == ["Name the capital, not the country."]
    assert answer["store"] == {"address": str(place), "namespace": "default"}
    assert answer["usage"]["total"]["calls"] == 5
    assert answer["usage"]["reflector"]["input_tokens"] == 40
    assert "attempt 2 of 3" in result.stderr


def test_verbose_shows_steps_similarities_and_reasons_as_they_happen(run, server, capsys):
    server.answers, server.verdicts = ["France", "Paris"], ["score: 0.2\nThat is a country.", "score: 0.9"]
    lines = run("What is the capital of France?", "-v").stderr.splitlines()[1:]
    assert lines[:11] == [
        "attempt 1 of 3",
        "  recalled no lessons",
        "  answer: France",
        "  score 0.20: not passed",
        "    reason: That is a country.",
        "  learned: Name the capital, not the country.",
        "attempt 2 of 3",
        "  recalled 1 lesson",
        "    - similarity 1.00: Name the capital, not the country.",
        "  answer: Paris",
        "  score 0.90: passed",
    ]
    assert run("x", "-v", "-q").exit_code == 2
    for verbose in (False, True):
        watch = Trace(Screen(quiet=False).note, verbose=verbose)
        watch(
            StepTaken(
                run_id="r", number=2, step=Step("Hm.", "look[a\nb]", "no\x1b[2J " + "x" * 900, failed=True)
            )
        )
        watch(
            ModelFailed(
                run_id="r", role="evaluator", model="tiny", error="ModelTimeoutError: late", seconds=1.0
            )
        )
    assert capsys.readouterr().err.splitlines() == [
        "  step 2: look[a b]",
        "    thought: Hm.",
        f"    observed: no {'x' * 194}...",
        "  tiny, asked for the evaluator, failed: ModelTimeoutError: late",
    ]


def test_a_streamed_answer_is_shown_line_by_line_while_it_comes(run, server):
    parts = ["It is ", "Paris,\nthe capital" + 20 * " of a", " country", None]
    deltas = [{"content": part} if part else {} for part in parts]
    chunks = [{"choices": [{"delta": each, "finish_reason": None if each else "stop"}]} for each in deltas]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    server.answers = [(200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]))]
    result = run("What is the capital of France?", "--stream", "--no-lessons")
    told = [line for line in result.stderr.splitlines() if line.startswith("  > ")]
    assert told[0] == "  > It is Paris,"
    assert " ".join(line[4:] for line in told[1:]) == "the capital" + 20 * " of a" + " country"
    assert all(len(line) <= 84 for line in told)
    assert result.stdout.startswith("It is Paris,\nthe capital of a")


def test_quiet_leaves_the_answer_alone(run):
    result = run("What is the capital of France?", "--quiet")
    assert (result.stdout, result.stderr) == ("Paris\n", "")


def test_options_reach_the_loop(run, server):
    server.verdicts = ["score: 0.5"]
    assert run("Say something.", "--threshold", "0.5").exit_code == 0
    server.verdicts, server.lessons = ["score: 0.1"], [f"Lesson number {n} is this." for n in range(5)]
    run("Say something else.", "--max-attempts", "4")
    server.asked.clear()
    recalled = run("Say something else.", "--max-attempts", "1", "--top-k", "2").stderr
    assert "recalled 2 lessons" in recalled


def test_another_model_judges(run, server):
    run("What is the capital of France?", "--evaluator-model", "cheap")
    assert [body["model"] for body in server.asked] == ["tiny", "cheap"]


def test_namespaces_do_not_see_each_other(run, server):
    server.verdicts = ["score: 0.2"]
    run("What is the capital of France?", "--max-attempts", "1", "--namespace", "ann")
    assert "recalled no lessons" in run("What is the capital of France?", "--namespace", "bob").stderr
    assert "recalled 1 lesson" in run("What is the capital of France?", "--namespace", "ann").stderr


def test_without_lessons_nothing_is_kept_but_the_run_learns(run, server, place):
    server.answers, server.verdicts = ["France", "Paris"], ["score: 0.2", "score: 0.9"]
    result = run("What is the capital of France?", "--no-lessons")
    assert result.exit_code == 0
    assert "learned: Name the capital" in result.stderr
    assert "no lessons kept" in result.stderr
    assert "Name the capital" in json.dumps(server.asked[3]["messages"])
    assert not place.exists()


def test_the_task_may_come_from_stdin(run, server):
    assert run("-", stdin="What is the\ncapital of France?\n").exit_code == 0
    assert server.asked[0]["messages"][-1]["content"] == "What is the\ncapital of France?"


def test_a_budget_ends_the_run_with_1(run, server):
    server.verdicts = ["score: 0.2"]
    result = run("Say something.", "--budget-tokens", "60")
    assert result.exit_code == 1
    assert "stopped: the budget is used up" in result.stderr
    server.answers = [None]
    result = run("Say something.", "--budget-seconds", "0.3")
    assert result.exit_code == 1
    assert "stopped: the budget is used up" in result.stderr


def test_a_budget_in_dollars_goes_by_the_prices_of_a_file(run, server, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text('{"tiny": {"input": 1000, "output": 1000}}')
    server.verdicts = ["score: 0.2"]
    result = run("Say something.", "--prices", str(prices), "--budget-usd", "0.1")
    assert result.exit_code == 1
    assert "stopped: the budget is used up" in result.stderr
    assert 0 < len(server.asked) <= 2
    told = json.loads(run("Say something.", "--prices", str(prices), "--max-attempts", "1", "--json").stdout)
    assert told["usage"]["total"]["cost_usd"] == pytest.approx(0.15)
    whose = run("Say something.", "--model", "openai:tiny", "--prices", str(prices), "--budget-usd", "0.1")
    assert (whose.exit_code, server.asked[-1]["model"]) == (1, "tiny")
    refused = run("Say something.", "--budget-usd", "0.1")
    assert refused.exit_code == 2
    assert "--budget-usd needs --prices with tiny" in refused.stderr


def test_lessons_are_found_by_an_embedder_at_an_address(run, cli, server, place, monkeypatch):
    server.verdicts = ["score: 0.2", "score: 0.9"]
    monkeypatch.setenv("MY_KEY", "sk-of-the-embedder")
    address = f"{server.url}?model=e5&dim=4&api-key-env=MY_KEY"
    assert run("What is the capital of France?", "--embedder", address).exit_code == 0
    assert origin_of(place).name == f"HttpEmbedder('e5', dim=4, base_url='{server.url}')"
    assert "Bearer sk-of-the-embedder" in server.keys
    without = cli("lessons", "add", "Look first.", "--task", "Cross the road")
    assert without.exit_code == 5
    assert "was made with HttpEmbedder('e5'" in without.stderr
    assert "name that one with --embedder" in without.stderr
    (lesson,) = json.loads(cli("lessons", "list", "--json").stdout)["lessons"]
    for words in (
        ["search", "a capital"],
        ["why", "a capital"],
        ["edit", lesson["id"], "Name the city of its government."],
        ["rollback", lesson["id"], "--to", "1"],
        ["consolidate", "-y"],
    ):
        result = cli("lessons", *words, "--embedder", address)
        assert result.exit_code == 0, result.output
    for wrong in (
        server.url,
        f"{server.url}?model=e5&dim=four",
        f"{address}&color=red",
        "https://[bad?model=e&dim=4",
    ):
        refused = cli("lessons", "add", "Look first.", "--task", "Cross the road", "--embedder", wrong)
        assert refused.exit_code == 5
        assert "--embedder" in refused.stderr


def test_a_command_line_that_cannot_be_read_ends_with_2(run, server):
    for options, said in [
        (["--lessons", "here", "--no-lessons"], "exclude each other"),
        (["--threshold", "1.5"], "--threshold"),
        (["--max-attempts", "0"], "--max-attempts"),
        (["--budget-seconds", "nan"], "'--budget-seconds': it must be a finite number"),
        (["--timeout", "nan"], "'--timeout': it must be a finite number"),
        (["--timeout", "inf"], "--timeout"),
        (["--timeout", "0"], "--timeout"),
        (["--embedder", "other"], "--embedder"),
        (["--namespace", " "], "--namespace"),
    ]:
        result = run("Say something.", *options)
        assert result.exit_code == 2
        assert said in result.stderr
        assert not server.asked


def test_a_task_that_is_no_text_ends_with_2(run, process):
    assert run("caf\udce9").exit_code == 2
    running = process("run", "-", "--model", "tiny", stdin=subprocess.PIPE)
    running.stdin.buffer.write(b"caf\xe9")
    _, err = running.communicate(timeout=60)
    assert running.returncode == 2
    assert "Traceback" not in err


def test_an_empty_task_ends_with_2(run):
    assert run("  ").exit_code == 2
    assert run("-", stdin="\n").exit_code == 2


# -- keys and endpoints


def test_no_key_is_a_configuration_error_that_says_what_to_set(cli, place):
    result = cli("run", "Say something.", "--model", "tiny")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith("error: no key: set OPENAI_API_KEY")
    assert result.stderr.count("\n") == 1
    assert not place.exists()


def test_an_empty_key_variable_is_named(cli):
    result = cli("run", "Say something.", "--model", "tiny", "--api-key-env", "MY_KEY")
    assert result.exit_code == 3
    assert "MY_KEY" in result.stderr


def test_errors_are_json_too(cli):
    result = cli("run", "Say something.", "--model", "tiny", "--json")
    error = json.loads(result.stdout)["error"]
    assert result.exit_code == 3
    assert error["kind"] == "ModelAuthError"
    assert error["message"].startswith("no key")
    assert result.stderr == ""


def test_the_key_is_sent_and_shown_nowhere(run, server, place, monkeypatch):
    key = "correct-horse-battery"
    monkeypatch.setenv("MY_KEY", key)
    server.verdicts = ["score: 0.1"]
    shown = run("Say something.", "--api-key-env", "MY_KEY", "--json", "--debug")
    assert server.keys[0] == f"Bearer {key}"
    server.answers = [(401, "text/plain", f"your key {key} is no good")]
    refused = run("Say something.", "--api-key-env", "MY_KEY", "--debug")
    assert refused.exit_code == 3
    assert "refused" in refused.stderr
    assert key not in shown.output + refused.output
    assert not any(key.encode() in file.read_bytes() for file in place.rglob("*") if file.is_file())


def test_no_server_is_an_endpoint_error(cli, dead_url):
    result = cli("run", "Say something.", "--model", "tiny", "--base-url", dead_url, "--no-lessons")
    assert result.exit_code == 4
    assert "is it running?" in result.stderr.splitlines()[-1]
    assert dead_url in result.stderr
    assert "Traceback" not in result.stderr


def test_an_answer_that_is_no_completion_is_an_endpoint_error(run, server):
    for body in ["<html><body>It works!</body></html>", '{"choices": [{"mess', '{"object": "list"}', ""]:
        server.answers = [(200, "text/html", body)]
        server.asked.clear()
        result = run("Say something.", "--quiet")
        assert result.exit_code == 4
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert server.url in result.stderr
        assert len(server.asked) == 1


def test_a_judge_that_does_not_exist_ends_the_run_at_once(run, server):
    server.verdicts = [(404, "application/json", '{"error": {"message": "no model cheap"}}')]
    result = run("Say something.", "--evaluator-model", "cheap", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["error"]["kind"] == "ModelRequestError"
    assert len(server.asked) == 2


def test_an_endpoint_that_fails_later_costs_the_attempt_only(run, server):
    server.answers = ["France", (400, "application/json", '{"error": "too long"}'), "Paris"]
    server.verdicts = ["score: 0.1", "score: 0.0", "score: 1.0"]
    result = run("What is the capital of France?")
    assert result.exit_code == 0
    assert "the attempt failed: ModelResponseError" in result.stderr
    assert result.stdout == "Paris\n"


def test_debug_shows_where_an_error_came_from(run, server):
    server.answers = [(200, "text/html", "<html>")]
    result = run("Say something.", "--debug")
    assert result.exit_code == 4
    assert "Traceback" in result.stderr


# -- stores


def test_a_store_keeps_the_embedder_it_was_made_with(run, server, fill):
    fill([("What is the capital of France?", "Name the city.")], dim=64)
    result = run("What is the capital of France?", "--embedder", "auto")
    assert result.exit_code == 0
    assert "recalled 1 lesson" in result.stderr


def test_another_embedder_is_an_error_that_names_both_and_asks_no_model(run, server, fill):
    fill([("What is the capital of France?", "Name the city.")], dim=64)
    result = run("What is the capital of France?", "--embedder", "hashing")
    assert result.exit_code == 5
    assert "HashingEmbedder(dim=64)" in result.stderr
    assert "HashingEmbedder(dim=512)" in result.stderr
    assert not server.asked


def test_a_folder_of_other_things_is_no_store(run, server, place):
    place.mkdir()
    (place / "thesis.txt").write_text("mine")
    result = run("Say something.")
    assert result.exit_code == 5
    assert "thesis.txt" in result.stderr
    assert [entry.name for entry in place.iterdir()] == ["thesis.txt"]
    assert not server.asked


def test_a_file_is_no_address_of_lessons(run, cli, server, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for result in (
        run("Say something.", "--lessons", str(file)),
        cli("lessons", "add", "Look first.", "--task", "Cross", "--create", "--lessons", file),
    ):
        assert result.exit_code == 3
        assert result.stderr == f"error: {file} is a file, not the folder of a lesson store\n"
    assert (file.read_text(), server.asked) == ("mine", [])


def test_a_damaged_store_is_an_error_and_stays_as_it_is(run, server, place):
    place.mkdir()
    (place / "store.sqlite3").write_bytes(b"no database " * 100)
    result = run("Say something.")
    assert result.exit_code == 5
    assert "store.sqlite3" in result.stderr
    assert (place / "store.sqlite3").read_bytes() == b"no database " * 100
    assert not server.asked


def _without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    find: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name in packages else find(name, *rest)
    )


def test_a_new_store_without_a_model_is_found_by_words_with_one_warning(run, place, monkeypatch):
    _without(monkeypatch, "sentence_transformers", "onnxruntime")
    warn_once.cache_clear()
    with pytest.warns(UserWarning, match=r"jeeves-reflexion\[minilm\]") as given:
        assert run("Say something.", "--embedder", "auto").exit_code == 0
    assert len(given) == 1
    assert run("Say something.", "--embedder", "auto").exit_code == 0
    assert origin_of(place).name == "HashingEmbedder(dim=512)"


def test_an_embedder_that_was_asked_for_and_is_missing_says_what_to_install(run, place, monkeypatch):
    _without(monkeypatch, "sentence_transformers", "onnxruntime")
    result = run("Say something.", "--embedder", "minilm")
    assert result.exit_code == 3
    assert 'pip install "jeeves-reflexion[minilm]"' in result.stderr
    assert "--embedder hashing" in result.stderr
    assert not place.exists()


# -- what reaches the terminal


def test_a_models_text_cannot_speak_to_the_terminal(run, server):
    server.answers, server.verdicts = [ESCAPES], ["score: 0.1"]
    server.lessons = [f"Never write {ESCAPES} again."]
    result = run("Say something.", "--max-attempts", "2")
    assert result.stdout == "Paris [/red] :smile: \n"
    assert not {"\x1b", "\x9b", "\x07", "\u202e"} & set(result.output)
    data = run("Say something.", "--max-attempts", "1", "--json").stdout
    assert data.isascii()
    assert "\x1b" not in data
    assert json.loads(data)["output"] == ESCAPES


def test_half_characters_are_printed_somehow(run, server):
    server.answers = ["a\ud800b"]
    assert run("Say something.").stdout == "a\ufffdb\n"


def test_an_interrupt_keeps_what_was_learned(process, server, place, cli):
    server.answers, server.verdicts = ["France", None], ["score: 0.2"]
    arguments = ["--model", "tiny", "--base-url", server.url, "--embedder", "hashing"]
    running: subprocess.Popen[str] = process("run", "What is the capital of France?", *arguments)
    assert server.hanging.wait(20)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == (
        f"interrupted: the run was stopped; what it learned is kept (1 lesson in {place})"
    )
    assert "Traceback" not in err
    assert cli.count() == 1


def test_one_interrupt_ends_a_run_whose_agent_hangs(process, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = (
        "import threading\ndef agent(prompt):\n    print('begun', flush=True)\n    threading.Event().wait()\n"
    )
    (tmp_path / "hanging_agent.py").write_text(code)
    arguments = [
        "--agent",
        "hanging_agent:agent",
        "--model",
        "tiny",
        "--base-url",
        server.url,
        "--embedder",
        "hashing",
    ]
    running: subprocess.Popen[str] = process("run", "Say something.", *arguments)
    assert running.stderr is not None
    while "begun" not in running.stderr.readline():
        pass
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err.splitlines()[-1] == "interrupted: the run was stopped before it learned anything"


def test_what_the_draw_withheld_is_said(capsys):
    watch = Trace(Screen(quiet=False).note)
    for withheld in (0, 2):
        watch(
            LessonsRecalled(run_id="r", recall_id="c", n_recalled=1, lessons=("Look.",), n_withheld=withheld)
        )
    said = capsys.readouterr().err
    assert "recalled 1 lesson\n" in said
    assert "recalled 1 lesson, 2 withheld by the draw\n" in said


def test_every_end_of_a_run_is_told(capsys):
    for reason in get_args(StopReason):
        Trace(Screen(quiet=False).note)(
            RunFinished(run_id="r", stop_reason=reason, passed=False, score=None, attempts=1, seconds=1.0)
        )
        assert "(1 attempt, no score, " in capsys.readouterr().err


AGENT = """
def answer(prompt):
    print("this is the agent's own output")
    return "Paris" if "capital" in prompt else "Lyon"
"""


def test_an_agent_of_ones_own_is_judged_and_taught_by_the_model(run, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_agent.py").write_text(AGENT)
    result = run("What is the capital of France?", "--agent", "own_agent:answer")
    assert (result.exit_code, result.stdout) == (0, "Paris\n")
    assert "this is the agent's own output" in result.stderr
    assert [body["messages"][0]["content"][:9] for body in server.asked] == ["You judge"]
    missing = run("Anything?", "--agent", "own_agent:nobody")
    assert missing.exit_code == 3
    assert "--agent own_agent:nobody can't be loaded" in missing.stderr


LEAVING = """
import sys

def answer(prompt):
    sys.exit(0)

if __name__ != "staying_agent":
    sys.exit(0)
"""


def test_an_agent_that_ends_the_process_is_no_success(run, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module, line in (("leaving_agent", "line 8, in <module>"), ("staying_agent", "line 5, in answer")):
        (tmp_path / f"{module}.py").write_text(LEAVING)
        result = run("Anything?", "--agent", f"{module}:answer", "--no-lessons")
        assert result.exit_code == 3
        assert result.stderr.endswith(f"error: {module}.py, {line}: SystemExit: 0 (--debug shows more)\n")


BUGGY = """
import json

def bug(prompt):
    return undefined + prompt

def deep(prompt):
    return json.loads(7)

def raises(prompt):
    raise ValueError("as agents do")
"""


def test_a_mistake_in_ones_own_agent_is_one_line_that_names_its_place(run, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "buggy_agent.py").write_text(BUGGY)
    for name, said in (
        ("bug", "buggy_agent.py, line 5, in bug: NameError: name 'undefined' is not defined"),
        ("deep", "buggy_agent.py, line 8, in deep: TypeError: the JSON object must be str"),
    ):
        result = run("Anything?", "--agent", f"buggy_agent:{name}", "--no-lessons")
        assert result.exit_code == 3
        assert result.stderr.splitlines()[-1].startswith(f"error: {said}")
        assert "Traceback" not in result.stderr
    assert "Traceback" in run("Anything?", "--agent", "buggy_agent:bug", "--no-lessons", "--debug").stderr
    told = json.loads(run("Anything?", "--agent", "buggy_agent:bug", "--no-lessons", "--json").stdout)
    assert told["error"]["kind"] == "ConfigurationError"
    server.verdicts = ["score: 0.1"]
    tried = run("Anything?", "--agent", "buggy_agent:raises", "--no-lessons", "--max-attempts", "1")
    assert tried.exit_code == 1, "what an agent raises otherwise is an attempt"


def test_headers_and_a_bound_of_answers_go_to_the_endpoint(run, server):
    result = run(
        "x", "--header", "X-Team: blue", "--header", "api-key:opensesame:street", "--max-tokens", "50"
    )
    assert result.exit_code == 0
    assert {body["max_tokens"] for body in server.asked} == {50}
    assert all(sent["x-team"] == "blue" and sent["api-key"] == "opensesame:street" for sent in server.headers)


@pytest.mark.parametrize(
    "given", ["opensesame", "two words: opensesame", ": opensesame", "X-Key: opensesam\u00e9"]
)
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(run, given):
    result = run("x", "--header", given)
    assert result.exit_code == 2
    assert "opensesam" not in result.output


def test_no_error_shows_the_value_of_a_header(run, server):
    server.answers = [(400, "text/plain", "you sent opensesame-street")]
    result = run("x", "--header", "X-Key: opensesame-street", "--debug")
    assert result.exit_code == 4
    assert "you sent" in result.output
    assert "opensesame" not in result.output


def test_a_model_of_anthropic_wants_its_own_key(cli):
    result = cli("run", "x", "--model", "anthropic:claude-x", "--no-lessons")
    assert result.exit_code == 3
    assert "set ANTHROPIC_API_KEY" in result.output
