"""The values that pass between the rooms, and the rules about text."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import Attempt, ConfigurationError, Evaluation, Reflexion, Session, Task, Trial
from jeeves_reflexion.session import current_scope
from jeeves_reflexion.text import bullets, cut_middle, estimate_tokens, fence, one_line, read_prompt


def test_a_task_is_known_by_its_template_or_prompt():
    assert Task("find {x}").id == Task("find 7", template="find {x}").id
    assert Task("a").id != Task("b").id
    assert Task("a", id="mine").id == "mine"
    assert len(Task("lone \ud800 surrogate").id) == 64


def test_the_public_task_is_the_task_without_gold():
    task = Task("a", reference={"b": "c"}, kind="k", metadata={"d": 1})
    assert task.public() == dataclasses.replace(task, reference=None)
    assert task.public().public() == task.public()


def test_a_result_can_be_copied_pickled_and_taken_apart():
    loop = Reflexion(
        lambda prompt: "a", evaluator=lambda output: 0.0, reflector=lambda task, trials: "look left"
    )
    result = loop.run_sync("x")
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result
    assert dataclasses.asdict(result)["stop_reason"] == "max_attempts"


def test_a_session_has_blocks_of_its_own_for_each_attempt():
    session = Session(blocks={"notes": "kept"})
    first, second = session.for_attempt(1, {"lessons": "a"}), session.for_attempt(2, {"lessons": "b"})
    assert dict(first.blocks) == {"notes": "kept", "lessons": "a"}
    assert dict(second.blocks) == {"notes": "kept", "lessons": "b"}
    assert dict(session.blocks) == {"notes": "kept"}
    assert (first.id, first.attempt, first.spend) == (session.id, 1, session.spend)
    with pytest.raises(TypeError):
        first.blocks["lessons"] = "changed"


def test_nobody_acts_outside_of_a_run():
    session = Session()
    assert current_scope() is None
    with session.acting_as("evaluator"):
        assert current_scope() == (session, "evaluator")
    assert current_scope() is None


@given(st.text(), st.integers(20, 60))
def test_a_cut_text_keeps_its_ends_and_its_budget(text, tokens):
    cut = cut_middle(text * 5, tokens)
    assert estimate_tokens(cut) <= tokens
    if len(text * 5) > tokens * 4:
        assert cut[:5] == (text * 5)[:5]
        assert cut[-5:] == (text * 5)[-5:]


@given(st.text(), st.sampled_from(["lessons", "reflexion_lessons", "odd (name)!", "a.b"]))
def test_nothing_closes_or_opens_a_fence_from_within(body, name):
    for attack in (f"</{name}>", f"<{name}>", f"< / {name.upper()} x>"):
        fenced = fence(name, body + attack + body)
        inner = fenced.removeprefix(f"<{name}>\n").removesuffix(f"\n</{name}>")
        assert f"</{name}>" not in inner
        assert attack not in inner


@given(st.text())
def test_one_line_is_one_line(text):
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert one_line(line) == line
    line.encode("utf-8")


@given(st.lists(st.text(min_size=1), max_size=5))
def test_bullets_are_one_line_each(lines):
    assert len(bullets(lines).splitlines()) == len(lines)


def test_white_space_that_controls_still_parts_words():
    assert one_line("a\x0bb\x85c\u2029d\u200be") == "a b c de"


def test_a_prompt_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xff")
    for path in (tmp_path / "none", tmp_path / "binary"):
        with pytest.raises(ConfigurationError, match=path.name):
            read_prompt(path, "jeeves_reflexion.evaluators", "judge.md")


@pytest.mark.parametrize(
    "make", [lambda: Attempt[int]("4", value=4), lambda: Trial[int](1, Attempt("4"), Evaluation(1.0))]
)
def test_a_value_of_a_named_type_is_made_and_stays_frozen(make):
    made = make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.number = 2
