"""Something that is done to several lessons is done to all of them in one write, or to none."""

from __future__ import annotations

import pytest

from jeeves_reflexion import LessonStoreError, Provenance, Reflection, Task
from jeeves_reflexion.errors import ConfigurationError, UnknownLessonError
from jeeves_reflexion.lessons.curation import Curator
from vectorstores import VectorStoreError

pytestmark = pytest.mark.anyio

TEXTS = (
    "Wash the mug in the sink before you carry it anywhere.",
    "Heat the potato in the microwave, not in the oven.",
    "Compare the prices of both stations before paying.",
)


async def learn(lessons):
    return [
        (
            await lessons.record(
                Task(f"task {n}"), Reflection(text), provenance=Provenance(f"run{n}", 1, 0.0)
            )
        ).id
        for n, text in enumerate(TEXTS)
    ]


async def states(lessons):
    return [lesson.state async for lesson in lessons.repository.each()]


@pytest.mark.parametrize(
    ("propose", "deeds"), [(True, ("approve", "retire", "restore")), (True, ("reject", "restore"))]
)
async def test_it_is_one_write_with_an_entry_in_each_history(make, monkeypatch, propose, deeds):
    async with make(propose=propose) as lessons:
        ids = await learn(lessons)
        curator = Curator(lessons.repository, by="ada")
        for number, deed in enumerate(deeds, 2):
            before, add, writes = await states(lessons), lessons.store.add, []

            async def failing(*args, **more):
                raise VectorStoreError("the power went")

            async def counting(*args, _add=add, _writes=writes, **more):
                _writes.append(1)
                return await _add(*args, **more)

            monkeypatch.setattr(lessons.store, "add", failing)
            with pytest.raises(LessonStoreError, match="the power went"):
                await curator.decide(deed, ids, reason="so it is")
            assert await states(lessons) == before
            monkeypatch.setattr(lessons.store, "add", counting)
            decided = await curator.decide(deed, ids, reason="so it is")
            assert len(writes) == 1
            assert [each.id for each in decided] == ids
            assert set(await states(lessons)) == {"active" if deed in ("approve", "restore") else "retired"}
            for each in ids:
                history = await curator.history(each)
                assert len(history) == number
                assert (history[-1].operation, history[-1].by) == (deed, "ada")
                assert "so it is" in history[-1].reason
            monkeypatch.setattr(lessons.store, "add", add)


async def test_nothing_is_done_where_it_can_not_be_done_to_all(make):
    async with make() as lessons:
        ids = await learn(lessons)
        curator = Curator(lessons.repository)
        with pytest.raises(UnknownLessonError, match="there is no lesson 'nobody'"):
            await curator.decide("retire", [*ids, "nobody"], reason="old")
        with pytest.raises(LessonStoreError, match="is active; to reject it, it must be proposed"):
            await curator.decide("reject", ids)
        with pytest.raises(ConfigurationError, match="pass the reason"):
            await curator.decide("retire", ids)
        assert await states(lessons) == ["active"] * 3
        assert await curator.decide("retire", [], reason="old") == []
