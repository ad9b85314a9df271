"""Search/replace edits applied to a text: where they apply, what they leave alone, and what is refused."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.revisers import Edit, apply_edits

PAGE = "# Title\n\nFirst paragraph.\n\nSecond  paragraph,\twith a tab.\n\nLast line"


def edited(text: str, *edits: tuple[str, str]) -> str:
    result = apply_edits(text, [Edit(*edit) for edit in edits])
    assert not result.refused
    return result.text


def reason(text: str, search: str, replace: str) -> str:
    result = apply_edits(text, [Edit(search, replace)])
    assert result.text == text
    assert not result.applied
    return result.refused[0].partition(" was not applied: ")[2]


def test_r02_untouched_paragraphs_are_byte_identical():
    before, after = PAGE.split("First paragraph.")
    assert edited(PAGE, ("First paragraph.", "A better one.")) == f"{before}A better one.{after}"


def test_several_edits_apply_to_the_text_as_it_was_in_any_order():
    assert edited("a\nb\nc\n", ("c", "a"), ("a", "b"), ("b", "c")) == "b\nc\na\n"


@table(("text", "result"), [("a\nb", "x"), ("a\nb\n", "x\n")])
def test_lines_that_replace_the_whole_text_have_no_blank_line_before_them(text, result):
    assert edited(text, (text, ""), ("", "x")) == result


def test_the_search_text_must_stand_once():
    assert "several places" in reason("one two one", "one", "1")
    assert "several places" in reason("aaa", "aa", "b")  # overlapping places are two places
    assert "several places" in reason("a\na\na", "a\na", "b")
    assert "does not occur" in reason("one", "two", "2")


def test_a_whole_line_counts_where_the_same_words_also_stand_within_others():
    assert edited("cat\nconcatenate\n", ("cat", "dog")) == "dog\nconcatenate\n"


@table(
    ("search", "replace"),
    [("x", "x"), ("", ""), ("  ", "\n"), ("x\r\ny", "x\ny")],
)
def test_an_edit_that_changes_nothing_is_refused(search, replace):
    assert reason("x\ny", search, replace) == "it changes nothing"


def test_an_overlapping_edit_is_refused_and_the_earlier_one_kept():
    result = apply_edits("abcdef", [Edit("cde", "X"), Edit("abc", "Y"), Edit("ab", "Z")])
    assert result.text == "ZXf"
    assert list(result.refused) == ["the edit of 'abc' was not applied: it overlaps the edit of 'cde'"]


@table(
    ("text", "search", "left"),
    [
        ("a\nb\nc\n", "b", "a\nc\n"),
        ("a\nb\nc", "c", "a\nb"),
        ("a\r\nb\r\nc", "a", "b\r\nc"),
        ("a\r\nb", "b", "a"),
        ("a", "a", ""),
        ("one two", "two", "one "),
        ("def f():\n    x\n    y\n", "    x", "def f():\n    y\n"),
    ],
)
def test_deleted_lines_go_with_their_line_ending(text, search, left):
    assert edited(text, (search, "")) == left


def test_the_last_two_lines_can_be_deleted_by_two_edits():
    assert edited("a\nb\nc", ("b", ""), ("c", "")) == "a\n"


@table(
    ("text", "result"),
    [("", "x\ny"), ("a", "a\nx\ny"), ("a\n", "a\nx\ny\n"), ("a\r\nb", "a\r\nb\r\nx\r\ny")],
)
def test_an_empty_search_adds_lines_at_the_end(text, result):
    assert edited(text, ("", "x"), ("  \n", "y\n")) == result


def test_line_endings_of_what_is_put_in_are_those_of_the_place():
    mixed = "a\r\nb\r\nc\nd\n"
    assert edited(mixed, ("a\nb", "1\n2\n3")) == "1\r\n2\r\n3\r\nc\nd\n"
    assert edited(mixed, ("c\nd", "1\r\n2")) == "a\r\nb\r\n1\n2\n"
    assert edited("a\nb", ("a", "1\r\n2")) == "1\n2\nb"
    assert "quote the text exactly" in reason("a\r\nb", "a\r", "c")  # a part of a line ending is no text


def test_a_blank_line_too_many_in_the_search_glues_no_lines_together():
    assert edited("foo\nbar\n", ("foo\n", "baz")) == "baz\nbar\n"
    assert edited("bar\nfoo\n", ("\nfoo", "baz")) == "bar\nbaz\n"
    assert edited("foo\n\nbar\n", ("foo\n", "baz")) == "baz\nbar\n"  # a blank line that is there is replaced
    assert edited("\nfoo\nbar", ("\nfoo", "baz")) == "baz\nbar"
    assert edited("foo\n", ("foo\n", "baz\n")) == "baz\n"


@table("search", ["Second paragraph, with a tab.", "  First paragraph.", "# title"])
def test_a_passage_in_other_white_space_or_capitals_is_refused(search):
    assert "quote the text exactly" in reason(PAGE, search, "x")


texts = st.text(alphabet="ab \t\r\né<=\x0b\u2028`", max_size=60)


@given(texts, st.lists(st.builds(Edit, texts, texts), max_size=4))
def test_it_never_raises_and_accounts_for_every_edit(text, edits):
    result = apply_edits(text, edits)
    assert len(result.applied) + len(result.refused) == len(edits)
    if not result.applied:
        assert result.text == text


@st.composite
def marked(draw):
    """A text of unique words among any bytes, in pieces: those to be replaced, and those between them."""
    count = draw(st.integers(1, 5))
    gaps = [draw(texts) for _ in range(count + 1)]
    found = [f"<{number}>{draw(texts)}</{number}>" for number in range(count)]
    put = [draw(st.text(alphabet="xyz ").filter(str.strip)) for _ in range(count)]
    return gaps, found, put, draw(st.permutations(range(count)))


@given(marked())
def test_r02_every_byte_outside_of_the_edits_stays(parts):
    gaps, found, put, order = parts
    text = "".join(a + b for a, b in zip(gaps, [*found, ""], strict=True))
    result = apply_edits(text, [Edit(found[number], put[number]) for number in order])
    assert not result.refused
    assert result.text == "".join(a + b for a, b in zip(gaps, [*put, ""], strict=True))


@given(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=3, max_size=8), st.data())
def test_line_endings_outside_of_the_edit_stay(endings, data):
    lines = [f"line {number}" for number in range(len(endings))]
    at = data.draw(st.integers(0, len(lines) - 1))
    before = "".join(a + b for a, b in zip(lines[:at], endings[:at], strict=True))
    after = endings[at] + "".join(a + b for a, b in zip(lines[at + 1 :], endings[at + 1 :], strict=True))
    assert edited(before + lines[at] + after, (lines[at], "new")) == f"{before}new{after}"


@given(texts, texts)
def test_an_edit_made_twice_is_made_once(text, search):
    assume(search.strip())
    result = apply_edits(text, [Edit(search, "new"), Edit(search, "newer")])
    assert len(result.applied) <= 1
