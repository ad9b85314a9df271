"""``jeeves-reflexion learn``: lessons from attempts that were made elsewhere."""

import json
import signal

import pytest

TASK = "What is the capital of France?"
PLAIN = {"task": TASK, "output": "France", "score": 0.0, "reason": "that is the country", "id": "one"}
CHAT = {
    "messages": [
        {"role": "system", "content": "You are a clerk."},
        {"role": "user", "content": [{"type": "text", "text": TASK}]},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a map of Europe"},
        {"role": "assistant", "content": "It is Lyon."},
    ],
}


@pytest.fixture
def learn(cli, server, tmp_path):
    def call(*lines, more=()):
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        (tmp_path / "attempts.jsonl").write_text(text, encoding="utf-8")
        given = ("--model", "tiny", "--base-url", server.url, "--embedder", "hashing", *more)
        return cli("learn", tmp_path / "attempts.jsonl", *given)

    return call


def test_an_attempt_with_a_score_teaches_a_lesson_that_the_next_run_recalls(learn, run, server):
    done = learn(PLAIN)
    assert done.exit_code == 0
    assert "1 attempt: 1 lesson, 0 known already" in done.stdout
    assert "that is the country" in server.prompts()
    server.asked.clear()
    assert run(TASK).exit_code == 0
    assert "Name the capital, not the country." in server.prompts()


def test_a_conversation_is_judged_and_its_steps_are_read(learn, server):
    server.verdicts = ["score: 0.1"]
    done = learn(CHAT, more=("--json",))
    assert len(json.loads(done.stdout)["learned"]) == 1
    for seen in ("a map of Europe", "It is Lyon."):
        assert seen in server.prompts()


def test_only_a_line_feed_ends_a_line_and_the_mark_of_utf_8_is_passed_over(learn, server):
    text = json.dumps({**PLAIN, "output": "France,\u2028or\x85so"}, ensure_ascii=False)
    done = learn("\ufeff" + text)
    assert "1 attempt: 1 lesson, 0 known already" in done.stdout, done.output


def test_nothing_is_learned_twice(learn, cli, server):
    other = {**CHAT, "score": 0.0}
    assert learn(PLAIN, other, PLAIN).stdout.endswith("2 attempts: 2 lessons, 0 known already\n")
    assert cli.count() == 1, "both say the same: one lesson with the support of two"
    asked = len(server.asked)
    again = learn(other, {**PLAIN, "reason": "said in other words"})
    assert "no lessons, 2 known already" in again.stdout
    assert len(server.asked) == asked, "no model is paid for what is known"


def test_what_passed_teaches_nothing_and_is_known_then(learn, cli, server):
    assert "no lessons, 0 known" in learn({**PLAIN, "score": 0.9}).stdout
    assert "no lessons, 1 known" in learn({**PLAIN, "score": 0.9}).stdout
    assert server.asked == []


def test_an_attempt_without_a_verdict_is_told_and_tried_again(learn, server):
    server.verdicts = ["I could not say."]
    first = learn({"task": TASK, "output": "France"})
    assert "no verdict" in first.stderr
    server.verdicts = ["score: 0.0"]
    assert "1 lesson, 0 known already" in learn({"task": TASK, "output": "France"}).stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: "),
        ('{"output": "a"}', "either task and output, or messages"),
        ({**PLAIN, "score": 7}, "score: "),
        ({**PLAIN, "score": "high"}, "score: "),
        ({**PLAIN, "verdict": 1}, "verdict: "),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "none is of the role user"),
        (
            {"messages": [{"role": "user", "content": "x"}], "output": "y"},
            "either task and output, or messages",
        ),
        ("[1]", "line 2: "),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_nothing_is_learned(learn, cli, server, line, said):
    done = learn({**PLAIN, "id": "other"}, line)
    assert done.exit_code == 3
    assert "attempts.jsonl, line 2" in done.stderr
    assert said in done.stderr
    assert server.asked == []
    assert cli("lessons", "list").exit_code != 0, "no store was made"


def test_a_dry_run_asks_nobody_and_makes_nothing(learn, server, place):
    done = learn(PLAIN, CHAT, more=("--dry-run",))
    assert done.stdout == "2 attempts, 1 of them to be judged\n"
    assert server.asked == []
    assert not place.exists()


def test_an_empty_file_and_a_missing_one_are_errors(learn, cli):
    assert "no attempt found in" in learn("").stderr
    assert cli("learn", "nowhere.jsonl", "--model", "tiny").exit_code == 2


def test_a_dead_endpoint_ends_it_and_the_next_call_goes_on(learn, cli, dead_url, server, tmp_path):
    (tmp_path / "attempts.jsonl").write_text(json.dumps(PLAIN))
    where = ("--base-url", dead_url, "--embedder", "hashing")
    dead = cli("learn", tmp_path / "attempts.jsonl", "--model", "tiny", *where)
    assert dead.exit_code == 4
    assert "1 lesson" in learn(PLAIN).stdout


def test_an_interrupt_says_that_the_next_call_goes_on(process, learn, server, tmp_path):
    server.lessons = ["Name the capital, not the country.", None]
    (tmp_path / "given.jsonl").write_text("\n".join(json.dumps({**PLAIN, "id": str(n)}) for n in range(3)))
    given = ("--model", "tiny", "--base-url", server.url, "--embedder", "hashing")
    running = process("learn", tmp_path / "given.jsonl", *given)
    assert server.hanging.wait(20)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == ("interrupted: 1 lesson learned so far; run the command again to continue")
    server.released.set()
    server.lessons = ["Read the question twice."]
    again = learn(*({**PLAIN, "id": str(n)} for n in range(3)))
    assert "3 attempts: 2 lessons, 1 known already" in again.stdout


def test_attempts_are_read_from_standard_input(cli, learn, server):
    given = ("--model", "tiny", "--base-url", server.url, "--embedder", "hashing")
    done = cli("learn", "-", *given, stdin=json.dumps(PLAIN))
    assert "1 attempt: 1 lesson, 0 known already" in done.stdout
    assert "no lessons, 1 known already" in learn(PLAIN).stdout
    assert "standard input, line 1: " in cli("learn", "-", *given, stdin="{").stderr


def test_a_trace_is_learned_from_once_beside_the_other_forms(learn, server):
    def span(name, *given):
        attributes = {
            "gen_ai.input.messages": json.dumps(given[:1]),
            "gen_ai.output.messages": json.dumps(given[1:]),
        }
        return {"context": {"trace_id": "0x1", "span_id": name}, "parent_id": None, "attributes": attributes}

    asked = {"role": "user", "parts": [{"type": "text", "content": TASK}]}
    told = {"role": "assistant", "parts": [{"type": "text", "content": "France, as the span has it"}]}
    event = {"name": "gen_ai.evaluation.result", "attributes": {"gen_ai.evaluation.score.label": "fail"}}
    judged = json.dumps({**span("0xa", asked, told), "events": [event]}, indent=4)
    assert "2 attempts: 2 lessons, 0 known already" in learn(judged, PLAIN).stdout
    assert "France, as the span has it" in server.prompts()
    assert "no lessons, 2 known already" in learn(PLAIN, judged, judged).stdout


def test_secrets_and_gold_stay_where_they_are(learn, server, cli):
    server.lessons = ["Use the key sk-proj-abcdefghijklmnopqrstuvwxyz123456 for the map."]
    learn({**PLAIN, "reference": "Paris is the gold answer"})
    reflecting = [b for b in server.asked if b["messages"][0]["content"].startswith("You write lessons")]
    assert "the gold answer" not in json.dumps(reflecting)
    assert "abcdefghijklmnop" not in cli("lessons", "list", "--json").stdout
