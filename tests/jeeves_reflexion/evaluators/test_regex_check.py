"""Patterns as checks, and patterns that never come to an end."""

from __future__ import annotations

import re

import anyio
import pytest
from tables import table

from jeeves_reflexion import Attempt, ConfigurationError, Task
from jeeves_reflexion.evaluators import RegexCheck

pytestmark = pytest.mark.anyio

TASK = Task("x")
TEXT = "one\nTwo two\n"


@table(
    ("pattern", "options", "passed"),
    [
        ("two", {}, True),
        ("three", {}, False),
        ("^Two", {}, False),
        ("(?m)^Two", {}, True),
        ("(?is)ONE.TWO+", {}, True),
        (r"t.*o", {"must_match": False}, False),
        ("three", {"must_match": False}, True),
        (r"\bTwo\b", {}, True),
        (r"(?i)TWO", {}, True),
    ],
)
async def test_e06_a_pattern_is_looked_for(pattern, options, passed):
    evaluation = await RegexCheck(pattern, **options)(TASK, Attempt(TEXT))
    assert (evaluation.passed, evaluation.score) == (passed, float(passed))
    assert bool(evaluation.issues) is not passed


@table(
    ("pattern", "options", "said"),
    [
        ("three", {}, "the pattern 'three' does not occur"),
        ("o", {"must_match": False}, "the pattern 'o' may not occur"),
        ("three", {"message": "say three"}, "say three"),
    ],
)
async def test_an_issue_says_what_is_wrong(pattern, options, said):
    assert (await RegexCheck(pattern, **options)(TASK, Attempt(TEXT))).issues == (said,)


async def test_a_pattern_that_never_ends_is_given_up_while_others_go_on():
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await anyio.sleep(0.01)
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        evaluation = await RegexCheck("(a+)+$", timeout=0.5)(TASK, Attempt("a" * 40 + "b"))
        tasks.cancel_scope.cancel()
    assert ticks > 1
    assert (evaluation.score, evaluation.passed, evaluation.confidence) == (None, None, 0.0)
    assert evaluation.issues == ("the pattern '(a+)+$' took longer than 0.5 s",)


async def test_any_text_reaches_the_other_process_as_it_is():
    text = "caf\u00e9 \U0001f600 \ud800 \x00 end"
    assert (await RegexCheck("\u00e9 \U0001f600 [\ud800] \x00 +end")(TASK, Attempt(text))).passed is True


@table(
    ("pattern", "options", "problem"),
    [
        ("(", {}, "is no regular expression"),
        ("[", {}, "is no regular expression"),
        (b"x", {}, "must be a text"),
        ("x" + "(" * 5000 + ")" * 5000, {}, "is no regular expression"),
        (re.compile("x", re.IGNORECASE), {}, "must be a text"),
        ("x", {"timeout": 0}, "timeout"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(pattern, options, problem):
    with pytest.raises(ConfigurationError, match=problem):
        RegexCheck(pattern, **options)
