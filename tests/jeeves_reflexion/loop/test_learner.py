"""Learning beside a loop of someone else's."""

from __future__ import annotations

import pytest
from loop_parts import lesson_store

from jeeves_reflexion import (
    Attempt,
    ConfigurationError,
    Credit,
    Evaluation,
    Learner,
    Reflexion,
    ScriptedModel,
    Task,
    Trial,
    Withholding,
    reflexive,
)

LESSON = "Count the rows of the table before you add them up."
TASK = Task("How much is the total of the table?", id="total", reference="40")


async def reflect(task: Task, trials: list[Trial]) -> str:
    """Return one lesson; the gold is never here."""
    assert task.reference is None
    assert trials[-1].evaluation.score is not None
    return LESSON


@pytest.mark.anyio
async def test_a_lesson_of_one_attempt_is_the_advice_for_the_next():
    learner = Learner(lesson_store=lesson_store(), reflector=reflect)
    before = await learner.recall(TASK)
    assert before.text == ""
    trial = await learner.learn_from(TASK, "It is 39.", 0.0, advice=before)
    assert trial.lesson is not None
    assert trial.lesson.text == LESSON
    after = await learner.recall(TASK)
    assert LESSON in after.text
    assert "<reflexion_lessons>" in after.text


@pytest.mark.anyio
async def test_what_passed_teaches_nothing_unless_that_is_asked_for():
    learner = Learner(lesson_store=lesson_store(), reflector=reflect)
    trial = await learner.learn_from(TASK, Attempt("It is 40."), Evaluation(1.0))
    assert trial.passed
    assert trial.lesson is None


@pytest.mark.anyio
async def test_a_verdict_goes_to_the_lessons_that_were_recalled_once():
    store = lesson_store(credit=Credit(Withholding(share=0.1)))
    learner = Learner(lesson_store=store, reflector=reflect)
    await learner.learn_from(TASK, "It is 39.", 0.0)
    advice = await learner.recall(TASK)
    assert advice.recall is not None
    await learner.learn_from(TASK, "It is 40.", 1.0, advice=advice)
    assert not await store.outcome(advice.recall.id, Evaluation(0.0)), "it was noted already"


@pytest.mark.anyio
async def test_without_a_verdict_the_evaluator_judges_and_sees_the_gold():
    seen = []

    async def judge(task: Task, attempt: Attempt) -> Evaluation:
        seen.append((task.reference, attempt.output))
        return Evaluation(0.2)

    learner = Learner(lesson_store=lesson_store(), evaluator=judge, reflector=reflect)
    trial = await learner.learn_from(TASK, "It is 39.")
    assert seen == [("40", "It is 39.")]
    assert trial.evaluation.score == 0.2
    assert trial.lesson is not None


@pytest.mark.anyio
async def test_nobody_to_judge_is_an_error_that_says_so():
    learner = Learner(lesson_store=lesson_store(), reflector=reflect)
    with pytest.raises(ConfigurationError, match="who judges"):
        await learner.learn_from(TASK, "It is 39.")
    with pytest.raises(ConfigurationError, match="reflector"):
        Learner(lesson_store=lesson_store())
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        await learner.learn_from(TASK, "It is 39.", 7.0)


@pytest.mark.anyio
async def test_a_reflector_that_fails_costs_the_lesson_and_is_told():
    async def broken(task: Task, trials: list[Trial]) -> str:
        raise OSError("no route")

    learner = Learner(lesson_store=lesson_store(), reflector=broken)
    trial = await learner.learn_from(TASK, "It is 39.", 0.0)
    assert trial.lesson is None
    assert "no route" in trial.problems[0]


@pytest.mark.anyio
async def test_a_secret_in_an_attempt_reaches_no_store():
    async def tell(task: Task, trials: list[Trial]) -> str:
        return "Use the key sk-proj-abcdefghijklmnopqrstuvwxyz123456 for the table."

    learner = Learner(lesson_store=lesson_store(), reflector=tell)
    trial = await learner.learn_from(TASK, "It is 39.", 0.0)
    assert trial.lesson is None or "abcdefghijkl" not in trial.lesson.text


def test_a_sync_function_is_made_reflexive():
    prompts: list[str] = []

    @reflexive(evaluator=lambda output: float("40" in output), reflector=lambda task, trials: LESSON)
    def answer(prompt: str) -> str:
        """Answer."""
        prompts.append(prompt)
        return "It is 40." if LESSON in prompt else "It is 39."

    assert answer("How much?") == "It is 40."
    assert len(prompts) == 2
    assert answer.__name__ == "answer"
    assert answer.__doc__ == "Answer."
    assert isinstance(answer.reflexion, Reflexion)


@pytest.mark.anyio
async def test_an_async_function_stays_one():
    @reflexive(model=ScriptedModel(lambda _: "score: 1.0"))
    async def answer(prompt: str) -> str:
        return f"{prompt} 40."

    assert await answer("How much?") == "How much? 40."


def test_a_mistake_is_told_where_the_function_is_decorated():
    with pytest.raises(ConfigurationError, match="evaluator"):
        reflexive()(lambda prompt: prompt)
