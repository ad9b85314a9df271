"""Learning beside a loop of someone else's."""

from __future__ import annotations

import time
from unittest import mock

import pytest
from loop_parts import lesson_store

from jeeves_reflexion import (
    Attempt,
    Budget,
    ConfigurationError,
    Credit,
    Evaluation,
    Learner,
    LoopOptions,
    Reflexion,
    ReflexionError,
    ScriptedModel,
    SessionError,
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
@pytest.mark.parametrize("attempt", [39, None, {"total": 39}, b"39", OSError("no route")], ids=type)
async def test_what_is_no_attempt_is_refused_by_name(attempt: object):
    learner = Learner(lesson_store=lesson_store(), reflector=reflect)
    with pytest.raises(ConfigurationError, match=f"an Attempt or a text, not {type(attempt).__name__}"):
        await learner.learn_from(TASK, attempt, 0.0)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_lessons_get_no_credit_for_an_attempt_at_another_task():
    learner = Learner(lesson_store=lesson_store(), reflector=reflect)
    advice = await learner.recall(TASK)
    with pytest.raises(ConfigurationError, match="the advice is for another task"):
        await learner.learn_from("How many rows are there?", "7", 1.0, advice=advice)
    with pytest.raises(ConfigurationError, match="not str"):
        await learner.learn_from(TASK, "It is 39.", 0.0, advice=advice.text)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_what_judging_and_reflecting_used_stands_in_the_trial():
    judge, writer = ScriptedModel(lambda _: "score: 0.2"), ScriptedModel(lambda _: LESSON)
    learner = Learner(lesson_store=lesson_store(), evaluator=judge, reflector=writer)
    first = await learner.learn_from(TASK, "It is 39.")
    assert first.usage["evaluator"].calls == 1
    assert first.usage["reflector"].calls >= 1
    advice = await learner.recall(TASK)
    for _ in range(2):
        again = await learner.learn_from(TASK, "It is 39.", advice=advice)
        assert again.usage["evaluator"].calls == 1, "what was used before is none of this trial's"


@pytest.mark.anyio
async def test_the_time_of_the_agent_elsewhere_is_none_of_the_budget():
    options = LoopOptions(budget=Budget(max_seconds=5))
    learner = Learner(lesson_store=lesson_store(), reflector=reflect, options=options)
    with mock.patch.object(time, "monotonic", return_value=0.0):
        advice = await learner.recall(TASK)
    trial = await learner.learn_from(TASK, "It is 39.", 0.0, advice=advice)
    assert (trial.exhausted, trial.problems) == ("", ())
    assert trial.lesson is not None
    assert trial.lesson.provenance.run_id == advice.session.id


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


def test_the_function_is_called_by_name_too_and_with_its_prompt_alone():
    @reflexive(evaluator=lambda output: 1.0, reflector=lambda task, trials: LESSON)
    def answer(prompt: str, style: str = "short") -> str:
        return f"{prompt}, {style}"

    assert answer(prompt="How much?") == "How much?, short"
    for call in (lambda: answer("How much?", "long"), lambda: answer("How much?", style="long"), answer):
        with pytest.raises(TypeError, match="answer"):
            call()


@pytest.mark.anyio
async def test_a_function_that_never_answers_is_an_error_that_says_why():
    @reflexive(evaluator=lambda output: 0.0, reflector=lambda task, trials: LESSON)
    async def answer(prompt: str) -> str:
        raise OSError("no route")

    with pytest.raises(ReflexionError, match=r"answer.*3 attempts.*no route"):
        await answer("How much?")


@pytest.mark.anyio
async def test_an_empty_answer_is_an_answer():
    @reflexive(evaluator=lambda output: 0.0, reflector=lambda task, trials: LESSON)
    async def answer(prompt: str) -> str:
        return ""

    assert await answer("How much?") == ""


@pytest.mark.anyio
async def test_within_an_event_loop_a_sync_one_says_what_to_await():
    @reflexive(evaluator=lambda output: 1.0, reflector=lambda task, trials: LESSON)
    def answer(prompt: str) -> str:
        return "It is 40."

    with pytest.raises(SessionError, match=r"await answer\.reflexion\.run\(task\)"):
        answer("How much?")
    assert (await answer.reflexion.run("How much?")).output == "It is 40."  # type: ignore[attr-defined]
