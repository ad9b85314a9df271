"""Small changes to programs."""

import ast

from benchmarks.humaneval.mutations import FAMILIES, mutants

SOURCE = '''
LIMIT = 3

def f(a, b):
    """Say 1 < 2."""
    if not a < b and True:
        return a + 10
    while a != b:
        a -= 1
    return a // 2 if a in b else 0
'''


def test_each_is_one_change_of_a_function_and_can_be_read():
    found = mutants(SOURCE, "f")
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    assert {one.family for one in found} == set(FAMILIES)
    assert len({one.source for one in found}) == len(found)
    for one in found:
        after = one.source.splitlines()
        assert sum(x != y for x, y in zip(before, after, strict=True)) == 1
        assert "LIMIT = 3" in one.source
        assert "Say 1 < 2." in one.source


def test_the_operators():
    for change, family in [
        ("if not a <= b and True", "comparison"),
        ("return a - 10", "arithmetic"),
        ("return a + 11", "constant"),
        ("a += 1", "arithmetic"),
        ("if not a < b and False", "constant"),
        ("if not a < b or True", "logic"),
        ("while not a != b", "logic"),
        ("a not in b", "comparison"),
    ]:
        assert [one.family for one in mutants(SOURCE, "f") if change in one.source] == [family]


def test_each_change_can_be_taken_back_by_another():
    program = "def f(a):\n    return a + 1 < 2 and a"
    for one in mutants(program, "f"):
        back = {two.source for two in mutants(one.source, "f")}
        assert ast.unparse(ast.parse(program)) in back


def test_what_cant_be_read_or_changed_has_none():
    assert mutants("def f(:", "f") == []
    assert mutants("def f(a):\n    return a", "f") == []
