"""Scores are read where they are stated, and nowhere else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import parse_score

READ = {
    "score: **1**/5": 0.2,
    "score: 0.4\nOf 5 facts, 2 are right.": 0.4,
    "score: <0.5>": 0.5,
    "score: [0.5]": 0.5,
    "## Score\n\n0.5\n\n## Rationale\n\nfine": 0.5,
    "\\boxed{0.4}": 0.4,
    "score: 0.7": 0.7,
    "Score: 8/10": 0.8,
    "8/10": 0.8,
    "85%": 0.85,
    "**Score:** 0.9": 0.9,
    "# Score: 3/4\n": 0.75,
    "`score: 0.25`": 0.25,
    "score: 85 %": 0.85,
    "score = .5": 0.5,
    "score: 1e-1": 0.1,
    "score: 0": 0.0,
    "score: 1": 1.0,
    "score: 100%": 1.0,
    "score: 8 out of 10": 0.8,
    "score: 0.7.": 0.7,
    "score: 0.7, because 3 things are missing": 0.7,
    "score: 0.7\n- 2 issues": 0.7,
    "score: 0.7-good": 0.7,
    "score: 0.9 (out of 1)": 0.9,
    "score: 9 (out of 10)": 0.9,
    "score: 0,85": 0.85,
    "0,5": 0.5,
    "The score is 0.4": 0.4,
    "score: 0.7\nA score of 1.0 would need more.": 0.7,
    "score: 0.7\nAll 5/5 tests ran, but 30% of them failed.": 0.7,
    "I would rate this 8/10.": 0.8,
    "I give it 8/10 because it is short": 0.8,
    "8/10 - good": 0.8,
    "Overall: 85%.": 0.85,
    "0.7": 0.7,
    " .5 ": 0.5,
    '{"score": 0.7}': 0.7,
    '{"Score": 0.7}': 0.7,
    '{"score": "8/10"}': 0.8,
    '{"score": 1, "rationale": "score: 0.2"}': 1.0,
    'So: ```json\n{"score": 0.7, "rationale": "y"}\n``` Done.': 0.7,
    'The set {a, b} is wrong. {"score": 0.3}': 0.3,
}

NOT_READ = [
    "score: 0\uff0e4",
    "score: \u0660\u066b\u0664",
    "score: 1 point out of 5",
    "score: 1 out of the 5",
    "score: <0.5",
    "score: [1] says so",
    "",
    "good",
    "yes",
    "true",
    "10",
    "½",
    "score: high",
    "score: ½",
    "score: 8",
    "score: -0.5",
    "score: nan",
    "score: inf",
    "score: 0x1F",
    "score: 1st",
    "score: 0 to 1",
    "score: 0-1",
    "score: 0 - 1\n",
    "score: 1 or 0",
    "score: 0 1",
    "score: 0/",
    "score: 1/0",
    "score: 10/1",
    "score: 1.0.0",
    "score: 7/10/20",
    "score: 1/2/2024",
    "score:1:0",
    "score: <0 to 1>",
    "score: 0.3 and score: 0.9",
    "score: 0.3\nscore: 0.9",
    "score: 1\nscore: 7",
    '{"score": 1} {"score": 7}',
    "1/0",
    "24/7",
    "12:00",
    "v1.0",
    "1.2.3",
    "2024-01-01",
    "0% chance",
    "100% wrong",
    "Coverage is 100%.",
    "The result is 100% wrong",
    "5/5 tests passed",
    "All 5/5 tests ran but the answer is wrong",
    "It covers 100% of the points but is wrong.",
    "I would not give it 1.0; score: 0.2",
    "I can't give 1.0, so 0.3",
    "I would never say 10/10 here",
    "I would give it 1.0; score: 0.2",
    '{"score": true}',
    '{"score": null}',
    '{"score": NaN}',
    '{"score": 1e999}',
    '{"score": %s}' % ("9" * 400),
    '{"score": "high"}',
    '{"score": 85}',
    '{"score": [1]}',
    '{"overall": 1}',
    "[1]",
]


@table(("text", "score"), READ.items())
def test_a_stated_score_is_read(text, score):
    assert parse_score(text).score == pytest.approx(score)
    assert parse_score(text).problem == ""


@table("text", NOT_READ)
def test_anything_else_is_none_with_a_problem_to_show(text):
    parsed = parse_score(text)
    assert parsed.score is None
    assert parsed.problem


units = st.floats(0, 1).map(lambda value: round(value, 6))


@given(units, st.sampled_from(["score: {}", "Score = {}", "**score**: {}\nfor a reason", "The score is {}."]))
def test_every_score_is_read_as_it_stands(value, form):
    assert parse_score(form.format(f"{value:f}")).score == pytest.approx(value)


@given(units, st.text(max_size=60))
def test_every_json_score_is_read_whatever_else_is_said(value, rationale):
    text = json.dumps({"rationale": rationale, "score": value})
    assert parse_score(text).score == value
    assert parse_score(f"Here you are:\n```json\n{text}\n```").score == value


@given(st.integers(0, 50), st.integers(1, 50))
def test_a_fraction_is_read_on_its_scale(value, scale):
    score = parse_score(f"{value}/{scale}").score
    assert score == (pytest.approx(value / scale) if value <= scale else None)


@given(st.integers(0, 300))
def test_a_percentage_is_read_up_to_a_hundred(value):
    assert parse_score(f"score: {value}%").score == (pytest.approx(value / 100) if value <= 100 else None)


@given(st.text(alphabet=st.characters(exclude_categories=["Nd"])))
def test_a_text_without_digits_has_no_score(text):
    assert parse_score(text).score is None


@given(st.text())
def test_no_text_breaks_it_and_every_score_lies_in_its_range(text):
    score = parse_score(text).score
    assert score is None or 0.0 <= score <= 1.0
