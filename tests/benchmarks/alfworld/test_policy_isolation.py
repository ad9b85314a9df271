"""The offline player and reflector can't reach a game's facts: they import text modules and open nothing."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "benchmarks" / "alfworld"
OWN = "benchmarks.alfworld."
ENTRIES = ("policy", "rules_reflector")
STANDARD = {"random", "re", "typing", "dataclasses", "itertools", "collections.abc"}
REACHES_OUT = {
    "open",
    "eval",
    "exec",
    "compile",
    "__import__",
    "getattr",
    "vars",
    "globals",
    "locals",
    "input",
}


def imports_of(module):
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1
            yield f"{OWN}{node.module}" if node.level else node.module


def reached_from(entries):
    seen, waiting = set(), list(entries)
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        waiting += [name.removeprefix(OWN) for name in imports_of(module) if name.startswith(OWN)]
    return seen


def test_they_import_each_other_and_a_few_standard_modules():
    modules = reached_from(ENTRIES)

    assert modules == {
        "policy",
        "rules_reflector",
        "search_plan",
        "notebook",
        "record",
        "observations",
        "goal",
        "lesson_words",
        "place_words",
    }
    others = {name for module in modules for name in imports_of(module) if not name.startswith(OWN)}
    assert others <= STANDARD


def test_they_use_nothing_that_reaches_out():
    for module in sorted(reached_from(ENTRIES)):
        tree = ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))

        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        used |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr.startswith("__")
        }

        assert not used & REACHES_OUT
        assert {name for name in used if name.startswith("__")} <= {"__name__"}


def test_importing_them_loads_no_engine():
    script = (
        "import sys, benchmarks.alfworld.policy, benchmarks.alfworld.rules_reflector\n"
        "engine = {'textworld', 'alfworld', 'fast_downward'} | {'benchmarks.alfworld.' + name for name in "
        "('engine', 'pool', 'games', 'worker', 'generator', 'wheel')}\n"
        "print(sorted(engine & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
