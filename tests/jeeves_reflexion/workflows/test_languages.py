"""Custom evaluators and nodes in Python, Lua and Prolog, in the real sandbox."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import AsyncIterator

import pytest

from jeeves_reflexion.sandbox import Sandbox
from jeeves_reflexion.workflows import Tools, Workflow, reflection_evaluate

pytestmark = pytest.mark.anyio

LUA = pytest.param(
    "lua",
    "result = {valid = output.n < state.most, score = 0.5, errors = {{message = 'n is ' .. output.n}}}",
    marks=pytest.mark.skipif(importlib.util.find_spec("lupa") is None, reason="lupa is not installed"),
)
PROLOG = pytest.param(
    "prolog",
    """
evaluate(Output, State, Result) :-
    N = Output.n, Most = State.most,
    ( N < Most -> Valid = true ; Valid = false ),
    format(string(Message), "n is ~w", [N]),
    Result = _{valid: Valid, score: 0.5, errors: [_{message: Message}]}.
""",
    marks=pytest.mark.skipif(shutil.which("swipl") is None, reason="swipl is not installed"),
)
PYTHON = pytest.param(
    "python",
    "def judge(n):\n    return n < state['most']\n"
    "result = {'valid': judge(output['n']), 'score': 0.5, 'errors': [{'message': f\"n is {output['n']}\"}]}",
)


@pytest.fixture
async def tools() -> AsyncIterator[Tools]:
    # The code of these tests is ours; a machine without isolation may run it too.
    async with Sandbox(allow_weaker=True) as sandbox:
        yield Tools(sandbox=sandbox)


@pytest.mark.parametrize(("language", "code"), [PYTHON, LUA, PROLOG])
async def test_each_language_sees_output_and_state_and_gives_a_verdict(language, code, tools):
    evaluation = {"type": "custom", "run": code, "language": language}
    low = await reflection_evaluate({"most": 5}, evaluator=evaluation, data={"n": 3}, tools=tools)
    high = await reflection_evaluate({"most": 5}, evaluator=evaluation, data={"n": 7}, tools=tools)
    assert (low["valid"], low["score"]) == (True, 0.5)
    assert (high["valid"], high["score"]) == (False, 0.5)
    assert high["errors"] == [{"path": "", "message": "n is 7", "suggestion": ""}]


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import os; os._exit(0)"),
        pytest.param("lua", "os.execute('true')", marks=LUA.marks),
        pytest.param("prolog", "evaluate(_, _, R) :- shell('true', R).", marks=PROLOG.marks),
    ],
)
async def test_what_the_sandbox_refuses_is_no_approval(language, code, tools):
    verdict = await reflection_evaluate(
        {}, evaluator={"type": "custom", "run": code, "language": language}, data=1, tools=tools
    )
    assert (verdict["valid"], verdict["success"]) == (False, False)
    assert "the evaluator failed" in verdict["errors"][0]["message"]


@pytest.mark.skipif(importlib.util.find_spec("lupa") is None, reason="lupa is not installed")
async def test_a_node_in_lua(tools):
    text = "nodes: [{name: a, language: lua, run: 'return {twice = state.n * 2}'}]"
    assert await Workflow.from_text(text).run({"n": 4}, sandbox=tools.sandbox) == {"n": 4, "twice": 8}


async def test_the_contracts_custom_evaluator_runs_as_printed(tools):
    code = """
import json
try:
    data = json.loads(output) if isinstance(output, str) else output
    has_name = bool(data.get("name"))
    has_email = "@" in data.get("email", "")
    score = (has_name + has_email) / 2
    result = {
        "valid": score >= 1.0,
        "score": score,
        "errors": [] if score >= 1.0 else [{"message": "Missing required fields"}],
        "suggestions": ["Add name field"] if not has_name else []
    }
except:
    result = {"valid": False, "score": 0.0, "errors": [{"message": "Invalid JSON"}]}
"""
    for data, valid, score in (
        ('{"name": "A", "email": "a@b"}', True, 1.0),
        ({"email": "@"}, False, 0.5),
        ("{", False, 0.0),
    ):
        verdict = await reflection_evaluate(
            {}, evaluator={"type": "custom", "run": code}, data=data, tools=tools
        )
        assert (verdict["valid"], verdict["score"], verdict["success"]) == (valid, score, True)
