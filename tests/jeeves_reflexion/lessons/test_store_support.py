"""What becomes of lessons that say what others say already: equal ones add support, all others are stored."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import Curator, Provenance, Reflection, Task
from jeeves_reflexion.lessons.duplicates import normalised
from jeeves_reflexion.lessons.exchange import from_line, to_line
from jeeves_reflexion.lessons.history import Change

pytestmark = pytest.mark.anyio

CLEAN = Task("put a clean mug in the coffee machine", kind="clean")
PLATE = Task("put a clean plate on the dining table after supper", kind="clean")
SINK = "Wash it in the sink before you carry it anywhere."
AGAIN = "wash it  in the sink, before you carry it anywhere"
PARAPHRASE = "Before you carry it anywhere, wash it in the sink."


async def learn(lessons, text, task=CLEAN, run="run", attempt=1):
    return await lessons.record(task, Reflection(text), provenance=Provenance(run, attempt, 0.0))


async def test_an_equal_lesson_adds_support_and_each_attempt_counts_once(make):
    async with make() as lessons:
        first = await learn(lessons, SINK)
        for run in ("b", "c", "c"):
            again = await learn(lessons, AGAIN, run=run)
            assert (again.id, again.text) == (first.id, SINK)
        kept = await lessons.get(first.id)
        assert kept.support == 3
        assert [note["run_id"] for note in kept.metadata["copies"]] == ["b", "c"]
        assert await lessons.count() == 1
        history = await Curator(lessons.repository).history(first.id)
        assert [entry.operation for entry in history] == ["learn", "support", "support"]
        assert history[-1].after == kept


async def test_everything_else_is_stored(make):
    async with make() as lessons:
        others = (PARAPHRASE, "Never wash it in the sink before you carry it anywhere.", "Open drawer 1.5.")
        for text in (SINK, *others, "Open drawer 15.", "Open drawer -1.5.", "Call f(x).", "Call f(y)."):
            await learn(lessons, text)
        assert await lessons.count() == 8


async def test_an_equal_lesson_of_another_task_is_recalled_for_that_task_too(make):
    async with make() as lessons:
        first = await learn(lessons, SINK)
        await learn(lessons, AGAIN, PLATE, run="b")
        recall = await lessons.recall(PLATE, k=3)
        assert [item.lesson.id for item in recall.offered] == [first.id]
        assert recall.offered[0].similarity == pytest.approx(1.0, abs=1e-5)
        # All keys follow a later change.
        await Curator(lessons.repository).retire(first.id, reason="old")
        assert (await lessons.recall(PLATE, k=3)).offered == ()
        assert await lessons.forget(first.id)
        assert await lessons.store.count() == 0


@pytest.mark.parametrize(("own", "brought", "number"), [(2, 5, 1), (5, 4, 1), (5, 5, 2), (1, 9, 2)])
async def test_one_that_brings_more_tasks_than_there_is_room_for_stays_on_its_own(make, own, brought, number):
    things = ["tea", "milk", "rice", "salt", "corn", "wine", "soap", "coal", "silk", "iron", "wool", "clay"]
    tasks = [f"fetch the {thing} from the cellar" for thing in things]
    async with make() as lessons, make("elsewhere") as others:
        first = await learn(others, SINK, Task(tasks[0], kind="clean"))
        second = replace(
            first, id="second", text=AGAIN, task_id=tasks[own], provenance=Provenance("b", 1, 0.0)
        )
        assert await lessons.admit(first, tasks[:own], Change("import")) == first
        await lessons.admit(second, tasks[own : own + brought], Change("import"))
        assert await lessons.count() == number
        for task in tasks[: own + brought]:
            (item, *_) = (await lessons.recall(Task(task, kind="clean"), k=1)).offered
            assert item.similarity == pytest.approx(1.0, abs=1e-5)


async def test_all_tasks_of_a_lesson_go_out_and_come_back(make):
    async with make() as lessons, make("elsewhere") as others:
        first = await learn(lessons, SINK)
        await learn(lessons, AGAIN, PLATE, run="b")
        stored = await lessons.repository.read_all([first.id, "unknown"])
        assert {each: one.tasks for each, one in stored.items()} == {first.id: (CLEAN.prompt, PLATE.prompt)}
        lesson, known = from_line(to_line(await lessons.get(first.id), stored[first.id].tasks))
        assert await others.admit(lesson, known, Change("import")) == lesson
        for task in (CLEAN, PLATE):
            (item,) = (await others.recall(task, k=3)).offered
            assert (item.lesson, item.similarity) == (lesson, pytest.approx(1.0, abs=1e-5))


async def test_what_was_retired_does_not_come_back_by_being_learned_again(make):
    async with make() as lessons:
        first = await learn(lessons, SINK)
        await Curator(lessons.repository).retire(first.id, reason="it harms")
        again = await learn(lessons, AGAIN, run="b")
        assert (again.id, again.state) == (first.id, "retired")
        assert (await lessons.recall(CLEAN, k=3)).offered == ()


async def test_a_proposed_lesson_is_active_once_a_writer_without_review_learns_it_too(make):
    async with make(propose=True) as waiting, make() as lessons:
        first = await learn(waiting, SINK)
        assert (await learn(waiting, AGAIN, run="b")).state == "proposed"
        again = await learn(lessons, AGAIN, run="c")
        assert (again.id, again.state, again.support) == (first.id, "active", 3)


async def test_the_lesson_that_speaks_for_another_takes_its_support(make):
    async with make() as lessons:
        first, other = await learn(lessons, SINK), await learn(lessons, PARAPHRASE, PLATE)
        await Curator(lessons.repository).merge(first.id, [other.id])
        again = await learn(lessons, PARAPHRASE, PLATE, run="b")
        assert (again.id, again.support) == (first.id, 3)


async def test_a_lesson_is_found_by_the_words_that_it_has_now(make):
    async with make() as lessons:
        first = await learn(lessons, SINK)
        await Curator(lessons.repository).edit(first.id, "Dry it before you carry it anywhere.")
        assert (await learn(lessons, "dry it before you carry it anywhere", run="b")).id == first.id
        assert (await learn(lessons, SINK, run="c")).id != first.id
        assert (await learn(lessons, SINK, run="d")).support == 2
        assert await lessons.count() == 2


@pytest.mark.parametrize("other", [{"trust": "shared"}, {"principal": "bob"}])
async def test_support_is_of_one_trust_and_one_writer(make, other):
    async with make() as lessons, make(**other) as others:
        first, second = await learn(lessons, SINK), await learn(others, SINK, run="b")
        assert (first.id == second.id, first.support, second.support) == (False, 1, 1)


SIGNS = st.sampled_from([".", ",", "!", "\u3002", '"', "\u201d", "..."])


WORDS = st.text("abc1-.'/\u00e9\u00df\u4e00", min_size=1).filter(lambda word: any(map(str.isalnum, word)))


@given(st.lists(WORDS, min_size=1, max_size=6), SIGNS, st.data())
def test_case_blanks_and_signs_around_words_are_no_difference(words, sign, data):
    plain = normalised(" ".join(words))
    assert normalised(plain) == plain
    at = data.draw(st.integers(0, len(words) - 1))
    other = [word + sign if number == at else word for number, word in enumerate(words)]
    assert normalised(f"  {chr(10).join(other)}\t").replace(" ", "") == normalised(" ".join(other)).replace(
        " ", ""
    )
    assert normalised(" ".join(other).upper()) == normalised(" ".join(other).lower())
    assert normalised(" ".join(other)) == plain


def test_signs_that_mean_something_are_a_difference():
    for one, other in [
        ("Open drawer 1.5.", "Open drawer 15."),
        ("Use x\u00b2.", "Use x2."),
        ("Take -1.", "Take 1."),
        ("Read .env first.", "Read env first."),
        ("Use C++.", "Use C."),
        ("Use >= here.", "Use > here."),
        ("Don't open it.", "Do open it."),
    ]:
        assert normalised(one) != normalised(other)


def test_unicode_writes_a_word_in_several_ways():
    assert normalised("Pr\u00fcfe die \u201eT\u00fcr\u201c \u2013 zuerst!") == normalised(
        "pru\u0308fe die tu\u0308r zuerst"
    )
    assert normalised("Don\u2019t open it\u3002") == normalised("don't open it")
