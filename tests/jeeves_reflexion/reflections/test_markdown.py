"""The files, word for word, and read back: X06 to X10 and X13."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from protocol_parts import (
    FAILED_FIELDS,
    RULE,
    STEPS,
    at,
    decision,
    entry,
    failed,
    important,
    partial,
    success,
)
from tables import table

from jeeves_reflexion.reflections.forms import (
    FORMS,
    ReflectionFormError,
    checked_form,
    clean_text,
    make_reflection,
    procedure_of,
)
from jeeves_reflexion.reflections.markdown import (
    Entry,
    MarkdownError,
    from_markdown,
    summary_of,
    to_markdown,
)
from jeeves_reflexion.types import Provenance


def lines(text: str, mark: str = "## ") -> list[str]:
    return [line for line in text.split("\n") if line.startswith(mark)]


def test_x06_the_first_line():
    assert (
        to_markdown(entry()).split("\n")[0]
        == "# Reflection: 2026-03-01 - researcher-agent - Fetch the listings"
    )


def test_x07_a_failed_task_has_five_headings_in_order():
    for reflection in (failed(), important()):
        assert lines(to_markdown(entry(reflection))) == [
            "## What happened?",
            "## What went wrong?",
            "## Why did it go wrong?",
            "## What should I do differently?",
            "## Tactical rule candidate",
        ]


def test_x08_a_partial_task_has_three_headings():
    text = to_markdown(entry(partial()))
    assert text.startswith("# Reflection: 2026-03-01 - ")
    assert lines(text, "#")[1:] == [
        "## What happened?",
        "## What went wrong?",
        "## What should I do differently?",
    ]


def test_x09_a_success_is_a_procedure():
    text = to_markdown(entry(success()))
    assert text.split("\n")[0] == "# Procedure: 2026-03-01 - researcher-agent - Fetch the listings"
    assert lines(text) == ["## Strategy", "## Why it worked"]


def test_x10_a_decision_answers_three_questions():
    assert lines(to_markdown(entry(decision()))) == [
        "## What was the decision?",
        "## What alternatives existed?",
        "## Why was this option chosen?",
    ]


def test_the_whole_file():
    made = Entry(datetime.date(2026, 3, 1), "researcher-agent", "Fetch the listings", important())
    assert to_markdown(made).split("\n<!--")[0] == "\n".join(
        [
            "# Reflection: 2026-03-01 - researcher-agent - Fetch the listings",
            *(
                part
                for field in FORMS["failed"].fields
                for part in ("", f"## {field.heading}", "", FAILED_FIELDS[field.key])
            ),
            "",
            "### Principle",
            "",
            f"I should follow this rule: {RULE}",
            "",
            "### Procedure",
            "",
            *procedure_of(STEPS).split("\n"),
            "",
        ]
    )


@table("reflection", [failed(), important(), partial(), success(), decision()])
def test_x13_what_is_written_is_read_back(reflection):
    made = entry(reflection)
    assert from_markdown(to_markdown(made)) == made
    assert from_markdown(to_markdown(made).replace("\n", "\r\n")) == made


TRICKY = [
    "# Reflection: 2026-03-01 - x - y",
    "## What went wrong?",
    "##",
    "#\ttab",
    "  ## indented",
    "    ## code",
    "### Principle",
    "### procedure ##",
    "### other",
    "\\## escaped already",
    "\\\\# twice",
    "```",
    "```python",
    "````",
    "~~~",
    "\\```",
    "text",
    "",
    "---",
    "- - -",
    "===",
    "<!-- jeeves-reflexion: {} -->",
    "<!--",
    "<script>",
    "-->",
    "- a list",
    "\ttab",
    "a\u2028b",
    "a\x0bb\x85c",
    "I should follow this rule: x",
    "[REDACTED:email]",
    "\u200b",
    "\ud800",
]
bodies = st.lists(st.sampled_from(TRICKY) | st.text(max_size=12), max_size=8).map("\n".join)
texts = bodies.filter(lambda text: bool(clean_text(text)))


@given(
    bodies=st.lists(texts, min_size=3, max_size=3),
    summary=st.text(max_size=120),
    kind=st.none() | st.text(max_size=9),
)
@example(bodies=["```\n## What went wrong?\n```", "```\nopen", "\r\n## x\r\n"], summary=" - ", kind="-->--")
def test_x13_any_text_comes_back(bodies, summary, kind):
    reflection = make_reflection("partial", dict(zip(FORMS["partial"].keys, bodies, strict=True)))
    made = replace(entry(), summary=summary_of(summary), reflection=reflection, task_kind=kind)
    text = to_markdown(made)
    assert from_markdown(text) == made
    assert from_markdown(text).reflection.fields == {
        key: clean_text(body) for key, body in zip(FORMS["partial"].keys, bodies, strict=True)
    }
    assert to_markdown(from_markdown(text)) == text


@given(texts)
@example("text\n---")
@example("<!--\n\ntext")
@example("~~~\n## code\n~~~")
def test_x13_a_markdown_renderer_sees_the_forms_headings_and_no_others(text):
    made = replace(entry(), reflection=make_reflection("partial", dict.fromkeys(FORMS["partial"].keys, text)))
    tokens = MarkdownIt("commonmark").parse(to_markdown(made))
    headings = [
        tokens[n + 1].content
        for n, token in enumerate(tokens)
        if token.level == 0 and token.tag in ("h1", "h2") and token.nesting == 1
    ]
    assert headings[1:] == [field.heading for field in FORMS["partial"].fields]


@given(
    rule=st.text("ab \u2028\x85.A-", max_size=20),
    steps=st.lists(st.text("ab \u2028\n1.#`", max_size=12), max_size=4),
    score=st.none() | st.floats(0, 1),
    evidence=st.lists(st.integers(0, 99), max_size=4),
    tools=st.lists(st.text(max_size=8), max_size=3),
)
def test_x13_principles_procedures_and_data_come_back(rule, steps, score, evidence, tools):
    given = replace(failed(), principle=rule, procedure="\n".join(steps), evidence=tuple(evidence))
    try:
        made = checked_form(given)
    except ReflectionFormError:  # such as two sentences: refused before anything is written
        return
    source = Provenance("run -->", 2, score, None, "An Agent", at(1))
    whole = replace(entry(), source=source, tools=tuple(tools), reflection=made)
    assert from_markdown(to_markdown(whole)) == whole


def test_what_a_code_fence_holds_is_text_as_it_stands():
    code = "```python\n# a comment\n\\# x\n```"
    text = GOOD.replace(FAILED_FIELDS["what_went_wrong"], code)  # by hand, or by an older version
    assert from_markdown(text).reflection.fields["what_went_wrong"] == code


def test_a_file_by_hand_needs_no_data():
    text = (
        to_markdown(entry(partial())).split("<!--")[0].replace("## What happened?", "##  what happened  ##")
    )
    read = from_markdown("\ufeff" + text)
    assert (read.reflection, read.id, read.task_kind, read.source.score) == (partial(), "", None, None)


GOOD = to_markdown(entry())


@table(
    ("text", "line", "says"),
    [
        ("", 1, "should read '# Reflection: YYYY-MM-DD"),
        ("hello", 1, "should read '# Reflection: YYYY-MM-DD"),
        (GOOD.replace("2026-03-01", "2026-13-01"), 1, "not a date"),
        (GOOD.replace("2026-03-01", "yesterday"), 1, "not a date"),
        (GOOD.replace("## What went wrong?", "## What was wrong?"), 7, "not a heading of a form"),
        (
            GOOD.replace("## What went wrong?", "What went wrong?"),
            23,
            "'What went wrong?' (what_went_wrong) is missing",
        ),
        (GOOD.replace("## What went wrong?", "## What happened?"), 7, "a second time"),
        (GOOD.replace("## What happened?", "Hello\n\n## What happened?"), 3, "before the first"),
        (GOOD.replace("## What happened?", "## Strategy"), 23, "'What happened?' (what_happened) is missing"),
        (
            GOOD.replace("## What happened?", "## Strategy\n\nx\n\n## What happened?"),
            27,
            "has no field 'strategy'",
        ),
        (GOOD.replace("Step 3", "```\nStep 3"), 9, "never closed"),
        (GOOD.replace('"format":1', '"format":2'), 23, "format 2"),
        (GOOD.replace('{"format', '"format'), 23, "data can't be read"),
        (GOOD.replace('"attempt":1', '"attempt":"x"'), 23, "data can't be read"),
    ],
)
def test_an_error_names_the_line_and_what_to_do(text, line, says):
    with pytest.raises(MarkdownError, match="line") as caught:
        from_markdown(text)
    assert caught.value.line == line
    assert says in str(caught.value)


def test_a_person_may_write_the_fields_in_another_order():
    text = GOOD.replace("## What happened?", "## A").replace("## What went wrong?", "## What happened?")
    read = from_markdown(text.replace("## A", "## What went wrong?")).reflection
    assert read.fields["what_happened"] == FAILED_FIELDS["what_went_wrong"]


def test_a_failed_file_that_lost_its_cause_and_rule_is_not_taken_for_a_partial_one():
    head, rest = GOOD.split("## Why did it go wrong?")
    rest = rest[rest.index("## What should I") :]
    text = head + rest.replace("## Tactical rule candidate\n\n" + FAILED_FIELDS["tactical_rule"], "")
    with pytest.raises(MarkdownError, match=r"Why did it go wrong\?"):
        from_markdown(text)
