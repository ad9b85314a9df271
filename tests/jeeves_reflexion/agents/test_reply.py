"""The text form of ReAct, as models write it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.agents.reply import parse_reply


@table(
    ("text", "thought", "tool", "argument"),
    [
        ("Thought: look\nAction: search[Paris]", "look", "search", "Paris"),
        ("Thought 1: look\nAction 1: search[Paris]\nObservation 1: made up", "look", "search", "Paris"),
        ("**Thought:** look\n**Action:** `search[Paris]`", "look", "search", "Paris"),
        (
            "I'll look.\naction: search[Paris]\n\nThought: more\nAction: other[x]",
            "I'll look.",
            "search",
            "Paris",
        ),
        ('Action: add {"a": 1, "b": 2}', "", "add", '{"a": 1, "b": 2}'),
        ('Action: add({"a": 1})', "", "add", '{"a": 1}'),
        ('Action: add {"a": 1}\nand so on', "", "add", '{"a": 1}'),
        ('Action: search\nAction Input: {"q": "x"}\nObservation: y', "", "search", '{"q": "x"}'),
        ('Action: search\nAction Input:\n```json\n{"q": "x"}\n```', "", "search", '{"q": "x"}'),
        ("Action: search[a [b] c]", "", "search", "a [b] c"),
        ("Action: search[a] b]", "", "search", "a] b"),
        ("Action: search[Paris] and then [look]", "", "search", "Paris"),
        ("Action: search[Paris] Action: search[London]", "", "search", "Paris"),
        ("Action: search[Paris], search[London]", "", "search", "Paris"),
        ("Action: search[Paris] Observation: in France. Action: Finish[x]", "", "search", "Paris"),
        ("Action: search[a [b [c]] d] and so on", "", "search", "a [b [c]] d"),
        ("Action: run[x = ']'\nprint(a[0])]", "", "run", "x = ']'\nprint(a[0])"),
        ("Action: search[Paris]\n<observation>\nParis]\n</observation>", "", "search", "Paris"),
        ("Thought: a\nAction:\n```\nsearch[Paris]\n```\nNow I wait.", "a", "search", "Paris"),
        ("Action: run\n```python\nprint(a[0])\n```", "", "run", "print(a[0])"),
        ("### Thought\na\n### Action\nsearch[Paris]", "a", "search", "Paris"),
        ("Action: run[\n# Action\nact()\n]", "", "run", "# Action\nact()"),
        (
            "Thought\uff1a\u67e5\nAction\uff1asearch\uff3b\u5df4\u9ece\uff3d",
            "\u67e5",
            "search",
            "\u5df4\u9ece",
        ),
        ("<think>Action: send[x]</think>\nAction: search[Paris]", "", "search", "Paris"),
        ("Action: search[Paris] and then look", "", "search", "Paris"),
        ("Action: search[Paris]\nI wait for [it]", "", "search", "Paris"),
        ("Action: search[Paris", "", "search", "Paris"),
        ("Action: search Paris", "", "search", "Paris"),
        ("Action: search: Paris", "", "search", "Paris"),
        ("Action: look", "", "look", ""),
        ("Action: look[]", "", "look", ""),
        ("Action\uff1asearch[Paris]", "", "search", "Paris"),
        ("Thought: it says\n```\nAction: send[x]\n```\nso\nAction: look[a]", "it says\n\nso", "look", "a"),
        ("Thought: two\nlines\nAction: run[a\nb]", "two\nlines", "run", "a\nb"),
    ],
)
def test_calls(text, thought, tool, argument):
    reply = parse_reply(text)
    assert (reply.thought, reply.tool, reply.argument, reply.problem) == (thought, tool, argument, "")
    assert not reply.finished


@table(
    ("text", "answer"),
    [
        ("Thought: done\nAction: Finish[42]", "42"),
        ("Action: finish[a[0] = [1,\n 2]\nprint(a)]", "a[0] = [1,\n 2]\nprint(a)"),
        ('Action: Finish {"answer": "yes"}', "yes"),
        ('Action: Finish {"answer": 3}', "3"),
        ('Action: Finish {"a": 1, "b": 2}', '{"a": 1, "b": 2}'),
        ('Action: Finish["quoted"]', "quoted"),
        (f"Action: Finish[{'[' * 2000}", "[" * 2000),
        ("Thought: done\nFinal Answer: forty two", "forty two"),
        ("Final Answer: **Paris**", "Paris"),
        ("**Final Answer:** **Paris**", "Paris"),
        ("**Final Answer: Paris**", "Paris"),
        ("Final Answer: **Paris** is the capital.", "**Paris** is the capital."),
        ("**Final Answer:** `ls` lists files.", "`ls` lists files."),
        ("Final Answer: __init__", "__init__"),
        ("**Final Answer:** *args", "*args"),
        ("Thought: _hm_\n**Action:** `Finish[**Paris**]`", "Paris"),
    ],
)
def test_answers(text, answer):
    reply = parse_reply(text)
    assert reply.finished
    assert reply.argument == answer


@table(
    "text",
    [
        "",
        "The answer is 42.",
        "Thought: hm",
        "Action:",
        "Action: ???",
        "Observation: Action: x[y]",
        "The page says:\n\n    Action: send[x]\n\nNo.",
        "Thought: the page says\n```\nAction: send[x]\n```\nand I won't",
    ],
)
def test_what_cannot_be_read_says_why(text):
    reply = parse_reply(text)
    assert reply.problem
    assert not reply.finished
    assert reply.action == ""


@given(st.text())
def test_any_text_is_a_call_an_answer_or_a_problem(text):
    reply = parse_reply(text)
    assert bool(reply.tool) != bool(reply.problem)


@given(st.text(alphabet=st.characters(exclude_characters="[]", exclude_categories=["C", "Z"]), min_size=1))
def test_a_written_action_is_read_back(argument):
    reply = parse_reply(f"Thought: x\nAction: look[{argument}]")
    assert (reply.tool, reply.argument) == ("look", argument)
