"""Problems and solutions from files, and errors that say where."""

import json

import pytest
from tables import table

from benchmarks.humaneval.problems import load_problems, load_samples
from jeeves_reflexion import ConfigurationError


def test_humaneval_plain_and_compressed_are_the_same(tiny, write):
    plain = load_problems(tiny)
    records = map(json.loads, tiny.read_text().splitlines())
    assert plain == load_problems(write("tiny.jsonl.gz", *records))
    assert [p.id for p in plain] == ["Tiny/double", "Tiny/shout"]
    assert plain[0].hidden.endswith("check(double)")
    assert plain[0].kind == "humaneval"


@table(
    ("second", "said"),
    [
        ("{", "line 3: the line: Invalid JSON"),
        ("[1]", "line 3: the line: Input should be an object"),
        ('{"task_id": "a", "prompt": "b"}', "line 3: entry_point: Field required; expected a problem"),
        ('{"task_id": "a", "prompt": "", "entry_point": "b", "test": "pass"}', "line 3: prompt: String"),
        (
            '{"task_id": "a", "prompt": "x", "entry_point": "b c", "test": "pass"}',
            "line 3: entry_point: .*'b c' is no name",
        ),
        (
            '{"task_id": "a", "prompt": "x", "entry_point": "b", "test": "def"}',
            "line 3: test: .*it is no Python",
        ),
        (
            '{"task_id": "Tiny/double", "prompt": "x", "entry_point": "b", "test": "pass"}',
            "line 3: another problem has the id",
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
    with pytest.raises(ConfigurationError, match="is empty; expected a problem"):
        load_problems(tmp_path / "empty.jsonl")
    for name in ("torn.gz", "latin.jsonl", "nowhere.jsonl"):
        with pytest.raises(ConfigurationError, match="can't be read"):
            load_problems(tmp_path / name)


def test_samples_of_either_spelling(write):
    path = write(
        "samples.jsonl",
        {"task_id": "a", "completion": "x", "passed": True},
        {"task_id": "a", "solution": "y", "is_solved": False},
        {"task_id": "b", "solution": ""},
    )
    found = load_samples(path)
    assert [(s.task_id, s.solution, s.logged) for s in found] == [
        ("a", "x", True),
        ("a", "y", False),
        ("b", "", None),
    ]
    for record, said in (
        ({"task_id": "a"}, "completion: Field required"),
        ({"task_id": "a", "solution": "", "passed": 1}, "passed: Input should be a valid boolean"),
    ):
        with pytest.raises(ConfigurationError, match=f"line 1.*{said}"):
            load_samples(write("bad.jsonl", record))
