"""The JSON Schema for editors says of a file what reading it says."""

from __future__ import annotations

import pytest
import yaml
from jsonschema import Draft202012Validator

from jeeves_reflexion.workflows import SchemaCheck, Workflow, WorkflowFileError
from jeeves_reflexion.workflows.parts import file_schema

SCHEMA = file_schema()
LOOP = "nodes: [{name: a, uses: reflection.loop, with: {generator: %s, evaluator: %s}}]"
RUN, ANY = "{run: x}", "{type: schema, schema: {}}"


def test_it_is_a_schema():
    Draft202012Validator.check_schema(SCHEMA)


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
        ("nodes: [{name: a, uses: llm.call, with: {prompt: x, temprature: 1}}]", False),
        ("nodes: [{name: a, uses: mine, with: {anything: 1}}]\nedges:\nsettings:", True),
    ],
)
def test_both_agree(text, valid):
    assert SchemaCheck(SCHEMA)(yaml.safe_load(text)).valid is valid
    if valid:
        Workflow.from_text(text)
    else:
        with pytest.raises(WorkflowFileError):
            Workflow.from_text(text)
