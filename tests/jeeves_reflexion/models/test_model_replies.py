"""JSON is found wherever a model puts it, and nothing else is taken for it."""

import json
import time

from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import parse_score
from jeeves_reflexion.lessons.gate import shape_problem
from jeeves_reflexion.models.advice import read_lesson
from jeeves_reflexion.models.fields import read_fields
from jeeves_reflexion.models.near_json import same
from jeeves_reflexion.models.replies import json_value, objects, prose
from jeeves_reflexion.models.thoughts import answer

OBJECT = {"a": [{"b": 1}], "c": "``` {"}


@table(
    ("text", "found"),
    [
        (json.dumps(OBJECT), OBJECT),
        (f"```json\n{json.dumps(OBJECT, indent=1)}\n```", OBJECT),
        (f"```\n{json.dumps(OBJECT)}```", OBJECT),
        (f"So:\n~~~\n{json.dumps(OBJECT)}\n~~~", OBJECT),
        (f"It is {json.dumps(OBJECT)}, as [1] says.", OBJECT),
        (f"[1] says {json.dumps(OBJECT)}", OBJECT),
        (' [{"a": 1}, 2]\n', [{"a": 1}, 2]),
        ('```c++\n[{"a": 1}, "```"]\n```', [{"a": 1}, "```"]),
        ('Not {"a": 1} but\n```json\n[{"a": 2}]\n```', [{"a": 2}]),
        ('```json\n[{"a": 1}] and more\n```', {"a": 1}),
        ("see [1]", None),
        ("{a: 1}", {"a": 1}),
        ("{'a': True, 'b': None,} // so", {"a": True, "b": None}),
        ('{"a": 1}\n{"a": 2}', None),
        ('{"a": 1, "a": 2}', None),
        ('"text"', None),
        ("", None),
        ("```" * 2000 + "{" * 5000, None),
    ],
)
def test_the_object_or_array_that_a_text_holds(text, found):
    assert json_value(text) == found


def test_long_numbers_are_one_only_where_each_digit_is():
    first, second = ({"id": 2**60 + more, "n": 1} for more in (0, 1))
    assert same(first, {"id": 2**60, "n": 1.0})
    assert not same(first, second)


def test_objects_are_told_apart_by_how_plainly_they_stand():
    text = 'First {"n": 1}, then\n```json\n{"n": 2, "in": {"n": 3}}\n```\nand {"n": 4} {broken}'
    assert [(one.value["n"], one.plain) for one in objects(text)] == [(1, False), (2, True), (4, False)]
    assert json_value(text) == {"n": 2, "in": {"n": 3}}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, list | dict))


@given(VALUES, st.sampled_from(["", "json", "JSON", "x-y"]), st.text(alphabet="ab :.[1]\n", max_size=20))
def test_what_stands_in_a_fence_is_read_whole_whatever_stands_around_it(value, language, around):
    text = f"x{around}\n```{language}\n{json.dumps(value)}\n```\n{around}"
    assert json_value(text) == value


THOUGHTS = [
    ("<think>\na draft\n</think>\n\nthe answer", "the answer"),
    ("\u25c1think\u25b7a draft\u25c1/think\u25b7the answer", "the answer"),
    ("[THINK]a draft[/THINK]the answer", "the answer"),
    ("a draft, maybe.\n</think>\n\nthe answer", "the answer"),
    ("Well. <think>a draft</think> the answer", "Well.  the answer"),
    ("<analysis>\na draft\n</analysis>\nthe answer", "the answer"),
    (
        "<|channel|>analysis<|message|>a draft<|end|><|start|>assistant<|channel|>final<|message|>the answer",
        "the answer",
    ),
    ("<|channel|>analysis<|message|>a draft", ""),
    ("<think>never closed", ""),
    ("the answer<|im_end|>", "the answer"),
    ("the answer" + "<|endoftext|>" * 40, "the answer"),
    ("<s>old</s> new</s><|im_end|>", "<s>old</s> new</s>"),
    ("Close the <think> tag before you answer.", "Close the <think> tag before you answer."),
    ("Write between <think> and </think> only.", "Write between <think> and </think> only."),
    ("Never write `</think>` twice.", "Never write `</think>` twice."),
    ("<s>old</s> new", "<s>old</s> new"),
    ("<|im_start|>assistant\nthe answer<|im_end|>", "the answer"),
    ("", ""),
    *(
        (text, text)
        for text in (
            "Harmony marks kinds of text by <|channel|> and <|message|>.",
            "The price is <s>$10</s>",
            "A template:\n\n```\n<think>\nreason here\n</think>\nanswer here\n```\n\nUse it.",
            "A template:\n\n```xml\n<think>\n```\n\nUse it.",
            "x = re.sub(r'<think>.*?</think>', '', text)",
            "# <think> opens it",
            '{"text": "It says: <think>x</think> and <think> and\\n</think>"}',
            "<think /> is empty",
        )
    ),
]


@table(("text", "said"), THOUGHTS)
def test_thinking_is_no_part_of_an_answer_and_a_name_of_its_marks_is(text, said):
    assert answer(text) == said


def test_what_is_quoted_is_no_word_of_the_models_own():
    text = (
        '> score: 1\n\nIt says "score: 1" and `score: 1`.\n\n```\nscore: 1\n```\n\n    score: 1\n\nscore: 0.2'
    )
    assert [line for line in prose(text).splitlines() if "score" in line] == ["score: 0.2"]


def test_a_score_that_was_shown_is_told_from_one_that_only_begins_like_it():
    shown = ["The reply ends with score: 1.0"]
    assert parse_score("It says: x.\n\nScore:\n1.0", shown=shown).score is None
    assert parse_score("It is wrong.\n\nscore: 0.75", shown=["score: 0.7"]).score == 0.75
    assert parse_score("score: 0.7", shown=["0.7"]).score == 0.7


SENTENCE = "Wash the mug before you put it on the desk."


@table(
    "reply",
    [
        f"Lesson - {SENTENCE}",
        f"**Lesson** (1 sentence): {SENTENCE}",
        f"I apologize for the earlier miss; here is the lesson: {SENTENCE}",
        json.dumps([SENTENCE]),
        json.dumps({"lessons": [SENTENCE]}),
    ],
)
def test_a_lesson_is_found_in_what_a_model_puts_around_it(reply):
    assert read_lesson(reply) == SENTENCE


LABELS = [
    "Lesson:",
    "**Lesson:**",
    "**Lesson**:",
    "_Lesson:_",
    "- **Lesson:**",
    "### Lesson:",
    "I failed.\n\n**Lesson:**",
]


@table("label", LABELS)
@table(
    "said",
    [
        "**Never** ask twice.", "_Never_ ask twice.", "`git add` goes before `git commit`.", "__init__ is called.",
        "*args come before **kwargs.", "Never *ever* ask twice.", "Ask **once**.",
    ],
)  # fmt: skip
def test_emphasis_behind_a_label_belongs_to_what_is_said(label, said):
    assert read_lesson(f"{label} {said}") == said
    assert read_lesson(f"{label} **{said}**" if "*" not in said else f"{label} {said}") == said
    heading = label.replace("Lesson", "Cause").replace("### ", "").rsplit("\n", 1)[-1]
    assert read_fields(f"{heading} {said}\nFix: {said}", {"cause": "cause", "fix": "fix"}) == {
        "cause": said,
        "fix": said,
    }


@table("head", ["1. **Cause:**", "(1) **Cause:**", "**1.** **Cause:**", "2. `Cause:`", "* __Cause:__"])
@table("between", ["\n", " ", ""])
def test_emphasis_around_a_numbered_label_is_its_own(head, between):
    read = read_fields(f"{head}{between}A typo.\nFix: Ask.", {"cause": "cause", "fix": "fix"})
    assert read == {"cause": "A typo.", "fix": "Ask."}


def test_a_bullet_before_a_label_is_no_emphasis():
    reply = "I failed.\n\n* Lesson: Never delete files with rm -rf *"
    assert read_lesson(reply) == "Never delete files with rm -rf *"
    assert read_fields("Two.\n* Fix: SELECT *", {"fix": "fix"}) == {"fix": "SELECT *"}


def test_a_long_run_of_marks_behind_a_label_is_read_fast():
    started = time.monotonic()
    read_lesson(f"Lesson: {'*' * 50_000} Never ask twice.")
    assert time.monotonic() - started < 2


def test_emphasis_around_a_label_and_what_is_said_belongs_to_neither():
    assert read_lesson("I failed.\n\n**Lesson: Ask once.**") == "Ask once."
    assert read_fields("**Cause: A typo**\n*Fix: Ask*", {"cause": "cause", "fix": "fix"}) == {
        "cause": "A typo",
        "fix": "Ask",
    }


@table(
    "lesson",
    [
        "I cannot see the mug in the dark, so turn on the lamp first.",
        "I do not know which drawer holds it, so I will open each in turn.",
        "Wrap the answer as <answer>42</answer>",
        "Always ask: is the mug clean?",
        "N/A values must be dropped before the mean is taken.",
        "Internal Server Error from the tool means that it is to be called again.",
    ],
)
def test_a_lesson_is_not_refused_for_how_it_begins_or_ends(lesson):
    assert read_lesson(lesson) == lesson


@table(
    "reply",
    [
        "Sure!",
        "Sure, here is the lesson:",
        "How can I help you?",
        "Could you share the steps of the agent?",
        "<one sentence>",
        "[lesson]",
        "(no response)",
        "[object Object]",
        "N/A - the attempt was successful",
        "I can not help.",
        "I do not have the steps, so I cannot write a lesson.",
        "N. A.",
        "Nichts",
        "**Nada.**",
        "Lesson: Rien",
        "\u65e0",
        "\u597d\u7684\u3002",
        "Brak.",
        '{"lesson": "\u05dc\u05d0"}',
        "Done",
        '{"lessons": []}',
        "Internal Server Error",
        "Error: 502 Bad Gateway",
        "**Service Unavailable.**",
    ],
)
def test_what_is_no_sentence_of_advice_is_no_lesson(reply):
    assert read_lesson(reply) == ""
    assert shape_problem(reply)
