"""Tests without gold: the docstring's examples, and a model's asserts."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.humaneval.own_tests import docstring_tests, model_tests

HEAD = "import math\n\n\ndef f(a, b=1):\n"


def sources(docstring):
    indented = "\n".join(f"    {line}" for line in docstring.split("\n"))
    prompt = f'{HEAD}    """Say.\n{indented}\n    """\n'
    return [test.source.removeprefix("assert ") for test in docstring_tests(prompt, "f")]


def test_examples_are_read():
    for docstring, found in [
        (">>> f(1)\n2\n>>> f(2, b=3)\n[1, 'a']", ["f(1) == 2", "f(2, b=3) == [1, 'a']"]),
        (">>> round(f(1), 2)  # half\n-0.5", ["round(f(1), 2) == -0.5"]),
        (">>> f(1)\n>>> f(2)\n3", ["f(2) == 3"]),
        (">>> f(1)\nTraceback (most recent call last):", []),
        (">>> f(x)\n2", []),
        (">>> g(1)\n2", []),
        (">>> f(1)\n2\n>>> f(1)\n2", ["f(1) == 2"]),
        ("f(1) == 2", ["f(1) == 2"]),
        ("* f([1, 2]) => [3]", ["f([1, 2]) == [3]"]),
        ("f('a)b') -> 'c' (a word)", ["f('a)b') == 'c'"]),
        ("f(1) \u279e True", ["f(1) == True"]),
        ("f(1) => true", ["f(1) == True"]),
        ("f(1) ==> 12.", ["f(1) == 12"]),
        ("f(1) # returns 'x'", ["f(1) == 'x'"]),
        ("f(1) should return 4, since", ["f(1) == 4"]),
        ("f([\n  1,\n  2\n], 1) == [(0, 0)]", ["f([1, 2], 1) == [(0, 0)]"]),
        ("f(1) == 1 + 2 = 3", []),
        ('f(["a"]) == ""a""', []),
        ("f(abc) => 3", []),
        ("f(1) is not known", []),
        ("half(1) == 2", []),
    ]:
        assert sources(docstring) == found


def test_calls_in_the_text_can_be_left_out():
    assert sources(">>> f(1)\n2\nf(2) == 3") == ["f(1) == 2", "f(2) == 3"]


def test_only_the_functions_own_docstring_counts():
    helper = 'def g(x):\n    """\n    >>> f(1)\n    9\n    """\n    return x\n\n\n'
    prompt = helper + 'def f(a):\n    """>>> f(1)\n    2\n    """\n'
    assert [test.source for test in docstring_tests(prompt, "f")] == ["assert f(1) == 2"]
    assert docstring_tests("def f(:", "f") == []


@given(st.text(max_size=120))
def test_any_docstring_gives_tests_that_compile(text):
    prompt = f"def f(a):\n    {text!r}\n"
    for test in docstring_tests(prompt, "f"):
        (statement,) = ast.parse(test.source).body
        assert isinstance(statement, ast.Assert)
        assert any(isinstance(n, ast.Name) and n.id == "f" for n in ast.walk(statement)), test.source


def test_a_models_asserts_are_filtered_and_limited():
    reply = """Some tests:
```python
assert f(1) == 2
assert f(1) == 2
assert f(2, math.pi) == 3  # math is imported above
assert f(3) == unknown
assert len(f([x for x in range(3)])) == 3
assert 1 == 1
f(4) == 5
assert f(6) ==
def test_more():
    assert not f(7)
assert f(8) in (1, 2), "why"
```
assert f(99) == 0"""
    broken = [test.source for test in model_tests(reply, HEAD, "f")]
    assert broken == [
        "assert f(1) == 2",
        "assert f(2, math.pi) == 3",
        "assert len(f([x for x in range(3)])) == 3",
        "assert not f(7)",
        "assert f(8) in (1, 2), 'why'",
    ]
    assert len(model_tests(reply, HEAD, "f", most=2)) == 2
    assert [test.source for test in model_tests("assert f(1) == 2\nwords", HEAD, "f")] == ["assert f(1) == 2"]
    assert model_tests("no tests", HEAD, "f") == []


def test_what_is_shown_of_a_failure_is_the_left_side():
    [test] = model_tests("assert f(1) + 1 == 2", HEAD, "f")
    assert test.actual == "f(1) + 1"
    [test] = model_tests("assert f(1)", HEAD, "f")
    assert test.actual == "f(1)"
