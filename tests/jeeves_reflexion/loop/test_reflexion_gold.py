"""The reference reaches evaluators alone: never an agent, a reflector, what is stored, or a later prompt."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import (
    Evaluation,
    EvaluationError,
    Judge,
    LessonReflector,
    ReAct,
    Reflexion,
    ScriptedModel,
    Task,
    VectorLessonStore,
    as_reflector,
)
from jeeves_reflexion.protocols import Message
from vectorstores import FaissVectorStore, HashingEmbedder, InMemoryVectorStore

pytestmark = pytest.mark.anyio

GOLD = "Zaphod Beeblebrox"
TASK = Task("Who stole the ship?", reference=GOLD, metadata={"source": "quiz"})
FIELDS = frozenset({"rationale", "issues", "suggestions", "errors"})


def unmarked(task, attempt):
    return (False, f"expected {task.reference}, got {attempt.output}")


def shouting(task, attempt):
    return (False, f"NOT {str(task.reference).upper()}!")


def quoted(task, attempt):
    return Evaluation(
        0.0, issues=(f"expected {task.reference!r}",), suggestions=(f"say {json.dumps(task.reference)}",)
    )


def spread(task, attempt):
    return Evaluation(
        0.0, errors=(EvaluationError(GOLD, "Zaphod\n  Beeblebrox was missing"),), rationale="wrong"
    )


def in_a_criterion(task, attempt):
    return Evaluation(0.0, criteria_scores={f"names {GOLD}": 0.0})


def marked(task, attempt):
    return Evaluation(0.0, rationale="it is Zaphod, the President, Beeblebrox", quotes_gold=FIELDS)


def raising(task, attempt):
    raise AssertionError(f"{attempt.output!r} != {task.reference!r}")


EVALUATORS = [unmarked, shouting, quoted, spread, in_a_criterion, marked, raising]


class Recorder:
    """Answers of a model, and every word that it was sent."""

    def __init__(self, answer: str) -> None:
        self.model = ScriptedModel(self._answer)
        self.answer = answer
        self.sent: list[str] = []

    def _answer(self, messages: list[Message]) -> str:
        self.sent += [message.content for message in messages]
        return self.answer


def quotes_gold(text: str) -> bool:
    folded = " ".join(text.split()).casefold()
    return GOLD.casefold() in folded or ("zaphod" in folded and "beeblebrox" in folded)


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize("task", [TASK, Task("Who stole it?", reference={"answer": [GOLD, 42], "aka": None})])
async def test_no_prompt_and_no_file_ever_holds_the_reference(evaluator, task, tmp_path):
    agent, reflector = Recorder("Marvin"), Recorder("Name the captain of the ship.")
    store = FaissVectorStore(tmp_path, embedder=HashingEmbedder(), namespace="tests")
    async with VectorLessonStore(store) as lessons:
        loop = Reflexion(
            ReAct(agent.model),
            evaluator=_once_judged(evaluator),
            reflector=LessonReflector(reflector.model),
            lesson_store=lessons,
            max_attempts=3,
        )
        result = await loop.run(task)
    assert len(result.trials) == 3
    assert agent.sent
    assert reflector.sent
    assert not [text for text in agent.sent + reflector.sent if quotes_gold(text)]
    on_disk = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()).decode("latin-1")
    assert not quotes_gold(on_disk)
    assert "Name the captain" in on_disk


def _once_judged(evaluator):
    """Let a failing evaluator fail once, then score without a word, so that reflection goes on."""
    calls = []

    def evaluate(task, attempt):
        calls.append(attempt)
        return evaluator(task, attempt) if evaluator is not raising or len(calls) == 1 else 0.0

    return evaluate


async def test_a_judge_sees_the_reference_and_its_words_go_no_further():
    judged = Recorder(f"score: 0.1\nThe answer is {GOLD}, not Marvin. It was Zaphod; and Beeblebrox too.")
    agent, reflector = Recorder("Marvin"), Recorder("Name the captain of the ship.")
    loop = Reflexion(
        ReAct(agent.model), evaluator=Judge(judged.model), reflector=LessonReflector(reflector.model)
    )
    result = await loop.run(TASK)
    assert any(GOLD in text for text in judged.sent)
    assert GOLD in result.trials[0].evaluation.rationale
    assert not [text for text in agent.sent + reflector.sent if quotes_gold(text)]


@table("evaluator", EVALUATORS)
async def test_functions_as_agent_reset_and_reflector_get_the_public_task(evaluator):
    seen: list[Task] = []
    shown: list[str] = []

    async def agent(task: Task) -> str:
        seen.append(task)
        return "Marvin"

    async def reset(task, session):
        seen.append(task)

    def reflect(task, trials):
        seen.append(task)
        shown.append(repr(trials))
        return "look left"

    agent.reset = reset
    await Reflexion(agent, evaluator=_once_judged(evaluator), reflector=reflect).run(TASK)
    assert len(seen) >= 3 + 2 + 2
    assert not [text for text in shown if quotes_gold(text)]
    assert {task.reference for task in seen} == {None}
    assert {task.id for task in seen} == {TASK.id}


@given(st.text(min_size=1).filter(str.strip), st.text(max_size=20), st.text(max_size=20))
def test_a_quoted_reference_is_withheld_whatever_it_is(gold, before, after):
    public = Evaluation(0.0, rationale=f"{before} «{gold}» {after}").public(gold)
    assert f"«{gold}»" not in public.rationale


@given(st.sampled_from([True, False, None]), st.text(max_size=40))
def test_a_reference_without_words_withholds_nothing(reference, text):
    assert Evaluation(0.0, rationale=text).public(reference).rationale == text


async def test_a_lesson_store_gets_the_public_task():
    seen: list[Task] = []

    class Store(VectorLessonStore):
        async def recall(self, task, *, k, run_id="", attempt=0, skip_run=""):
            seen.append(task)
            return await super().recall(task, k=k, run_id=run_id, attempt=attempt, skip_run=skip_run)

        async def record(self, task, reflection, *, provenance):
            seen.append(task)
            return await super().record(task, reflection, provenance=provenance)

    store = Store(InMemoryVectorStore(HashingEmbedder(), namespace="tests"))
    reflect = as_reflector(lambda task, trials: "look left")
    await Reflexion(lambda prompt: "a", evaluator=unmarked, reflector=reflect, lesson_store=store).run(TASK)
    assert len(seen) == 6
    assert {task.reference for task in seen} == {None}


@table("quote", [repr, json.dumps, str.upper, lambda gold: gold.replace("\n", "  \n ")])
def test_a_reference_is_withheld_however_it_is_quoted(quote):
    gold = 'it\'s "two"\nlines'
    public = Evaluation(0.0, rationale=f"expected {quote(gold)}").public(gold)
    assert "two" not in public.rationale.casefold()


def test_parts_of_longer_words_stay():
    public = Evaluation(0.0, rationale="the cat sat on the concatenation").public("cat")
    assert public.rationale == "the [withheld] sat on the concatenation"
