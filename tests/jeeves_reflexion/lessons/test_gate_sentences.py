"""Reflections of several sentences: let in where asked for, and only there."""

import pytest

from jeeves_reflexion import LoopOptions, Reflexion, VectorLessonStore
from jeeves_reflexion.lessons import shape_problem
from vectorstores import HashingEmbedder, InMemoryVectorStore

LONG = "I looked in the wrong drawer. Next time, open the cupboard first!\nThen look left."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LONG, None),
        ("x" * 501, "501 characters; at most 500 is wanted"),
        ("", "empty"),
    ],
)
def test_the_other_rules_hold_without_the_one_of_one_sentence(text, problem):
    found = shape_problem(text, one_sentence=False)
    assert found is None if problem is None else problem in found


def test_whatever_ends_a_line_makes_two_of_it():
    for end in ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x85"]:
        assert "2 lines" in shape_problem(f"Look left{end}then look right.")
        assert shape_problem(f"Look left.{end}") is None
        assert shape_problem(f"Look left{end}then look right.", one_sentence=False) is None


def test_by_default_a_lesson_is_one_sentence():
    assert "2 lines" in shape_problem(LONG)
    assert "2 sentences" in shape_problem("Look left. Then look right.")


@pytest.mark.anyio
@pytest.mark.parametrize(("options", "kept"), [(None, 0), (LoopOptions(one_sentence=False), 2)])
async def test_the_loop_keeps_reflections_of_several_sentences_only_where_it_is_told_to(options, kept):
    prompts = []

    async def agent(task, session):
        prompts.append(session.blocks["reflexion_lessons"])
        return "no"

    loop = Reflexion(
        agent,
        evaluator=lambda output: False,
        reflector=lambda task, trials: LONG,
        max_attempts=3,
        options=options,
    )
    result = await loop.run("Find the mug.")
    assert len([trial for trial in result.trials[:-1] if trial.reflection]) == kept
    assert prompts[1].count("- I looked in the wrong drawer. Next time,") == min(kept, 1)
    assert ("3 sentences" in " ".join(result.trials[0].problems)) is (kept == 0)


def test_a_second_order_is_a_second_sentence():
    for text in [
        "Do a. Do b.",
        "Look in drawer A. Then look in drawer B.",
        "Go to room b. Open the safe.",
        "Open plan C. The others are old.",
        "Run `pytest`. Then fix what fails.",
        "Wait until it is at 50%. Then stop.",
        "Read https://example.org/a/. Then answer.",
        "Answer yes or no. Then go on.",
        "Look at cups, mugs, etc. Then take one.",
        'It said "Stop." Then it stopped.',
        'Say "done". Then stop.',
        "Use version 1.2. Then test it.",
        "Stop at 3.5. Never go further.",
        '"Look left. Then look right."',
    ]:
        assert "2 sentences" in (shape_problem(text) or "")


def test_what_only_looks_like_an_end_ends_no_sentence():
    for text in [
        "Use a formatter, e.g. Black, before committing.",
        "Use a formatter, e. g. Black, before committing.",
        "Take the newest one, i.e. Take 7, of the scene.",
        "Use v1.2. of the interface when v2. fails.",
        "Round to 3.5 or 4.0 before adding.",
        "Read https://example.org/a.b?c=d. if the page is empty.",
        'When it says "Nothing happens. Try again.", go to another shelf.',
        "When it says \u201cNothing happens. Try again.\u201d, go to another shelf.",
        "When it says `error. Do not retry.`, stop.",
        "Ask whether J. Smith or A. B. Jones wrote it, vs. Miller.",
        "Search for the U.S. President by the year.",
        "Use at most approx. ten steps.",
        "Choose the entry with max. run time, resp. min. set size.",
        'Ask "is it done?" then continue.',
        "Do a.",
    ]:
        assert shape_problem(text) is None


@pytest.mark.anyio
async def test_a_reply_that_gives_no_advice_under_its_label_is_asked_for_again():
    """A label is removed first, and what it labels may be an error of a server or an apology."""
    for reply in ("Lesson: 500 Internal Server Error", "1. Lesson: I'm sorry, I can't help with that."):
        problems = []

        def reflector(task, trials, *, problem=None, reply=reply, problems=problems):
            problems.append(problem)
            return reply if problem is None else "Look left before looking right."

        store = VectorLessonStore(InMemoryVectorStore(HashingEmbedder()))
        loop = Reflexion(
            lambda prompt: "no",
            evaluator=lambda output: False,
            reflector=reflector,
            max_attempts=2,
            lesson_store=store,
        )
        result = await loop.run("Find the mug.")
        assert "gives no advice" in problems[1]
        assert result.trials[0].reflection.lesson == "Look left before looking right."
