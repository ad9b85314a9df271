"""Reflections of several sentences: let in where asked for, and only there."""

import pytest

from jeeves_reflexion import LoopOptions, Reflexion
from jeeves_reflexion.lessons import shape_problem

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
    assert ("2 lines" in " ".join(result.trials[0].problems)) is (kept == 0)
