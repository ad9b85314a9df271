"""Reading YAML and JSON that nobody has to trust."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.workflows import Workflow, WorkflowFileError
from jeeves_reflexion.workflows.documents import read_file, read_yaml


def value(text):
    return read_yaml(text).value


def test_values_aliases_and_lines():
    document = read_yaml(
        "base: &base {a: 1, b: yes}\nmine:\n  a: 1\n  b: no\nlist: [*base, 2.5, 2024-01-01, ~, '5']\non: 1"
    )
    assert document.value == {
        "base": {"a": 1, "b": True},
        "mine": {"a": 1, "b": False},
        "list": [{"a": 1, "b": True}, 2.5, "2024-01-01", None, "5"],
        "on": 1,
    }
    assert document.where(("mine", "b")) == "workflow, line 4"
    assert document.where(("list", 0, "deep")) == "workflow, line 1"  # where the alias's value is written


LETTERS = "abcdefghijklmnopqrstuv"
BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise(LETTERS))


@table(
    ("text", "said"),
    [
        (BOMB, "it holds more than 50,000 values, with aliases expanded"),
        ("a:\n  b: &b [1, *b]", "line 2: it is nested deeper than 64 levels, with aliases expanded"),
        ("x: &x {y: *x}", "nested deeper than 64 levels, with aliases expanded"),
        ("a: *nowhere", "line 1, column 4: found undefined alias"),
        ("[" * 2_000, "nested deeper than 64 levels"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' is repeated; it is first in line 1"),
        ("a: !!python/object/apply:os.system ['true']", "is not allowed"),
        ("a: !!python/name:os.system", "is not allowed"),
        ("a: !!binary aGk=", "is not allowed"),
        ("a: !own {b: 1}", "is not allowed"),
        ("a: .nan", "JSON has no number"),
        ("a: -.inf", "JSON has no number"),
        ("a: " + "9" * 5000, "is not a valid int"),
        ("? [1, 2]\n: 3", "a key must be a text"),
        ("~: 1", "a key must be a text"),
        ("a: {<<: {b: 1}}", "line 1: << is not supported: write the keys out"),
        ("", "the file is empty"),
        ("--- 1\n--- 2", "line 2, column 1: expected a single document"),
        ("a: {b: 1", "line 1, column 9: while parsing a flow mapping"),
        ("a: 'open", "unexpected end of stream"),
        ("a: b\x00", "special characters are not allowed"),
        ("x" * 1_000_001, "longer than 1,000,000 characters"),
    ],
)
def test_what_can_not_be_is_one_clear_error_at_once(text, said):
    started = time.thread_time()
    with pytest.raises(WorkflowFileError) as error:
        read_yaml(text)
    assert time.thread_time() - started < 5
    assert said in str(error.value)
    assert len(str(error.value)) < 300


def test_a_file_of_ten_megabytes_is_refused_before_it_is_parsed(tmp_path):
    path = tmp_path / "large.yaml"
    path.write_bytes(b"- abcdefg\n" * 1_000_000)
    started = time.monotonic()
    with pytest.raises(WorkflowFileError, match="larger than 1,000,000 bytes"):
        Workflow.load(path)
    assert time.monotonic() - started < 30  # to parse it takes minutes


def test_a_file_that_is_missing_a_folder_or_no_text_says_so(tmp_path):
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    for name, said in (
        ("none.yaml", "no such file"),
        (".", "no such file"),
        ("latin.yaml", "not UTF-8 text"),
    ):
        with pytest.raises(WorkflowFileError, match=said):
            Workflow.load(tmp_path / name)


def test_json_files_are_read_as_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": [1, true, null]}')
    assert read_file(path).value == {"a": [1, True, None]}
    for text, said in (
        ("{", "not JSON"),
        ('{"a": NaN}', "JSON has no number nan"),
        ("[" * 50_000, "not JSON|too deeply"),
    ):
        path.write_text(text)
        with pytest.raises(WorkflowFileError, match=said):
            read_file(path)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("abc\n:-#'\"<"),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abyn<"), inner, max_size=4),
        max_leaves=12,
    )
)
def test_json_without_floats_is_yaml_of_the_same_value(written):
    assert value(json.dumps({"value": written})) == {"value": written}
