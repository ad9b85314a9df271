"""Verdicts: read out of code's results and judges' replies; what can't be read approves nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion.workflows.verdicts import of_code, of_reply, read_problems

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["valid", "score", "errors", "x"]), inner)
    ),
)


def test_a_reply_that_can_be_read():
    for reply, valid, score in [
        ('{"valid": true, "score": 0.9}', True, 0.9),
        ('```json\n{"valid": true, "score": 0.9}\n```', True, 0.9),
        ('Sure! {"note": 1} and then {"valid": true}', True, 1.0),
        ('{"valid": "false", "score": 1.0}', False, 1.0),
        ('{"valid": "False"}', False, 0.0),
        ('{"valid": "yes", "score": "85%"}', True, 0.85),
        ('{"valid": true, "score": 7}', True, 1.0),
        ('{"valid": false, "score": -3}', False, 0.0),
        ('{"valid": true, "score": "very good"}', True, 1.0),
        ('{"valid": true, "score": NaN}', True, 1.0),
        ("{'valid': True, 'score': 0.9,}", True, 0.9),
    ]:
        verdict = of_reply(reply, "out")
        assert (verdict.valid, verdict.score, verdict.output, verdict.made) == (valid, score, "out", True)
        assert bool(verdict.errors) is not valid


def test_a_reply_that_can_not_be_read_is_no_verdict():
    for reply in [
        "",
        "valid",
        "valid: true",
        '{"valid": true',
        '{"score": 1.0}',
        '{"valid": true}\n{"valid": false}',
        '{"valid": 1}',
        '{"valid": null}',
        "[true]",
    ]:
        assert of_reply(reply, 1) is None


def test_reason_and_suggestions_come_with_a_refusal():
    verdict = of_reply('{"valid": false, "score": 0.3, "reason": "thin", "suggestions": ["add detail"]}', 1)
    assert verdict.error_list() == [{"path": "", "message": "thin", "suggestion": ""}]
    assert verdict.suggestions == ["add detail"]


@given(ANYTHING)
def test_only_true_or_a_score_of_half_approves(value):
    verdict = of_code(value, "out")
    word = value.get("valid") if isinstance(value, dict) else value
    if verdict.valid:
        said = isinstance(word, str) and word.strip().lower() in {"true", "yes", "valid", "pass", "passed"}
        high = not isinstance(value, dict | str) and not isinstance(word, bool) and word >= 0.5
        assert word is True or (isinstance(value, dict) and said) or high
    else:
        assert verdict.errors
    assert 0.0 <= verdict.score <= 1.0


def test_errors_always_have_their_three_fields():
    assert read_problems(["text", {"message": "m", "path": ["a", 1]}, {"other": 1}, 5]) == [
        {"path": "", "message": "text", "suggestion": ""},
        {"path": "a.1", "message": "m", "suggestion": ""},
        {"path": "", "message": '{"other": 1}', "suggestion": ""},
        {"path": "", "message": "5", "suggestion": ""},
    ]
