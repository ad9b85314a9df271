"""Placeholders in a task's description, and braces that are meant as they stand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noting import noted
from tables import table

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.tasknotes import Task, prompt_with
from jeeves_reflexion.types import Task as CoreTask

INPUTS = {"topic": "AI", "n": 3}


@table(
    ("text", "prompt"),
    [
        ("Return {{name}} for {topic}", "Return {name} for AI"),
        ("{{topic}} is {topic}", "{topic} is AI"),
        ('Return {"name": {n}} for {topic}', 'Return {"name": 3} for AI'),
        ('Return {"a": {"b": 1}} and {} and { x }', 'Return {"a": {"b": 1}} and {} and { x }'),
        ("{{{topic}}}", "{{topic}}"),
        ("{{größe}} {topic}", "{größe} AI"),
    ],
)
def test_double_braces_are_braces(text, prompt):
    task = Task(text, expected_output=text)
    assert (task.bound(INPUTS).prompt, task.bound(INPUTS).expected_output) == (prompt, prompt)
    assert (task.bound().prompt, task.bound().expected_output) == (text, text)


@table("field", ["description", "expected_output"])
def test_the_error_says_how_to_write_braces(field):
    fields = {"description": "Write.", field: "Return {name} and {other} for {topic}"}
    with pytest.raises(ConfigurationError, match="name, other") as caught:
        Task(**fields).bound({"topic": "AI"})
    assert "{{name}} and {{other}}" in str(caught.value)
    assert "inputs={...}" in str(caught.value)


def test_what_the_error_says_works():
    with pytest.raises(ConfigurationError):
        Task("Return {name} for {topic}", inputs={"topic": "AI"}).bound()
    assert (
        Task("Return {{name}} for {topic}", inputs={"topic": "AI"}).bound().prompt == "Return {name} for AI"
    )


@settings(deadline=None)
@given(st.text(max_size=20))
def test_an_input_is_never_filled_itself(value):
    assert Task("{a} {b}").bound({"a": value, "b": "{a}"}).prompt == f"{value} {{a}}"


def test_notes_are_filled_alike():
    notes = noted("Return {{name}} for {topic}, {n} times, with {unknown}.")
    prompt = prompt_with(CoreTask("Return {name} for AI"), notes, inputs=INPUTS)
    assert "Return {name} for AI, 3 times, with {unknown}." in prompt
    assert "Return {{name}} for {topic}" in prompt_with(CoreTask("Write."), notes)
