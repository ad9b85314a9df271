"""Any callable as a reviser."""

from __future__ import annotations

import functools

import pytest
from tables import table

from jeeves_reflexion import ConfigurationError, Evaluation, Task
from jeeves_reflexion.drafts import Draft, Revision, RevisionRequest
from jeeves_reflexion.protocols import Reviser
from jeeves_reflexion.revisers import as_reviser

pytestmark = pytest.mark.anyio

TASK = Task("write")
FEEDBACK = Evaluation(0.5, issues=("too short",))
REQUEST = RevisionRequest(Draft(1, "old", FEEDBACK), FEEDBACK)


class Whole:
    async def __call__(self, task, request):
        return f"{task.prompt} {request.draft.output}"


async def async_whole(task, request):
    return f"{task.prompt} {request.draft.output}"


def second_named(what, request):
    return f"{what.prompt} {request.draft.output}"


def annotated(one: Task, two: RevisionRequest):
    return f"{one.prompt} {two.draft.output}"


def anything(*given):
    return f"{given[0].prompt} {given[1].draft.output}"


def of_output_and_verdict(output, evaluation):
    return f"{output} {evaluation.issues[0]}"


def verdict_optional(output, feedback=None):
    return f"{output} {feedback.issues[0]}"


async def verdict_annotated(text, verdict: Evaluation | None = None, more: str = ""):
    return f"{text} {verdict}"


def two_texts(output, verdict: Evaluation):
    return f"{output} {verdict.issues[0]}"


def unnamed(one, two):
    return f"{one} {two.issues[0]}"


def of_output(output):
    return f"{output}!"


def of_output_and_style(output, style="plain"):
    return f"{output} {style}"


@table(
    ("function", "output"),
    [
        (Whole(), "write old"),
        (async_whole, "write old"),
        (second_named, "write old"),
        (annotated, "write old"),
        (anything, "write old"),
        (of_output_and_verdict, "old too short"),
        (verdict_optional, "old too short"),
        (two_texts, "old too short"),
        (unnamed, "old too short"),
        (of_output, "old!"),
        (of_output_and_style, "old plain"),
        (functools.partial(of_output_and_style, style="bold"), "old bold"),
        (lambda text: Whole()(TASK, REQUEST), "write old"),
        (str.upper, "OLD"),
    ],
)
async def test_it_is_called_as_it_asks_to_be(function, output):
    reviser = as_reviser(function)
    assert isinstance(reviser, Reviser)
    assert (await reviser(TASK, REQUEST)).output == output


async def test_r05_a_text_addresses_the_issues_that_the_function_was_given():
    assert (await as_reviser(of_output_and_verdict)(TASK, REQUEST)).addressed == ("too short",)
    revision = await as_reviser(of_output)(TASK, REQUEST)
    assert (revision.strategy, revision.why, revision.addressed) == ("full_rewrite", "by of_output", ())


async def test_a_revision_is_handed_on_as_it_is():
    revision = Revision("new", "targeted_edit", "mine", ("x",))
    assert await as_reviser(lambda task, request: revision)(TASK, REQUEST) is revision


@table("value", [None, 3, b"text"])
async def test_another_value_is_an_error_that_says_so(value):
    with pytest.raises(ConfigurationError, match="must return the new text or a Revision"):
        await as_reviser(lambda output: value)(TASK, REQUEST)


@table(
    ("function", "message"),
    [
        (Whole, "is a class"),
        (lambda: "x", "must take"),
        (lambda a, b, c: "x", "must take"),
        (min, "can't be read"),
    ],
)
def test_what_can_not_be_called_so_is_refused(function, message):
    with pytest.raises(ConfigurationError, match=message):
        as_reviser(function)


async def test_what_a_function_raises_is_raised():
    def broken(output):
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        await as_reviser(broken)(TASK, REQUEST)
