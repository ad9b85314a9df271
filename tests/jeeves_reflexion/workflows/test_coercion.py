"""Coercion loses nothing: what it makes of a value can be turned back into just that value."""

from __future__ import annotations

import json
import math
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion.workflows import SchemaCheck
from jeeves_reflexion.workflows.schemas import coerce_scalar

NUMBERLIKE = st.text("0123456789+-.eE ", max_size=24) | st.text(max_size=8)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NUMBERLIKE
)


@given(NUMBERLIKE | st.integers().map(str))
def test_a_text_becomes_an_integer_only_where_it_is_its_one_usual_form(text):
    made = coerce_scalar(text, "integer")
    assert made == text if isinstance(made, str) else str(made) == text


@given(
    NUMBERLIKE
    | st.floats(allow_nan=False).map(repr)
    | st.decimals(allow_nan=False, allow_infinity=False).map(str)
)
def test_a_text_becomes_a_number_only_where_every_digit_is_kept(text):
    made = coerce_scalar(text, "number")
    if isinstance(made, str):
        assert made == text
    else:
        assert math.isfinite(made)
        assert Decimal(repr(made)) == Decimal(text)
        assert json.loads(text) == made


@given(st.text(max_size=6) | st.sampled_from(["TRUE", "No", "0", "1", "yes"]))
def test_a_text_becomes_a_boolean_only_by_one_of_six_words(text):
    made = coerce_scalar(text, "boolean")
    assert (made is True) == (text.lower() in {"true", "yes", "1"})
    assert (made is False) == (text.lower() in {"false", "no", "0"})
    assert isinstance(made, bool) or made == text


@given(st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_or_boolean_becomes_a_text_and_back(value):
    kind = "boolean" if isinstance(value, bool) else "integer" if isinstance(value, int) else "number"
    text = coerce_scalar(value, "string")
    assert isinstance(text, str)
    assert coerce_scalar(text, kind) == value


@given(SCALARS, st.sampled_from(["integer", "number", "boolean", "string", "null", "array", "object"]))
def test_a_value_of_the_type_is_left_alone(value, kind):
    made = coerce_scalar(value, kind)
    assert coerce_scalar(made, kind) == made
    if not isinstance(value, str) and kind != "string":
        assert made is value


def test_what_only_looks_like_an_integer_stays_a_text():
    for text in ["007", "+5", "3.0", "-0", " 4", "4 ", "1_000", "\u0664", "1e3", "", "0x1F", "9" * 5000]:
        assert coerce_scalar(text, "integer") == text


def test_coercion_follows_properties_items_and_references():
    schema = {
        "type": "object",
        "properties": {
            "age": {"$ref": "#/$defs/age"},
            "rows": {"type": "array", "items": {"type": "number"}},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}},
            "default": {"$ref": "#/$defs/age"},
        },
        "$defs": {"age": {"type": "integer"}},
    }
    given_ = {"age": "41", "rows": [7, "1.5"], "pair": ["7", 1.5], "other": "3", "default": "x"}
    verdict = SchemaCheck(schema)(given_)
    assert verdict.output == {**given_, "age": 41, "rows": [7, 1.5]}
    assert [error.path for error in verdict.errors] == ["default"]
    assert given_["age"] == "41"


def test_coercion_does_not_guess_among_alternatives():
    for schema in (
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "integer"}]},
        {"oneOf": [{"type": "integer"}]},
        {},
    ):
        assert SchemaCheck(schema)("5").output == "5"
