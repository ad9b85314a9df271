"""The lesson store with credit: draws, ranks, retires, and hears late outcomes."""

from __future__ import annotations

import pytest

from jeeves_reflexion import ConfigurationError, Evaluation, LessonStoreError, Provenance, Reflection, Task
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.settings import Credit

pytestmark = pytest.mark.anyio

TASK = Task("put a clean mug in the coffee machine", kind="clean")
SINK = "Wash the mug in the sink before you carry it anywhere."
SOURCE = Provenance("run", 1, 0.0)


def credit(share, **more):
    return Credit(Withholding(share, seed=3, whole_share=0.0), max_age=0.0, **more)


@pytest.mark.parametrize("value", [float("nan"), -1.0, -float("inf")])
def test_a_credit_that_could_not_be_given_is_refused(value):
    with pytest.raises(ConfigurationError, match="max_age must be"):
        Credit(max_age=value)


async def attempts(lessons, number, score, *, prefix="run"):
    """Make recalls, score each attempt by whether the lesson was offered, and return the recalls."""
    recalls = []
    for n in range(number):
        recall = await lessons.recall(TASK, k=3, run_id=f"{prefix}{n}", attempt=1)
        await lessons.outcome(recall.id, Evaluation(score(recall)))
        recalls.append(recall)
    return recalls


async def test_a_withheld_lesson_is_named_with_its_reason_and_not_offered(make):
    async with make(credit=credit(0.5)) as lessons:
        lesson = await lessons.record(TASK, Reflection(SINK), provenance=SOURCE)
        recalls = [await lessons.recall(TASK, k=3, run_id=f"r{n}") for n in range(20)]
        withheld = [recall for recall in recalls if recall.withheld]
        assert 0 < len(withheld) < 20
        for recall in recalls:
            assert len(recall.offered) + len(recall.withheld) == 1
        item = withheld[0].withheld[0]
        assert item.lesson.id == lesson.id
        assert item.reason.startswith("withheld by the draw; near the task")
        # The same run is drawn alike, wherever it is repeated.
        again = [await lessons.recall(TASK, k=3, run_id=f"r{n}") for n in range(20)]
        assert [recall.texts for recall in again] == [recall.texts for recall in recalls]


async def test_nothing_is_withheld_unless_asked_for(make):
    async with make() as lessons:
        await lessons.record(TASK, Reflection(SINK), provenance=SOURCE)
        recalls = [await lessons.recall(TASK, k=3, run_id=f"r{n}") for n in range(20)]
        assert all(recall.offered for recall in recalls)


async def test_a_lesson_that_harms_is_retired_with_its_reason_and_recalled_no_more(make):
    async with make(credit=credit(0.5)) as lessons:
        lesson = await lessons.record(TASK, Reflection(SINK), provenance=SOURCE)
        await attempts(lessons, 40, lambda recall: 0.0 if recall.offered else 1.0)
        last = await lessons.recall(TASK, k=3)
        assert (last.offered, last.withheld) == ((), ())
        kept = await lessons.get(lesson.id)
        assert kept.state == "retired"
        assert "attempts score lower with it" in kept.state_reason


async def test_a_lesson_that_is_forgotten_while_it_would_be_retired_stops_no_recall(make, monkeypatch):
    async with make(credit=credit(0.5, retire=False)) as lessons:
        lesson = await lessons.record(TASK, Reflection(SINK), provenance=SOURCE)
        await attempts(lessons, 40, lambda recall: 0.0 if recall.offered else 1.0)
    async with make(credit=credit(0.5)) as lessons:
        change = lessons.repository.change

        async def forgotten_first(lesson_id, *arguments):
            monkeypatch.undo()
            assert await lessons.forget(lesson_id)
            return await change(lesson_id, *arguments)

        monkeypatch.setattr(lessons.repository, "change", forgotten_first)
        recall = await lessons.recall(TASK, k=3)
        assert (recall.offered, recall.withheld, recall.left_out) == ((), (), ())
        assert await lessons.get(lesson.id) is None


async def test_with_retire_off_it_is_ranked_low_and_stays(make):
    async with make(credit=credit(0.5, retire=False)) as lessons:
        lesson = await lessons.record(TASK, Reflection(SINK), provenance=SOURCE)
        recalls = await attempts(lessons, 40, lambda recall: 0.0 if recall.offered else 1.0)
        item = [item for recall in recalls for item in recall.offered][-1]
        assert item.lift.high < 0.0  # how far below hangs on the draw, which hangs on the id
        assert "worth -" in item.reason
        assert (await lessons.get(lesson.id)).state == "active"


async def test_feedback_the_next_day_counts_instead_of_the_verdict(make):
    async with make(credit=credit(0.0)) as lessons:
        await lessons.record(TASK, Reflection(SINK), provenance=SOURCE)
        (recall,) = await attempts(lessons, 1, lambda _: 1.0)
        noted = await lessons.feedback("run0", 0.0, by="a user", reason="thumbs down")
        assert (noted.recall_id, noted.before, noted.score) == (recall.id, 1.0, 0.0)
        with pytest.raises(LessonStoreError, match="there is no run 'unknown'"):
            await lessons.feedback("unknown", 0.0)


async def test_attempts_are_compared_with_those_that_were_expected_to_score_alike(make):
    other = Task("put a hot egg in the garbage can", kind="heat")
    async with make(credit=credit(0.5, retire=False), min_similarity=-1.0) as lessons:
        lesson = await lessons.record(TASK, Reflection(SINK), provenance=SOURCE)
        for n in range(6):
            for task, score in ((TASK, 1.0), (other, 0.0)):
                recall = await lessons.recall(task, k=1, run_id=f"r{n}", attempt=1)
                await lessons.outcome(recall.id, Evaluation(score))
        page = await lessons.records.scan_records("outcomes", limit=99)
        found = [(each.value["task_id"], each.value["expected"]) for each in page.records]
        # By earlier attempts alone: the first of a task stands for nothing but a half.
        assert sorted(each for task, each in found if task == TASK.id)[:2] == [0.5, (1 + (1 + 0.5) / 2) / 2]
        assert sorted(each for task, each in found if task == other.id)[-2:] == [0.5 / 2 / 2, 0.5]
        known = await lessons.ledger.credits(max_age=0)
        assert {
            stratum: cell.sum_with + cell.sum_without
            for stratum, cell in known.tally(lesson.id).cells.items()
        } == {
            (0.5, 2.0): 1.0,
            (0.5, 4.0): 5.0,
            (0.5, 0.0): 0.0,
        }
