"""Reading what judges say: JSON, prose, and what is neither."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.evaluators.replies import UNSTATED_CONFIDENCE, read_replies, read_reply, share

PROSE = """\
Score: 8/10
**Confidence:** 90%
Rationale: Mostly right.
Issues:
- the second paragraph repeats the first
  word by word
- score: 0.2 in the table is wrong
Suggestions: none
"""


def test_e01_json_becomes_a_verdict():
    reply = {"score": 0.75, "confidence": 0.6, "rationale": "ok", "issues": ["a"], "suggestions": ["b"]}
    verdict = read_reply(json.dumps(reply))
    assert (verdict.score, verdict.confidence, verdict.rationale) == (0.75, 0.6, "ok")
    assert (verdict.issues, verdict.suggestions) == (("a",), ("b",))


def test_c06_prose_becomes_the_same():
    verdict = read_reply(PROSE)
    assert (verdict.score, verdict.confidence, verdict.rationale) == (0.8, 0.9, "Mostly right.")
    assert verdict.issues == (
        "the second paragraph repeats the first word by word",
        "score: 0.2 in the table is wrong",
    )
    assert verdict.suggestions == ()


def test_what_a_judge_quotes_stays_in_its_issues_and_its_rationale():
    verdict = read_reply(
        'Score: 0.4\nRationale: It says "total: 5".\nIssues:\n- the line "total: 5" is wrong'
    )
    assert (verdict.rationale, verdict.issues) == ('It says "total: 5".', ('the line "total: 5" is wrong',))
    verdict = read_reply("Score: 0.4\nWrong.\n```\nIssues:\n- none of it is mine\nConfidence: 1.0\n```")
    assert (verdict.issues, verdict.confidence) == ((), UNSTATED_CONFIDENCE)


def test_prose_without_headings_is_its_own_rationale():
    verdict = read_reply("I'd say the score is 0.4.\nIt never answers.")
    assert (verdict.score, verdict.confidence) == (0.4, UNSTATED_CONFIDENCE)
    assert verdict.rationale == "I'd say the score is 0.4.\nIt never answers."


@table(
    ("reply", "score"),
    [
        ('{"score": 7}', 1.0),
        ('{"score": -1}', 0.0),
        ("score: 7", 1.0),
        ("score: -1", 0.0),
        ("7", 1.0),
        ('{"score": "12/10"}', 1.0),
        ('{"score": 1}', 1.0),
        ('```json\n{"score": 0.7}\n```', 0.7),
        ('Here you are: {"score": 0.7} Good luck!', 0.7),
        ('{"score": "70%"}', 0.7),
        ('{"clarity": {"score": 0.3}}', 0.3),
        ('{"rationale": "cut off", "score": 0.4, "issues": ["the fi', None),
        ('It prints {"a": 1}, which is right.\nscore: 0.6', 0.6),
        ("Excellent work, fully satisfied!", None),
        ('{"satisfied": true}', None),
        ('{"satisfied": true, "issues": ["score: 0.9 would be kind"]}', None),
        ('{"score": true}', None),
        ('{"score": null}', None),
        ('{"score": NaN}', None),
        ('{"score": Infinity}', None),
        ('{"score": "high"}', None),
        ("score: 0.4\nscore: 0.9", None),
        ("", None),
    ],
)
def test_e11_scores_are_clamped_and_what_is_none_stays_none(reply, score):
    verdict = read_reply(reply)
    assert verdict.score == score
    assert verdict.passed is None
    if score is None:
        assert verdict.rationale
        assert verdict.confidence == 0.0


def test_e12_a_judge_beyond_the_scale_is_less_sure_than_it_says():
    verdict = read_reply('{"score": 7, "confidence": 1.0, "rationale": "great"}')
    assert verdict.confidence == 0.5
    assert verdict.rationale == "great (the score 7 lies outside 0 to 1: taken as 1)"
    both = read_reply("score: 1\nscore: 7\nrationale: great")
    assert (both.score, both.rationale) == (1.0, "great (the reply holds more than one score: taken as 1)")


@table(
    ("said", "value"),
    [
        (0.3, 0.3),
        (1, 1.0),
        (10**400, 1.0),
        (-3, 0.0),
        ("0.3", 0.3),
        ("80%", 0.8),
        ("0,9", 0.9),
        ("90 % sure", 0.9),
        ("between 0 and 1", None),
        ("8/10", 0.8),
        ("about 0.5, I think", 0.5),
        ("Low", 0.25),
        ("high.", 0.9),
        ("who knows", None),
        ("", None),
        (None, None),
        (True, None),
        (float("nan"), None),
        ([0.5], None),
    ],
)
def test_e12_a_confidence_is_read_as_judges_write_it(said, value):
    assert share(said) == value


def test_issues_may_be_objects_and_single_texts():
    verdict = read_reply('{"score": 0.1, "issues": [{"text": "a"}, "b", 7, ""], "suggestions": "c"}')
    assert (verdict.issues, verdict.suggestions) == (("a", "b"), ("c",))


EACH = [
    '{"criteria": {"clarity": {"score": 0.9, "issues": ["x"]}, "edge_cases": {"score": 0.4}}}',
    '{"criteria": [{"name": "clarity", "score": 0.9, "issues": ["x"]}, {"name": "edge cases", "score": 0.4}]}',
    '{"clarity": {"score": 0.9, "issues": "x"}, "Edge Cases": 0.4}',
    '```json\n{"scores": {"clarity": {"score": 0.9, "issues": ["x"]}, "edge_cases": "0.4"}}\n```',
    "## clarity\nscore: 0.9\nissues:\n- x\n\n**Edge cases:**\nscore: 0.4\n",
]


@table("reply", EACH)
def test_several_criteria_are_read_by_name(reply):
    verdicts = read_replies(reply, ["clarity", "edge_cases"])
    assert [(name, one.score, one.issues) for name, one in verdicts.items()] == [
        ("clarity", 0.9, ("x",)),
        ("edge_cases", 0.4, ()),
    ]


@table("reply", ["", "all fine", '{"score": 0.9}', "[1]", '{"criteria": 0.9}', "## tone\nscore: 1"])
def test_a_criterion_that_the_reply_leaves_out_is_not_scored(reply):
    assert read_replies(reply, ["clarity"])["clarity"].score is None


@given(st.text() | st.text(alphabet='{}[]":,.0123456789-scorefidnu\n '))
def test_no_text_breaks_the_reader(text):
    verdict = read_reply(text)
    assert verdict.score is None or 0.0 <= verdict.score <= 1.0
    assert set(read_replies(text, ["a", "b"])) == {"a", "b"}


@pytest.mark.timeout(20)
@table("text", ["{" * 50_000, '{"a":' * 10_000, "```json {" * 5_000, "- x\n" * 10_000])
def test_no_text_takes_long_to_read(text):
    assert read_reply(text).score is None


def test_an_issue_that_begins_like_a_heading_stays_an_issue():
    issues = "Issues:\n1. too long\n2. Confidence: too sure\n3. Score: the table's 5 is wrong"
    read = read_reply(f"score: 0.4\n{issues}", in_json=False)
    assert read.issues == ("too long", "Confidence: too sure", "Score: the table's 5 is wrong")
    read = read_reply("score: 0.4\nIssues:\n- too long\n- Suggestions: cut it", in_json=False)
    assert (read.issues, read.suggestions) == (("too long",), ("cut it",))


@table(
    "name",
    [
        "3.1 accuracy",
        "a > b",
        "(clarity)",
        "each claim names the source that it is taken from, with the page of that source",
    ],
)
def test_a_criterion_may_have_any_name(name):
    verdict = read_replies(f"{name}: 0.9\nissues:\n- late", [name])[name]
    assert (verdict.score, verdict.issues) == (0.9, ("late",))
