"""What of a reply is packing, and what is text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.revisers.model import whole_text

MARKDOWN = "# A\n```python\nx\n```\nend"


@table(
    ("reply", "text"),
    [
        ("plain\n", "plain\n"),
        ("  indented, kept", "  indented, kept"),
        ("```\ncode\n```", "code"),
        ("\n```python\n  code\n\n```\n", "  code\n"),
        ("~~~~\ncode\n~~~~", "code"),
        ("```\r\na\r\nb\r\n```\r\n", "a\r\nb"),
        (f"```markdown\n{MARKDOWN}\n```", MARKDOWN),
        (f"````\n{MARKDOWN}\n````", MARKDOWN),
        (MARKDOWN, MARKDOWN),
        ("```\na\n```\nand\n```\nb\n```", "```\na\n```\nand\n```\nb\n```"),
        ("```\na\n```\nend", "```\na\n```\nend"),
        ("```", "```"),
        ("```\nnever closed", "```\nnever closed"),
        ("```\n```", ""),
        ("<draft>\ntext\n</draft>\n", "text"),
        ("<draft>\n```\ntext\n```\n</draft>", "text"),
        ("<draft>a</draft><draft>b</draft>", "<draft>a</draft><draft>b</draft>"),
        ("`inline` and ```more```", "`inline` and ```more```"),
    ],
)
def test_only_packing_is_taken_off(reply, text):
    assert whole_text(reply, "old text", "draft") == text


@table("old", ["```\nold\n```", "```json\n{}\n```\n"])
def test_a_fence_that_the_original_had_stays(old):
    assert whole_text("```\nnew\n```", old, "draft") == "```\nnew\n```"


def test_a_fence_within_the_original_is_no_fence_around_it():
    assert whole_text(f"```markdown\n{MARKDOWN}\n```", MARKDOWN, "draft") == MARKDOWN


@given(st.text(), st.text())
def test_what_remains_is_a_part_of_the_reply(reply, old):
    assert whole_text(reply, old, "draft") in reply


@given(st.text(alphabet=st.characters(exclude_characters="`~<")), st.text())
def test_a_reply_without_packing_is_the_text_as_it_is(reply, old):
    assert whole_text(reply, old, "draft") == reply


@given(st.text(alphabet="ab \n"), st.sampled_from(["```", "~~~", "`````"]), st.sampled_from(["", "md"]))
def test_a_text_without_fences_comes_out_of_a_fence_as_it_went_in(text, run, info):
    assert whole_text(f"{run}{info}\n{text}\n{run}", "old", "draft") == text
