"""Schemas and outputs that nobody has to trust: no judgement without an end, and no error but the project's own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.workflows import (
    SchemaCheck,
    Workflow,
    reflection_evaluate,
    schemas,
    worker,
)
from jeeves_reflexion.workflows.documents import read_json, read_yaml
from jeeves_reflexion.workflows.errors import WorkflowFileError

LOOP = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "array", "items": {"$ref": "#"}}]}


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


ENDLESS = {
    "uniqueItems": ({"uniqueItems": True}, [{"n": n, "more": [n]} for n in range(5_000)]),
    "anyOf": (LOOP, nested(60)),
    "pattern": ({"pattern": "^(a+)+$"}, "a" * 60 + "b"),
    "names": ({"patternProperties": {"^(a+)+$": {"type": "integer"}}}, {"a" * 60 + "b": "1"}),
}


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(schemas, "MAX_SECONDS", 0.5)


@pytest.mark.anyio
@pytest.mark.parametrize("what", ENDLESS)
async def test_a_judgement_without_end_is_a_verdict_and_the_event_loop_goes_on(hurried, monkeypatch, what):
    schema, output = ENDLESS[what]
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        found = await reflection_evaluate({}, evaluator={"type": "schema", "schema": schema}, data=output)
        tasks.cancel_scope.cancel()
    assert found["valid"] is False
    (error,) = found["errors"]
    assert error["message"] == "judging by the schema took longer than 0.5 s and was stopped"
    assert turns > 1
    monkeypatch.setattr(schemas, "MAX_SECONDS", 60)  # the next one is judged as ever
    again = await reflection_evaluate({}, evaluator={"type": "schema", "schema": {"type": "array"}}, data=[1])
    assert again["valid"] is True


@pytest.mark.usefixtures("hurried")
def test_a_schema_that_takes_for_ever_to_check_is_no_workflow():
    old = "http://json-schema.org/draft-04/schema#"  # where the values of an enum must differ
    schema = {"$schema": old, "enum": [{"n": n} for n in range(8_000)]}
    node = {"name": "a", "uses": "reflection.evaluate", "with": {"data": 1, "schema": schema}}
    with pytest.raises(ConfigurationError, match="took longer than"):
        Workflow.from_text(json.dumps({"nodes": [node]}))


def test_the_verdict_is_that_of_the_check():
    for schema, output in [
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, '{"a": "5", "b": "\u00e4\\u2028"}'),
        ({"required": ["a"]}, {}),
        ({"type": "string"}, "caf\u00e9\n\u2028"),
        (True, None),
        ({"enum": [1, "x"]}, [1.5, 10**300, {"": []}]),
    ]:
        assert schemas.judged(schema, None, output) == SchemaCheck(schema)(output)


def test_a_bad_schema_is_the_same_error(tmp_path):
    with pytest.raises(ConfigurationError, match="not a valid JSON Schema at type"):
        schemas.judged({"type": 5}, None, 1)
    with pytest.raises(ConfigurationError, match="is not JSON"):
        schemas.judged({"const": {1, 2}}, None, 1)
    with pytest.raises(ConfigurationError, match="give base_folder"):
        schemas.judged({"$ref": "a.json"}, None, 1)
    (tmp_path / "a.json").write_text('{"type": "integer"}')
    assert schemas.judged({"$ref": "a.json"}, tmp_path, 1).valid
    (tmp_path / "a.json").write_text('{"type": "array"}')
    assert not schemas.judged({"$ref": "a.json"}, tmp_path, 1).valid


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_process_that_was_ended_is_replaced():
    assert schemas.judged(True, None, 1).valid
    (kept, *_) = worker._idle  # the one thing that a signal can be sent to
    kept.send_signal(signal.SIGKILL)
    kept.wait()
    assert schemas.judged(True, None, 1).valid


@pytest.mark.skipif(os.name != "posix", reason="processes as POSIX has them")
@pytest.mark.parametrize("busy", [False, True])
def test_the_process_ends_with_the_program_and_runs_none_of_its_code(tmp_path, busy):
    program = tmp_path / "program.py"
    endless = ("schemas.verdict", {"pattern": "^(a+)+$"}, None, "a" * 60 + "b")
    program.write_text(
        "import os, signal, threading, time\n"
        "print('started', flush=True)\n"  # a second time, if the process ran the program's own file
        "from jeeves_reflexion.workflows import schemas, worker\n"
        "assert schemas.judged(True, None, 1).valid\n"
        "print(worker._idle[0].pid, flush=True)\n"
        f"if {busy}:\n"
        f"    threading.Thread(target=worker.ask, args=(0.5, *{endless!r})).start()\n"
        "    while worker._idle: time.sleep(0.01)\n"  # it has the question, or soon
        "    time.sleep(0.1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    started, pid = done.stdout.split()
    assert (started, done.returncode) == ("started", -signal.SIGKILL)
    until = time.monotonic() + 30
    while _lives(int(pid)):
        assert time.monotonic() < until, "it lives on"
        time.sleep(0.02)


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- numbers and references


def test_a_number_that_is_none_of_json_is_an_error_of_its_line():
    for text in [
        "1" + ":59" * 400 + ".5",
        "1" + ":59" * 4_000,
        "9" * 20_000,
        "0x" + "f" * 20_000,
        "0" + "7" * 20_000,
        "0b" + "1" * 90_000,
        "1.0e+999",
        "!!int ''",
        "!!int '-'",
        "!!float _",
        "!!bool x",
    ]:
        with pytest.raises(WorkflowFileError, match="line 2"):
            read_yaml(f"a: 1\nb: {text}\n")


@given(st.text("0123456789abcdefx:._-+e~!<=", min_size=1, max_size=30))
def test_no_scalar_raises_anything_else(text):
    try:
        value = read_yaml(f"a: {text}").value
    except WorkflowFileError:
        return
    json.dumps(value, allow_nan=False)


def test_json_holds_no_such_number_or_text_either():
    for text in ("9" * 20_000, "9" * 4_000, "1e999", "NaN", '"\\ud800"'):
        with pytest.raises(WorkflowFileError, match="it is not JSON"):
            read_json(f'{{"a": {text}}}', "file")


@table("keyword", ["multipleOf", "divisibleBy", "minimum", "maximum", "const", "enum", "type"])
def test_a_large_number_is_judged_or_refused_in_words(keyword):
    draft = {"$schema": "http://json-schema.org/draft-03/schema#"} if keyword == "divisibleBy" else {}
    numbers = [10**400, -(10**1_000), 10**5_000, "9" * 999, 1e308, 5e-324]
    for wanted, output in itertools.product([0.5, 1e-320, 7, 10**400], numbers):
        value = {"enum": [wanted], "type": "number"}.get(keyword, wanted)
        verdict = SchemaCheck({"type": "number", **draft, keyword: value})(output)
        assert verdict.valid or all(error.message for error in verdict.errors)


REFERENCES = [
    "x" * 5_000 + ".json",
    "x" * 300 + "/a.json",
    "a/" * 3_000 + "a.json",
    "\ud800.json",
    "a%00.json",
]


def test_a_reference_that_can_be_no_file_is_an_error_of_the_schema(tmp_path):
    for reference in REFERENCES:
        with pytest.raises(ConfigurationError):
            SchemaCheck({"$ref": reference}, tmp_path)


@table("keyword", ["examples", "default", "const", "enum", "example"])
def test_data_that_looks_like_a_reference_is_data_until_a_schema_leads_there(tmp_path, keyword):
    place = f"#/{keyword}" + ("/0" if keyword in ("examples", "enum") else "")
    for data in ({"$ref": "#/nothing"}, {"$ref": "none.json"}, {"$ref": 5}, 5, "x", None, [1]):
        schema = {keyword: [data] if place.endswith("0") else data}
        SchemaCheck(schema, tmp_path)({"a": 1})
        with pytest.raises(ConfigurationError):
            SchemaCheck({**schema, "properties": {"a": {"$ref": place}}}, tmp_path)({"a": 1})


def test_a_reference_leads_to_a_schema_or_nowhere():
    for place in ["#/title", "#/required", "#/properties", "#/minLength"]:
        schema = {"title": "x", "required": ["a"], "minLength": 3, "properties": {"type": {"$ref": place}}}
        with pytest.raises(ConfigurationError, match="leads"):
            SchemaCheck(schema)


def test_an_example_may_be_a_schema_that_another_refers_to():
    schema = {"examples": [{"type": "integer"}], "properties": {"a": {"$ref": "#/examples/0"}}}
    assert [error.path for error in SchemaCheck(schema)({"a": "x"}).errors] == ["a"]
