"""What a recall would give is what it gives, and looking leaves no trace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jeeves_reflexion import Evaluation, Provenance, Reflection, Task
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.credit.verdicts import RECALLS
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.settings import Credit

pytestmark = pytest.mark.anyio

CLEAN = Task("put a clean mug in the coffee machine", kind="clean", tools=("look",))
SIMILAR = Task("put a clean cup in the coffee machine", kind="clean")
HEAT = Task("put a hot potato on the side table", kind="heat")
SINK = "Wash the mug in the sink before you carry it anywhere."
LOOK = "Look into the cupboard for a cup before you search the drawers."
OVEN = "Heat the potato in the microwave, not in the oven."
SOURCE = Provenance("run", 1, 0.0)


async def learn(lessons, task, text):
    return await lessons.record(task, Reflection(text), provenance=SOURCE)


def known(items):
    return [(item.lesson.id, item.similarity, item.reason, item.lift) for item in items]


async def recalls(lessons):
    return len((await lessons.records.scan_records(RECALLS)).records)


@pytest.mark.parametrize("k", [1, 2])
async def test_it_is_the_recall_itself_and_notes_nothing(make, k):
    async with make() as lessons:
        for task, text in ((CLEAN, SINK), (SIMILAR, LOOK), (HEAT, OVEN)):
            await learn(lessons, task, text)
        said = await lessons.explain(CLEAN, k=k)
        assert await recalls(lessons) == 0
        done = await lessons.recall(CLEAN, k=k)
        assert known(said.offered) == known(done.offered)
        assert known(said.left_out)[: len(done.left_out)] == known(done.left_out)


async def test_what_is_not_looked_at_is_named_with_its_reason(make):
    async with make(min_similarity=0.3) as lessons:
        sink, look, oven = [
            await learn(lessons, *pair) for pair in ((CLEAN, SINK), (SIMILAR, LOOK), (HEAT, OVEN))
        ]
        await Curator(lessons.repository).retire(look.id, reason="no cupboard here")
        waiting = make(min_similarity=0.3, propose=True)
        proposed = await learn(waiting, CLEAN, "Ask for a saucer as soon as the coffee runs.")
        said = await lessons.explain(CLEAN, k=3)
        assert [item.lesson.id for item in said.offered] == [sink.id]
        reasons = {item.lesson.id: item.reason for item in said.left_out}
        assert reasons == {
            oven.id: "below the floor of 0.30",
            look.id: "retired: no cupboard here",
            proposed.id: "waits for review",
        }
        await waiting.close()


@pytest.mark.parametrize("key", ["task", "lesson", "both"])
async def test_a_retired_lesson_is_found_as_it_would_be_recalled(make, key):
    async with make(min_similarity=0.6, key=key) as lessons:
        lesson = await learn(lessons, CLEAN, SINK)
        await Curator(lessons.repository).retire(lesson.id, reason="old")
        by_task = (await lessons.explain(CLEAN, k=1)).left_out
        by_text = (await lessons.explain(Task(SINK), k=1)).left_out
        assert bool(by_task) == (key != "lesson")
        assert bool(by_text) == (key != "task")


async def test_a_lesson_that_harms_is_named_and_left_as_it_is(make):
    credit = Credit(Withholding(0.5, seed=3, whole_share=0.0), max_age=0.0)
    async with make(credit=replace(credit, retire=False)) as lessons:
        lesson = await learn(lessons, CLEAN, SINK)
        for n in range(40):
            recall = await lessons.recall(CLEAN, k=3, run_id=f"run{n}", attempt=1)
            await lessons.outcome(recall.id, Evaluation(0.0 if recall.offered else 1.0))
    async with make(credit=credit) as lessons:
        said = await lessons.explain(CLEAN, k=3)
        assert said.offered == ()
        (item,) = said.left_out
        assert item.lesson.id == lesson.id
        assert item.reason.startswith("to be retired: attempts score lower with it")
        assert item.lift.value < 0
        assert (await lessons.get(lesson.id)).state == "active"
        assert await recalls(lessons) == 40
        # And so it is, once a recall is made.
        assert (await lessons.recall(CLEAN, k=3)).offered == ()
        assert (await lessons.get(lesson.id)).state == "retired"


async def test_nothing_is_withheld_by_a_draw(make):
    async with make(credit=Credit(Withholding(0.5, seed=3))) as lessons:
        lesson = await learn(lessons, CLEAN, SINK)
        for _ in range(10):
            said = await lessons.explain(CLEAN, k=3)
            assert [item.lesson.id for item in said.offered] == [lesson.id]
            assert said.withheld == ()


async def test_the_settings_own_filter_holds(make):
    async with make(where=lambda task: {"task_id": task.id}) as lessons:
        sink = await learn(lessons, CLEAN, SINK)
        await learn(lessons, SIMILAR, LOOK)
        said = await lessons.explain(CLEAN, k=3)
        assert [item.lesson.id for item in (*said.offered, *said.left_out)] == [sink.id]


async def test_a_recall_says_itself_what_it_read_and_did_not_offer(make):
    async with make(min_similarity=0.3, credit=Credit(Withholding(share=0.5, seed=2))) as lessons:
        (sink, look, oven) = [
            await learn(lessons, *pair) for pair in ((CLEAN, SINK), (SIMILAR, LOOK), (HEAT, OVEN))
        ]
        recall = await lessons.recall(CLEAN, k=1, run_id="run", attempt=1)
        assert [item.reason for item in recall.left_out] == ["1 better one", "below the floor of 0.30"]
        assert [item.lesson.id for item in recall.left_out] == [look.id, oven.id]
        assert all(item.lift is not None for item in recall.left_out)
        assert {item.lesson.id for item in (*recall.offered, *recall.withheld)} == {sink.id}
        far = await lessons.recall(HEAT, k=1)
        assert [item.reason for item in far.left_out] == ["below the floor of 0.30"]


async def test_a_recall_reads_no_more_for_what_is_below_the_floor(make, monkeypatch):
    async with make(min_similarity=0.9) as lessons:
        for number in range(30):
            await learn(
                lessons, Task(f"{CLEAN.prompt} of kitchen {number}"), f"Turn left in kitchen {number}."
            )
        asked = []
        search = lessons.store.search

        async def counted(*given, **named):
            asked.append(named["k"])
            return await search(*given, **named)

        monkeypatch.setattr(lessons.store, "search", counted)
        recall = await lessons.recall(HEAT, k=2)
        assert not recall.offered
        assert len(recall.left_out) == 2
        assert asked == [3]
