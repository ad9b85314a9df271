"""The JSON Schema that editors use is the one that files are checked by: what it must let through."""

from __future__ import annotations

import yaml
from tables import table

from jeeves_reflexion.workflows import SchemaCheck, Workflow
from jeeves_reflexion.workflows.plan import file_schema

LOOP = "nodes: [{name: a, uses: reflection.loop, with: {generator: %s, evaluator: %s}}]"
RUN, ANY = "{run: x}", "{type: schema, schema: {}}"


def test_the_complete_example_is_valid(example):
    assert SchemaCheck(file_schema())(yaml.safe_load(example)).valid


@table(
    "text",
    [
        LOOP % (RUN, ANY),
        LOOP % ("{action: mine, anything: 1}", "{type: custom, run: x, language: lua}"),
        LOOP % ("{action: llm.call, messages: '{{ state.m }}'}", "{type: llm, prompt: x}"),
        "nodes: [{name: a, run: x, goto: [{to: a, when: state.x}, __end__]}]\nsettings: {max_steps: 5}",
        "nodes: [{name: a, uses: mine, with: {anything: 1}, output: null}]\nsettings:",
        "nodes: [{name: a, uses: reflection.evaluate, with: {schema: '{{ state.schema }}', data: null}}]",
        "nodes: [{name: a, uses: reflection.correct, with: {corrector_action: mine, errors: [1]}}]",
    ],
)
def test_what_a_file_may_say(text):
    assert SchemaCheck(file_schema())(yaml.safe_load(text)).valid
    Workflow.from_text(text)
