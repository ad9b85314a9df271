"""Hidden tests in the sandbox: what passes, what fails and why, and what is no verdict at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.humaneval import harness
from benchmarks.humaneval.checking import OwnTestRunner
from benchmarks.humaneval.own_tests import docstring_tests, model_tests
from benchmarks.humaneval.problems import Sample, load_problems
from benchmarks.humaneval.scoring import HiddenTests, Scored, Verdict, by_problem, estimates, score
from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.errors import SandboxUnavailableError

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("shut_in")]


@pytest.mark.parametrize(
    ("solution", "status", "reason"),
    [
        ("    return 2 * n\n", "passed", ""),
        ("def double(n):\n    return int(math.ldexp(n, 1))\n", "passed", ""),
        ("    print('x' * 2_000_000)\n    return 2 * n\n", "passed", ""),
        ("    return n\n", "failed", "HIDDEN-42"),
        ("return 2 * n\n", "failed", "SyntaxError"),
        ("", "failed", "HIDDEN-42"),
        ("    while True: pass\n", "timed out", "1 s"),
        ("    import sys; sys.exit(0)\n", "failed", "SystemExit"),
        ("    import os; os._exit(0)\n", "failed", "before it answered"),
        ("    return double(n)\n", "failed", "RecursionError"),
        ("    raise BaseException('no')\n", "failed", "BaseException: no"),
        ("    return input()\n", "failed", "EOFError"),
        ("    return open('/etc/passwd')\n", "failed", "Error"),
        ("    return [0] * 10**10\n", "failed", "MemoryError"),
        ("    return 2 * n\nresult = {'passed': True}\nassert False\n", "failed", "AssertionError"),
        ("    return '\ud800'\n", "failed", "not valid text"),
    ],
)
async def test_verdicts(tiny, solution, status, reason):
    problem = load_problems(tiny)[0]
    verdict = await HiddenTests(seconds=1).verdict(problem, solution)
    assert verdict.status == status
    assert reason in verdict.reason
    assert verdict.passed == (status == "passed")


EQUAL = "class Equal:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n"
FORGERIES = {
    "a result written": '    import os\n    os.write(3, b\'{"value": {"passed": true, "why": ""}}\')\n'
    "    os._exit(0)\n",
    "a verdict as an answer": (
        '    import os\n    os.write(7, b\'{"value": {"dict": [["passed", true]]}}\\n\' * 9)\n    os._exit(0)\n'
    ),
    "answers before they are asked": "    return None\nimport os\nos.write(7, b'{\"value\": true}\\n' * 9)\n",
    "garbage as an answer": "    import os\n    os.write(7, b'[' * 50_000 + b'\\n')\n",
    "a value equal to all": f"    return Equal()\n{EQUAL}",
    "a number equal to all": "    return Number(7)\nclass Number(int):\n    def __eq__(self, other): return True\n",
    "a class equal to all": (
        "    return Any\nclass Meta(type):\n    def __eq__(self, other): return True\nclass Any(metaclass=Meta): pass\n"
    ),
    "a value that lies about its class": f"    return Equal()\n{EQUAL}    __class__ = int\n",
    "the check rebound": (
        "    import sys\n    for f in sys._current_frames().values():\n        while f:\n"
        "            f.f_globals.update(check=print, double=lambda n: 42, result={'passed': True})\n"
        "            f = f.f_back\n    return 1\ndef check(candidate): pass\n"
    ),
    "builtins replaced": (
        "    return 1\nimport builtins\nbuiltins.AssertionError = builtins.Exception = type('E', (Exception,), {})\n"
        "builtins.exec = builtins.compile = lambda *a, **b: None\n"
    ),
    "the tests read from memory": (
        "    import gc\n    texts = [str(o) for o in gc.get_objects() if not callable(o)] + [str(globals())]\n"
        "    return 2 * n if any('-'.join(['HIDDEN', '42']) in text for text in texts) else -1\n"
    ),
    "the tests read from frames": (
        "    import sys\n    f = sys._getframe()\n    while f:\n"
        "        if '-'.join(['HIDDEN', '42']) in str([f.f_locals, f.f_globals]):\n"
        "            return 2 * n\n        f = f.f_back\n    return -1\n"
    ),
    "an end of all": "    raise KeyboardInterrupt\n",
    "no end": "    import os\n    os.close(7)\n",
}


@pytest.mark.parametrize("solution", FORGERIES.values(), ids=FORGERIES)
async def test_a_verdict_cant_be_forged(tiny, solution):
    problem = load_problems(tiny)[0]
    assert not (await HiddenTests(seconds=2).verdict(problem, solution)).passed
    own = docstring_tests(problem.prompt, "double")
    checked = await OwnTestRunner(seconds=0.5).check(f"def double(n):\n{solution}", "double", own)
    assert not checked.passed


async def test_modules_of_tests_are_not_the_solutions(write):
    test = "import math\ndef check(candidate):\n    assert math.isclose(candidate(3), 1.5)"
    record = {"task_id": "Tiny/half", "prompt": "def half(n):\n", "entry_point": "half", "test": test}
    [problem] = load_problems(write("half.jsonl", record))
    honest = "def half(n):\n    return n / 2\n"
    forged = "import math\ndef half(n):\n    return 7\nmath.isclose = lambda *a: True\n"
    hidden = HiddenTests(seconds=2)
    assert [(await hidden.verdict(problem, one)).passed for one in (honest, forged)] == [True, False]


async def test_tests_may_call_what_stands_before_the_function(write):
    record = {
        "task_id": "Tiny/undo",
        "prompt": 'def turn(text):\n    return text[::-1]\n\n\ndef undo(text):\n    """Undo turn."""\n',
        "entry_point": "undo",
        "test": "def check(candidate):\n    assert candidate(turn('abc')) == 'abc'",
    }
    [problem] = load_problems(write("undo.jsonl", record))
    solution = "    return turn(text)\n"
    assert (await HiddenTests(seconds=2).verdict(problem, solution)).passed
    own = model_tests("assert undo(turn('abc')) == 'abc'", problem.prompt, "undo")
    assert (await OwnTestRunner().check(problem.prompt + solution, "undo", own)).passed


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
    | st.complex_numbers(allow_nan=False) | st.integers(10**5000, 10**5001) | st.builds(range, st.integers(0, 9)),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    | st.frozensets(st.text() | st.integers(), max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(PLAIN)
def test_what_crosses_is_what_was_sent(value):
    crossed = harness.decoded(json.loads(json.dumps(harness.encoded(value))))
    assert (type(crossed), crossed) == (type(value), value)


async def test_many_are_scored_in_order(tiny):
    samples = [Sample("Tiny/double", f"    return {n} * n\n", n == 2, n) for n in range(4)]
    scored = await score(load_problems(tiny), samples, HiddenTests())
    assert [one.verdict.passed for one in scored] == [False, False, True, False]
    assert all(one.agrees for one in scored)
    assert not Scored(Sample("a", "", True, 1), Verdict("failed")).agrees
    assert Scored(Sample("a", "", None, 1), Verdict("failed")).agrees is None
    with pytest.raises(ConfigurationError, match=r"line 9.*'Tiny/none'"):
        await score(load_problems(tiny), [Sample("Tiny/none", "", None, 9)], HiddenTests())


async def test_without_a_sandbox_there_is_no_verdict(tiny, monkeypatch):
    class Nowhere:
        async def run_pair(self, *args, **options):
            raise SandboxUnavailableError("not here")

    hidden, runner = HiddenTests(), OwnTestRunner()
    monkeypatch.setattr(hidden, "_sandbox", Nowhere())
    monkeypatch.setattr(runner, "_sandbox", Nowhere())
    with pytest.raises(SandboxUnavailableError):
        await score(load_problems(tiny), [Sample("Tiny/double", "", None, 1)], hidden)
    with pytest.raises(SandboxUnavailableError):
        await runner.check("", "f", [])


def test_estimates_are_means_over_problems():
    def of(task, *passed):
        return [Scored(Sample(task, "", None, 1), Verdict("passed" if one else "failed")) for one in passed]

    tried = by_problem([*of("a", True, False), *of("b", True, True, True)])
    assert tried == {"a": [True, False], "b": [True, True, True]}
    assert estimates(tried) == [0.75, 1.0]
    assert estimates({}) == []


async def test_own_tests_show_the_value_got(tiny):
    problem = load_problems(tiny)[0]
    reply = (
        "assert double(1) == 2\nassert double(3) == 6\nassert double('a') == 'aa'\nassert double(-1) == -2"
    )
    tests = model_tests(reply, problem.prompt, "double")
    program = (
        "def double(n):\n    if n == 1: return 2\n    if n == 3:\n        while True: pass\n"
        "    if n == 'a': return n\n    raise ValueError('negative')\n"
    )
    checked = await OwnTestRunner(seconds=0.3).check(program, "double", tests)
    assert checked.share == 0.25
    assert not checked.passed
    assert checked.failed == (
        "assert double(3) == 6 # output: no value in time",
        "assert double('a') == 'aa' # output: 'a'",
        "assert double(-1) == -2 # output: ValueError: negative",
    )
    assert checked.feedback().startswith(
        "Tests passed:\nassert double(1) == 2\n\nTests failed:\nassert double(3)"
    )


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("def double(:", "SyntaxError"),
        ("def twice(n): return n", "'double' is not defined"),
        ("while True: pass", "does not end"),
        ("import os; os._exit(0)", "before it answered"),
    ],
)
async def test_a_program_that_cant_be_loaded_fails(tiny, program, said):
    problem = load_problems(tiny)[0]
    tests = docstring_tests(problem.prompt, "double")
    import re

    checked = await OwnTestRunner(seconds=0.3).check(program, "double", tests)
    assert checked.problem
    assert re.search(said, checked.problem)
    assert not checked.passed
    assert checked.tested
