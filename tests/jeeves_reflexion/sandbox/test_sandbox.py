"""What the sandbox returns and raises, and what it leaves behind: nothing."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import ChainMap
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import table

from benchmarks.sandbox.host import Host, forced
from jeeves_reflexion import sandbox as room
from jeeves_reflexion.errors import CodeError, CodeLimitError, ConfigurationError, SandboxUnavailableError
from jeeves_reflexion.sandbox import Guarantees, Ran, Sandbox, SandboxLimits, jail, probe
from jeeves_reflexion.sandbox.inside import messages, python_code

pytestmark = pytest.mark.anyio
both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

NOTHING = Guarantees(network=False, files=False, processes=False, way="limits", text="network: NOT isolated")


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    if not probe().complete:
        pytest.skip(f"this machine isolates nothing: {probe().text}")
    async with Sandbox() as made:
        yield made


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as made, forced(probe().way, made):
        yield made


async def test_inputs_are_mappings_of_any_kind(sandbox):
    given = MappingProxyType({"a": (1, ChainMap({"b": None}))})
    assert (await sandbox.run("return given", inputs={"given": given})).value == {"a": [1, {"b": None}]}


@table(
    ("code", "value"),
    [
        ("result = {'a': [1, 2.5, None, True, 'é'], 'b': {}}", {"a": [1, 2.5, None, True, "é"], "b": {}}),
        ("pass", None),
        ("result = (1, 2)", [1, 2]),
        ("if given > 1:\n    return {'big': given}\nreturn None", {"big": 2}),
        ("given = given + 1\nreturn given", 3),
        ("   x = 1\n   if x:\n       return 'indented'", "indented"),
        ("x: int = 4\ndef f():\n    return x\nreturn f()", 4),
        ("from __future__ import annotations\nimport math\nreturn math.floor(2.5)", 2),
        ("def f():\n    return 1\nresult = f()", 1),
        (
            "class A:\n    x: int = 5\n    def f(self): return self.x\nreturn [A().f() for _ in range(2)]",
            [5, 5],
        ),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nreturn P(3).x", 3),
        ("try:\n    return 1\nexcept:\n    return 2", 1),
        ("for i in range(3):\n    total = i\nresult = total\nif False: return 0", 2),
        ("result = __name__", "__main__"),
    ],
)
async def test_the_value_of_python(sandbox: Sandbox, code: str, value: object) -> None:
    assert (await sandbox.run(code, inputs={"given": 2})).value == value


@both_loops
async def test_what_is_printed_comes_back(sandbox: Sandbox) -> None:
    ran = await sandbox.run("import sys\nprint('out é')\nprint('err', file=sys.stderr)\nresult = 1")
    assert ran == Ran(value=1, stdout="out é\n", stderr="err\n", seconds=ran.seconds)
    assert 0 < ran.seconds < 5


@table(
    ("code", "type_", "line"),
    [
        ("def f(x):\n    return 1 / x\n\nf(0)", "ZeroDivisionError", 2),
        ("x = 1\nif x:\n    raise KeyError('k')\nreturn 1", "KeyError", 3),
        ("x = (\n", "SyntaxError", 1),
        ("return 1\nyield 2", "SyntaxError", None),
        ("import sys\nsys.exit(3)", "SystemExit", 2),
        ("undefined", "NameError", 1),
    ],
)
async def test_an_error_says_what_and_where(
    sandbox: Sandbox, code: str, type_: str, line: int | None
) -> None:
    with pytest.raises(CodeError, match=type_) as caught:
        await sandbox.run(code)
    assert caught.value.type == type_
    if line:
        assert caught.value.line == line


async def test_an_error_keeps_what_was_printed(sandbox: Sandbox) -> None:
    with pytest.raises(CodeError) as caught:
        await sandbox.run("print('before')\n1 / 0")
    assert caught.value.stdout == "before\n"
    with pytest.raises(CodeLimitError) as stopped:
        await sandbox.run("print('before', flush=True)\nwhile True: pass", limits=SandboxLimits(seconds=0.3))
    assert (stopped.value.stdout, stopped.value.limit) == ("before\n", "seconds")


@table(
    ("inputs", "said"),
    [
        ({"x": float("nan")}, "float"),
        ({"x": {1: 2}}, "key"),
        ({"x": object()}, "object"),
        ({"a b": 1}, "a b"),
    ],
)
async def test_inputs_that_can_not_cross(sandbox: Sandbox, inputs: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await sandbox.run("", inputs=inputs)


async def test_an_unknown_language(sandbox: Sandbox) -> None:
    with pytest.raises(ConfigurationError, match="python, lua, prolog"):
        await sandbox.run("", language="perl")  # type: ignore[arg-type]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_json_survives_the_crossing(value: object) -> None:
    assert messages.decode(messages.encode(value, "x")) == value


@given(
    st.lists(
        st.sampled_from(["x = x + 1", "if x > 2:\n    x = x * 2", "for _ in range(2): x += 1"]), max_size=6
    )
)
def test_a_return_changes_nothing_but_the_end(lines: list[str]) -> None:
    plain = {"x": 1}
    python_code.execute("\n".join([*lines, "result = x"]), plain)
    assert python_code.execute("\n".join([*lines, "return x"]), {"x": 1}) == plain["result"]


async def test_lua(sandbox: Sandbox) -> None:
    pytest.importorskip("lupa")
    code = (
        "local e = {}\nif not output:find('@') then e[1] = {message = 'no at'} end\n"
        "return {valid = #e == 0, errors = e}"
    )
    assert (await sandbox.run(code, language="lua", inputs={"output": "x"})).value == {
        "valid": False,
        "errors": [{"message": "no at"}],
    }
    state = {"list": [1, None, 3], "object": {}, "empty": [], "text": "é", "yes": True, "half": 0.5}
    assert (await sandbox.run("return state", language="lua", inputs={"state": state})).value == state
    assert (await sandbox.run("result = 3", language="lua")).value == 3
    with pytest.raises(CodeError) as caught:
        await sandbox.run("local x = 1\nerror('wrong')", language="lua")
    assert (caught.value.line, "wrong" in str(caught.value)) == (2, True)
    with pytest.raises(CodeError, match="line 2"):
        await sandbox.run("local x = \n1 +* 2", language="lua")


async def test_a_large_lua_value_has_the_memory_of_its_runtime(sandbox):
    pytest.importorskip("lupa")
    limits = SandboxLimits(memory_mb=96, output_bytes=30_000_000)
    ran = await sandbox.run("return string.rep('x', 24000000)", language="lua", limits=limits)
    assert ran.value == "x" * 24_000_000


async def test_prolog(sandbox: Sandbox) -> None:
    _needs_prolog()
    code = (
        "evaluate(Output, State, _{valid: V, k: K}) :-\n    get_dict(k, State, K),\n"
        '    ( sub_string(Output, _, _, _, "@") -> V = true ; V = false ).'
    )
    inputs: dict[str, Any] = {"output": "a@b", "state": {"k": [None, True, 1.5, "é", {}]}}
    ran = await sandbox.run(code, language="prolog", inputs=inputs)
    assert ran.value == {"valid": True, "k": [None, True, 1.5, "é", {}]}
    assert (await sandbox.run("result(I, I).", language="prolog", inputs=inputs)).value == inputs
    ran = await sandbox.run("result([a, \"b\"]) :- format('hello~n').", language="prolog")
    assert (ran.value, ran.stdout) == (["a", "b"], "hello\n")
    with pytest.raises(CodeError, match="zero") as caught:
        await sandbox.run("result(X) :- X is 1 / 0.", language="prolog")
    assert caught.value.type == "evaluation_error"
    with pytest.raises(CodeError, match="evaluate/3, result/2 and result/1"):
        await sandbox.run("fact(1).", language="prolog")


def _needs_prolog() -> None:
    try:
        jail.runtime("prolog")
    except SandboxUnavailableError as error:
        pytest.skip(str(error))


async def test_a_missing_runtime_names_the_package(sandbox: Sandbox) -> None:
    jail.runtime.cache_clear()
    try:
        with (
            mock.patch("importlib.util.find_spec", return_value=None),
            pytest.raises(SandboxUnavailableError) as lua,
        ):
            await sandbox.run("return 1", language="lua")
        assert 'pip install "jeeves-reflexion[lua]"' in str(lua.value)
        with mock.patch("shutil.which", return_value=None), pytest.raises(SandboxUnavailableError) as prolog:
            await sandbox.run("result(1).", language="prolog")
        assert "swi-prolog-nox" in str(prolog.value)
    finally:
        jail.runtime.cache_clear()


@both_loops
async def test_cancelling_ends_the_process_and_its_folder(sandbox: Sandbox, host: Host) -> None:
    before = _scratch_folders()
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.run, "import time\ntime.sleep(60)")
        await _until(lambda: len(host.processes()) >= 3)
        group.cancel_scope.cancel()
    assert host.processes() == []
    assert _scratch_folders() == before


@both_loops
async def test_an_interpreter_that_does_not_start_leaves_nothing() -> None:
    before = _scratch_folders()
    weaker = Sandbox(allow_weaker=True)
    command = ["/no/such/python"]
    with (
        mock.patch.object(room.sandbox, "probe", return_value=NOTHING),
        mock.patch.object(jail, "interpreter", return_value=command),
        pytest.raises(BaseExceptionGroup) as caught,
    ):
        await _four_runs(weaker)
    assert caught.group_contains(SandboxUnavailableError, match="/no/such/python")
    assert _scratch_folders() == before


async def _four_runs(sandbox: Sandbox) -> None:
    async with anyio.create_task_group() as group:  # the first error cancels the others
        for _ in range(4):
            group.start_soon(sandbox.run, "result = 1")


async def _until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not true():  # noqa: ASYNC110  other processes set no event of ours
            await anyio.sleep(0.02)


def _scratch_folders() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("jeeves-sandbox-*")}


@both_loops
async def test_the_loop_goes_on_meanwhile(sandbox: Sandbox) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.01)
            ticks += 1

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        with pytest.raises(CodeLimitError):
            await sandbox.run("while True: pass", limits=SandboxLimits(seconds=0.5))
        group.cancel_scope.cancel()
    assert ticks > 1


@both_loops
async def test_only_so_many_at_once(sandbox: Sandbox, host: Host) -> None:
    single = Sandbox(concurrency=np.int64(1))
    spans: list[tuple[float, float]] = []

    async def run() -> None:
        ran = await single.run(
            "import time\nbegun = time.monotonic()\ntime.sleep(0.1)\nreturn [begun, time.monotonic()]"
        )
        assert isinstance(ran.value, list)
        spans.append((ran.value[0], ran.value[1]))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(run)
    spans.sort()
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


async def test_a_run_leaves_nothing_to_the_next(sandbox: Sandbox) -> None:
    await sandbox.run("import builtins\nbuiltins.left = 1\nopen('left', 'w')")
    looking = "import builtins, os\nresult = [hasattr(builtins, 'left'), os.listdir('.')]"
    assert (await sandbox.run(looking)).value == [False, []]


async def test_the_host_going_takes_the_code_along(sandbox: Sandbox, host: Host) -> None:
    program = (
        "import anyio, sys\nfrom unittest import mock\nfrom jeeves_reflexion.sandbox import Sandbox, jail\n"
        f"command = [*jail.interpreter(), {host.marker!r}]\n"
        "with mock.patch.object(jail, 'interpreter', return_value=command):\n"
        "    anyio.run(Sandbox().run, 'import time\\ntime.sleep(60)')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env=environment) as other:  # noqa: ASYNC220  it is killed, not waited for
        await _until(lambda: len([pid for pid in host.processes() if pid != other.pid]) >= 3)
        other.kill()
    await _until(lambda: not host.processes())


async def test_without_isolation_code_is_refused() -> None:
    with (
        mock.patch.object(room.sandbox, "probe", return_value=NOTHING),
        pytest.raises(SandboxUnavailableError, match="allow_weaker") as caught,
    ):
        await Sandbox().run("result = 1")
    assert "network: NOT isolated" in str(caught.value)


async def test_weaker_still_has_limits_and_leaves_nothing(host: Host) -> None:
    with mock.patch.object(room.sandbox, "probe", return_value=NOTHING):
        weaker = Sandbox(allow_weaker=True)
        before = _scratch_folders()
        assert (await weaker.run("import os\nopen('a', 'w')\nresult = sorted(os.environ)")).value == [
            "HOME",
            "LANG",
            "TMPDIR",
        ]
        few = SandboxLimits(seconds=1, memory_mb=128, output_bytes=10_000)
        for code, limit in (
            ("while True: pass", "seconds"),
            ("x = bytearray(10**10)", "memory_mb"),
            ("while True: print('x' * 1000)", "output_bytes"),
        ):
            with pytest.raises(CodeLimitError) as caught:
                await weaker.run(code, limits=few)
            assert caught.value.limit == limit
        assert host.processes() == []
        assert _scratch_folders() == before


def test_the_probe_tells_people_and_programs_the_same() -> None:
    found = probe()
    assert found.complete == ("NOT isolated" not in found.text)
    assert (found.way == "limits") == (not found.complete)
    assert probe() is found


@table(
    "wrong",
    [{"seconds": -1}, {"memory_mb": 1}, {"file_bytes": -1}, {"seconds": float("inf")}, {"output_bytes": 0}],
)
def test_limits_that_can_not_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        SandboxLimits(**wrong)


def test_the_request_is_json_alone() -> None:
    assert json.loads(room.sandbox._request("x", {"a": [1]})) == {
        "code": "x",
        "inputs": {"a": [1]},
    }
