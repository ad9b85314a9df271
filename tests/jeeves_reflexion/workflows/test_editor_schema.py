"""The JSON Schema for editors says of a file what reading it says."""

from __future__ import annotations

import json
from importlib import resources

import pydantic
import pytest
import yaml

from jeeves_reflexion.workflows import SchemaCheck, Workflow, WorkflowFileError
from jeeves_reflexion.workflows.documents import read_json
from jeeves_reflexion.workflows.reader import file_schema

SCHEMA = read_json(
    resources.files("jeeves_reflexion.workflows").joinpath("workflow.schema.json").read_text("utf-8"),
    "schema",
).value
LOOP = "nodes: [{name: a, uses: reflection.loop, with: {generator: %s, evaluator: %s}}]"
RUN, ANY = "{run: x}", "{type: schema, schema: {}}"


@pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 14), reason="older ones write it in other words"
)
def test_the_file_is_the_schema_of_what_is_read():
    # After a change, write json.dumps(file_schema(), indent=1) to workflow.schema.json.
    assert json.loads(json.dumps(file_schema())) == SCHEMA


def test_the_complete_example_is_valid(example):
    assert SchemaCheck(SCHEMA)(yaml.safe_load(example)).valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (LOOP % (RUN, ANY), True),
        (LOOP % ("{action: mine, anything: 1}", "{type: custom, run: x, language: lua}"), True),
        (LOOP % ("{action: llm.call, messages: '{{ state.m }}'}", "{type: llm, prompt: x}"), True),
        (LOOP % ("{}", ANY), False),
        (LOOP % (RUN, "{type: oracle}"), False),
        (LOOP % (RUN, "{type: schema}"), False),
        (
            "nodes: [{name: a, run: x, goto: [{to: a, when: state.x}, __end__]}]\nsettings: {max_steps: 5}",
            True,
        ),
        ("nodes: [{name: a, run: x}]\nedges: [{from: a, to: __end__}]", True),
        ("nodes: [{name: a, run: x, uses: y}]", False),
        ("nodes: [{name: a}]", False),
        ("nodes: []", False),
        ("nodes: [{name: a, run: x}]\nsettings: {max_steps: 0}", False),
        ("nodes: [{name: a, uses: reflection.correct, with: {}}]", False),
    ],
)
def test_both_agree(text, valid):
    assert SchemaCheck(SCHEMA)(yaml.safe_load(text)).valid is valid
    if valid:
        Workflow.from_text(text)
    else:
        with pytest.raises(WorkflowFileError):
            Workflow.from_text(text)
