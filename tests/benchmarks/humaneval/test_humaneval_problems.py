"""Problems and solutions from files, and errors that say where."""

import json

import pytest
from tables import table

from benchmarks.humaneval.problems import load_problems, load_samples
from jeeves_reflexion import ConfigurationError

MBPP = {
    "task_id": 601,
    "text": 'Write a function to find the "longest" chain.',
    "code": "def longest(p, n): ...",
    "test_list": ["assert longest([(1, 2)], 1) == 1", "assert longest([], 0) == 0"],
    "test_setup_code": "import math",
    "challenge_test_list": ["assert longest([(5, 6)], 1) == 1"],
}


def test_humaneval_plain_and_compressed_are_the_same(tiny, write):
    plain = load_problems(tiny)
    records = map(json.loads, tiny.read_text().splitlines())
    assert plain == load_problems(write("tiny.jsonl.gz", *records))
    assert [p.id for p in plain] == ["Tiny/double", "Tiny/shout"]
    assert plain[0].hidden.endswith("check(double)")
    assert plain[0].kind == "humaneval"


def test_mbpp_shows_name_and_arguments_but_no_test(write):
    [problem] = load_problems(write("mbpp.jsonl", MBPP))
    assert problem.id == "MBPP/601"
    assert problem.entry_point == "longest"
    assert problem.prompt.startswith("def longest(arg_1, arg_2):\n")
    assert "longest" in problem.prompt
    assert "(1, 2)" not in problem.prompt
    assert problem.hidden.startswith("import math\n")
    assert "(5, 6)" not in problem.hidden
    [harder] = load_problems(write("mbpp.jsonl", MBPP), challenge=True)
    assert "(5, 6)" in harder.hidden
    compile(problem.prompt, "prompt", "exec")


def test_sanitized_mbpp_is_a_list_and_says_prompt(tmp_path):
    record = {
        "task_id": 7,
        "prompt": "Add.",
        "test_imports": ["import cmath"],
        "test_list": ["assert set(add(1, 2)) == {3}"],
    }
    path = tmp_path / "sanitized.json"
    path.write_text(json.dumps([record], indent=1))
    [problem] = load_problems(path)
    assert (problem.entry_point, problem.id) == ("add", "MBPP/7")
    assert problem.hidden.startswith("import cmath")


@table(
    ("second", "said"),
    [
        ("{", "line 3: no JSON"),
        ("[1]", "line 3: a JSON object"),
        ('{"task_id": "a", "prompt": "b"}', "line 3: entry_point, test missing"),
        (
            '{"task_id": "a", "prompt": "", "entry_point": "b", "test": "pass"}',
            "line 3: prompt must be a text",
        ),
        (
            '{"task_id": "a", "prompt": "x", "entry_point": "b c", "test": "pass"}',
            "line 3: entry_point 'b c'",
        ),
        (
            '{"task_id": "a", "prompt": "x", "entry_point": "b", "test": "def"}',
            "line 3: the tests are no Python",
        ),
        ('{"task_id": 1, "text": "x", "test_list": []}', "line 3: test_list is empty"),
        (
            '{"task_id": 1, "text": "x", "test_list": ["assert 1"]}',
            "line 3: the first test calls no function",
        ),
        ('{"task_id": 1, "text": "x", "test_list": "assert f()"}', "line 3: test_list must be a list"),
        (
            '{"task_id": "Tiny/double", "prompt": "x", "entry_point": "b", "test": "pass"}',
            "line 3: there is a problem",
        ),
    ],
)
def test_errors_name_the_line(tiny, second, said):
    lines = tiny.read_text().splitlines()
    tiny.write_text(f"{lines[0]}\n\n{second}\n")
    with pytest.raises(ConfigurationError, match=said):
        load_problems(tiny)


def test_a_file_that_is_none_says_so(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "torn.gz").write_bytes(b"\x1f\x8b\x08nonsense")
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigurationError, match="holds no problem"):
        load_problems(tmp_path / "empty.jsonl")
    for name in ("torn.gz", "latin.jsonl", "nowhere.jsonl"):
        with pytest.raises(ConfigurationError, match="can't be read"):
            load_problems(tmp_path / name)


def test_samples_of_either_spelling(write):
    path = write(
        "samples.jsonl",
        {"task_id": "a", "completion": "x", "passed": True},
        {"task_id": "a", "solution": "y", "is_solved": False},
        {"task_id": 3, "solution": ""},
    )
    found = load_samples(path)
    assert [(s.task_id, s.solution, s.logged) for s in found] == [
        ("a", "x", True),
        ("a", "y", False),
        ("MBPP/3", "", None),
    ]
    for record, said in (
        ({"task_id": "a"}, "neither"),
        ({"task_id": "a", "solution": "", "passed": 1}, "true or false"),
    ):
        with pytest.raises(ConfigurationError, match=f"line 1.*{said}"):
            load_samples(write("bad.jsonl", record))
