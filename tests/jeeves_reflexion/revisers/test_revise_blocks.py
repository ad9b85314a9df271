"""Edit blocks in a model's reply: read whatever stands around them, and told from the text's own lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.revisers import Edit, apply_edits, parse_edits

BLOCK = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE"


@table(
    "reply",
    [
        BLOCK,
        BLOCK + "\n",
        BLOCK.replace("\n", "\r\n"),
        f"Sure, here is the edit:\n\n```text\n{BLOCK}\n```\nThat mends it.",
        f"file.py\n```python\n{BLOCK}\n```",
        "1. This:\n" + "\n".join(f"   {line}" for line in BLOCK.split("\n")),
        BLOCK.replace("SEARCH", "search").replace("<<<<<<<", "<<<<<<"),
        f"The block has `<<<<<<< SEARCH` at its head and ======= in it.\n{BLOCK}",
    ],
)
def test_one_block_is_read_whatever_stands_around_it(reply):
    assert parse_edits(reply).edits == (Edit("old", "new"),)
    assert parse_edits(reply).problems == ()


def test_several_blocks_empty_parts_and_inner_blank_lines():
    reply = (
        "<<<<<<< SEARCH\na\n\nb\n=======\n>>>>>>> REPLACE\ntext between\n"
        "<<<<<<< SEARCH\n=======\n\nadded\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE"
    )
    assert parse_edits(reply).edits == (Edit("a\n\nb", ""), Edit("", "\nadded"), Edit("", ""))


def test_an_indentation_that_only_some_lines_share_is_kept():
    reply = "  <<<<<<< SEARCH\n  a\nb\n  =======\n    c\n  >>>>>>> REPLACE"
    assert parse_edits(reply).edits == (Edit("  a\nb", "  c"),)


@table(
    ("reply", "problem"),
    [
        ("<<<<<<< SEARCH\nold\n=======\nnew", "no line '>>>>>>> REPLACE' at its end: 'old ======= new'"),
        ("<<<<<<< SEARCH\nold\n>>>>>>> REPLACE", "no line '======='"),
    ],
)
def test_a_block_that_is_not_whole_is_a_problem_and_no_edit(reply, problem):
    parsed = parse_edits(reply)
    assert parsed.edits == ()
    assert problem in parsed.problems[0]


def test_whole_blocks_before_and_after_a_broken_one_are_read():
    parsed = parse_edits(f"{BLOCK}\n<<<<<<< SEARCH\nx\n=======\ny\n{BLOCK}")
    assert parsed.edits == (Edit("old", "new"),) * 2
    assert len(parsed.problems) == 1


def test_a_reply_without_blocks_holds_no_edits():
    assert parse_edits("The text is fine.") == parse_edits("")
    assert parse_edits("Title\n=======\n") == parse_edits("")


def test_a_block_with_several_dividing_lines_is_no_edit():
    reply = "<<<<<<< SEARCH\nTitle\n=======\n\nfirst\n=======\nNew\n=======\n\n1st\n>>>>>>> REPLACE"
    assert parse_edits(reply).edits == ()
    assert "more than one line '======='" in parse_edits(reply).problems[0]


def test_an_underline_of_another_length_is_no_dividing_line():
    (edit,) = parse_edits("<<<<<<< SEARCH\nHead\n=====\n=======\nNew\n=====\n>>>>>>> REPLACE").edits
    assert edit == Edit("Head\n=====", "New\n=====")


pieces = st.lists(
    st.sampled_from(
        [
            "<<<<<<< SEARCH",
            "=======",
            ">>>>>>> REPLACE",
            "```",
            " ",
            "a",
            "",
            "=====",
            "  >>>>>>> REPLACE",
            "old\r",
        ]
    ),
    max_size=25,
).map("\n".join)


def quotes(reply, edits):
    """Whether the lines of the edits stand in a reply, in their order; an indentation may be missing."""
    lines = (line.removesuffix("\r") for line in reply.split("\n"))
    wanted = [
        line for edit in edits for part in (edit.search, edit.replace) if part for line in part.split("\n")
    ]
    return all(any(line.endswith(want) for line in lines) for want in wanted)


@given(st.one_of(st.text(), pieces), st.one_of(st.text(), pieces))
def test_whatever_the_reply_edits_quote_it_and_change_nothing_but_what_they_quote(reply, text):
    parsed = parse_edits(reply)
    assert quotes(reply, parsed.edits)
    openings = [line for line in reply.split("\n") if line.strip().startswith("<<<<<")]
    assert len(parsed.edits) + len(parsed.problems) <= len(openings)
    result = apply_edits(text, parsed.edits)
    assert len(result.applied) + len(result.refused) == len(parsed.edits)
    assert all(
        not edit.search.strip() or edit.search.replace("\r\n", "\n") in text.replace("\r\n", "\n")
        for edit in result.applied
    )
    if all(not edit.search.strip() for edit in result.applied):
        assert result.text.startswith(text), "nothing but additions leaves all that there was"
    if not result.applied:
        assert result.text == text


def test_a_reply_of_nothing_but_dividers_takes_no_time():
    reply = "<<<<<<< SEARCH\n" + "x\n=======\n" * 20_000 + ">>>>>>> REPLACE"
    assert len(parse_edits(reply).problems) == 1


def test_blocks_quoted_in_prose_as_an_example_change_nothing_else():
    text = "alpha\nbeta\n"
    reply = f"I use this form:\n{BLOCK}\nNow:\n{BLOCK.replace('old', 'beta')}"
    edited = apply_edits(text, parse_edits(reply).edits)
    assert edited.text == "alpha\nnew\n"
    assert list(edited.refused) == [
        "the edit of 'old' was not applied: its search text does not occur in the text: quote the text exactly"
    ]
