"""JSON is found wherever a model puts it, and nothing else is taken for it."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion.json_text import find_json, find_json_object, find_json_objects

OBJECT = {"a": [{"b": 1}], "c": "``` {"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (json.dumps(OBJECT), OBJECT),
        (f"```json\n{json.dumps(OBJECT, indent=1)}\n```", OBJECT),
        (f"```\n{json.dumps(OBJECT)}```", OBJECT),
        (f"So:\n~~~\n{json.dumps(OBJECT)}\n~~~", OBJECT),
        (f"It is {json.dumps(OBJECT)}, as [1] says.", OBJECT),
        (f"[1] says {json.dumps(OBJECT)}", OBJECT),
        (' [{"a": 1}, 2]\n', [{"a": 1}, 2]),
        ('```c++\n[{"a": 1}, "```"]\n```', [{"a": 1}, "```"]),
        ('Not {"a": 1} but\n```json\n[{"a": 2}]\n```', [{"a": 2}]),
        ('```json\n[{"a": 1}] and more\n```', {"a": 1}),
        ("see [1]", None),
        ("{a: 1}", None),
        ('"text"', None),
        ("", None),
        ("```" * 2000 + "{" * 5000, None),
    ],
)
def test_the_object_or_array_that_a_text_holds(text, found):
    assert find_json(text) == found


def test_objects_come_fenced_ones_first_and_outer_ones_before_inner_ones():
    text = 'First {"n": 1}, then ```json\n{"n": 2, "in": {"n": 3}}\n``` and {"n": 4} {broken}'
    assert [found["n"] for found in find_json_objects(text)] == [2, 3, 1, 2, 3, 4]
    assert find_json_object(text) == {"n": 2, "in": {"n": 3}}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, list | dict))


@given(VALUES, st.sampled_from(["", "json", "JSON", "x-y"]), st.text(alphabet="ab :.[1]\n", max_size=20))
def test_what_stands_in_a_fence_is_read_whole_whatever_stands_around_it(value, language, around):
    text = f"x{around}\n```{language}\n{json.dumps(value)}\n```\n{around}"
    assert find_json(text) == value


@pytest.mark.parametrize("piece", ["{", "[", "```[", "``` ", "```{\n", '{"a":', "```\n\n"])
def test_a_hostile_text_takes_no_time(piece):
    started = time.perf_counter()
    assert find_json(piece * 30_000) is None
    assert time.perf_counter() - started < 5.0, "this takes milliseconds, unless it is tried again and again"
