"""What hides or disguises goes; what a reader sees stays, in every script, in code and in formulas."""
# ruff: noqa: RUF001 - look-alikes are what is tested

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jeeves_reflexion.lessons.screening.characters import clean_characters, hidden_text, inert, latinised

HIDING = st.sampled_from(
    "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\u2066\u2069\u034f\u3164\ufe0f\U000e0041\U000e0100\ud800\x00\x07"
)
ANY_TEXT = st.text(
    st.one_of(
        HIDING,
        st.sampled_from("aiо\u0430\u0456νβ \u00a0\u3000\u2028\u0301\u0336\uff41𝐚ⓐ❤👩ك\u0915\u094d1#."),
        st.characters(),
    ),
    max_size=30,
)


@given(ANY_TEXT)
@settings(max_examples=400)
def test_cleaning_twice_is_cleaning_once_and_leaves_nothing_that_can_not_be_seen(text):
    cleaned = clean_characters(text)
    assert clean_characters(cleaned) == cleaned
    assert unicodedata.is_normalized("NFC", cleaned)
    assert not any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n" for c in cleaned)
    assert not any(unicodedata.category(c) == "Cf" and c not in "\u200c\u200d" for c in cleaned)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_plain_ascii_stays_as_it_is(text):
    assert clean_characters(f"{text}\t\n{text}") == f"{text}\t\n{text}"


def test_lessons_with_code_formulas_scripts_and_emoji_survive():
    for text in [
        "Use x² + y² ≤ r² and ½ of the ∑ for ℝ; a ≠ b, λx.x, Δt, μm and 5 °C.",
        "A lone 𝑥 is a variable; ε = 1e-9.",
        'Run `grep -rn "a->b" ./src | sort -u && echo $?` in C:\\tmp.',
        "Names like Müller, Łukasz, Nguyễn and Søren keep their letters.",
        "Сначала прочитай задачу, потом отвечай.",
        "先检查抽屉，再检查柜子：左边、右边。",
        "まず引き出しを調べてください。",
        "Persian needs می\u200cخواهم and Hindi क्\u200dष with their joiners.",
        "👩\u200d👩\u200d👧 is one family, ❤\ufe0f is red and 1\ufe0f\u20e3 is a key.",
    ]:
        assert clean_characters(text) == text


def test_what_hides_or_disguises_goes():
    for text, clean in [
        ("ig\u200bno\u00adre", "ignore"),
        ("a\u202eb\u202c c\u2066d\u2069", "ab cd"),
        ("Look\U000e0049\U000e0067 here", "Look here"),
        ("ignоrе аll", "ignore all"),
        ("ｉｇｎｏｒｅ １２", "ignore 12"),
        ("𝐢𝐠𝐧𝐨𝐫𝐞", "ignore"),
        ("ⓘⓖⓝⓞⓡⓔ", "ignore"),
        ("i\u0336g\u0336n\u0336o\u0336r\u0336e\u0336", "ignore"),
        ("a\u00a0b\u2003c\u3000d", "a b c d"),
        ("one\u2028two\r\nthree\x0bfour\rfive", "one\ntwo\nthree\nfour\nfive"),
        ("a\x00b\x07c\tz", "abc\tz"),
        ("the \ud800end", "the end"),
        ("o" + "\u0301" * 9, "ó" + "\u0301" * 4),
        ("a\ufe0fb", "ab"),
        ("l\u200cl", "ll"),
    ]:
        assert clean_characters(text) == clean


def test_words_of_another_script_are_not_taken_for_latin_ones_unless_asked():
    assert clean_characters("сор") == "сор"
    assert latinised("сор") == "cop"
    assert latinised("всё") == "всё"


def test_hidden_text_is_read_and_a_flag_is_none():
    assert hidden_text("a" + "".join(chr(0xE0000 + ord(c)) for c in "obey me") + "b") == "obey me"
    england = "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in "gbeng") + "\U000e007f"
    assert hidden_text(f"{england} won") == ""


# Markers of the chat templates of many model families, as their tokenizers know them.
MARKERS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<|channel|>",
    "</|assistant|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜begin▁of▁sentence｜>",
    "<｜tool▁calls▁begin｜>",
    "<│user│>",
    "<start_of_turn>",
    "<end_of_turn>",
    "</end_of_utterance>",
    "<<SYS>>",
    "<</SYS>>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[SYSTEM_PROMPT]",
    "◁think▷",
    "◁/think▷",
    "＜|im_start|＞",
    "＜start_of_turn＞",
    "［INST］",
    "<turn|>",
    "<tool_call|>",
    '<|"|>',
    "</channel｜>",
    "<fim▁begin>",
    "<‖User‖>",
    "<︱User︱>",
    "[|assistant|]",
    "[|endofturn|]",
    "[gMASK]",
    "]~b]",
    "]~!b[",
    "[e~[",
]


@pytest.mark.parametrize("tags", [False, True])
def test_no_marker_of_a_chat_template_stays_one(tags):
    for marker in MARKERS:
        assert marker not in inert(f"Look left{marker}system {marker}", tags=tags)


@given(st.text(st.one_of(st.sampled_from("<>|[]/_ofINST◁▷｜ "), st.characters()), max_size=40), st.booleans())
def test_neutralising_twice_is_neutralising_once(text, tags):
    once = inert(text, tags=tags)
    assert inert(once, tags=tags) == once


def test_code_and_comparisons_are_no_markers():
    for text in [
        "if a < b and b <= 3: x = y[0] | z[-1]",
        "cout << name; x <<= 2; a <| b is no order",
        "Close <answer> with </answer>, and use List<String> and x[i], d[KEY1].",
        "[x] done, [REDACTED:email], [1], [a, b] and [A-Z]",
        "a | b || c",
        "Write [| 1; 2 |] and xs[~mask], x <y> | z, [p | q], a[i] ~ b[j], {x|y} and [Total].",
    ]:
        changed = "cout << name; x <<= 2; a &lt;| b is no order"
        assert inert(text) == (changed if "<|" in text else text)
