"""A stranger's lesson can't have an own one say its words, or end; one answer that can't be read spoils no plan."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from jeeves_reflexion import Lesson, Provenance
from jeeves_reflexion.errors import ModelTimeoutError
from jeeves_reflexion.lessons.consolidation.consolidators import LLMConsolidator
from jeeves_reflexion.lessons.consolidation.plans import Operation, Proposals, plan
from jeeves_reflexion.models import ScriptedModel

pytestmark = pytest.mark.anyio

OWN = Lesson("own", "Wash the mug in the sink.", "t", "task", Provenance("run", 1, 0.0))
OTHER = replace(OWN, id="other", text="Wash the mug in the sink twice.")
SHARED = replace(OWN, id="shared", text="Wash the mug in the deep sink.", trust="shared")
THEIRS = replace(OWN, id="theirs", text="Wash the mug in the bath.", trust="imported")


def proposing(*operations: Operation):
    async def consolidator(_):
        return Proposals(operations)

    return consolidator


@pytest.mark.parametrize(
    "operation", [Operation("retire", ("own",), "the bath is better"), Operation("merge", ("own", "other"))]
)
async def test_lessons_of_mixed_trust_change_none_of_each_other(operation):
    planned = await plan([[OWN, OTHER, SHARED, THEIRS]], proposing(operation))
    assert planned.steps == ()
    (refused,) = planned.refused
    assert "these lessons are of different trust" in refused.why
    assert [step.operation for step in (await plan([[OWN, OTHER]], proposing(operation))).steps] == [
        operation
    ]


def reply(**operation) -> str:
    return json.dumps({"operations": [operation]})


async def test_an_answer_that_can_not_be_read_costs_its_own_cluster_alone():
    model = ScriptedModel(
        [
            reply(op="retire", ids=["L1"], reason="x"),
            "no JSON",
            "still none",
            reply(op="retire", ids=["L2"], reason="x"),
        ]
    )
    groups = [
        [replace(OWN, id=f"{name}1"), replace(OTHER, id=f"{name}2")] for name in ("first", "bad", "last")
    ]
    planned = await plan(groups, LLMConsolidator(model))
    assert [step.operation.ids for step in planned.steps] == [("first1",), ("last2",)]
    (refused,) = planned.refused
    assert refused.proposal == "the answer about bad1, bad2"
    assert "refused twice: it holds no JSON object" in refused.why
    assert "bad1, bad2" in str(planned)


async def test_a_model_that_fails_half_way_loses_no_answer_that_it_gave():
    groups = [
        [replace(OWN, id=f"{name}1"), replace(OTHER, id=f"{name}2")] for name in ("first", "second", "third")
    ]
    model = ScriptedModel(
        [reply(op="retire", ids=["L1"], reason="x"), ModelTimeoutError("no answer in 30 s")]
    )
    planned = await plan(groups, LLMConsolidator(model))
    assert [step.operation.ids for step in planned.steps] == [("first1",)]
    assert isinstance(planned.stopped, ModelTimeoutError)
    (refused,) = planned.refused
    assert refused.proposal == "2 of 3 groups of lessons"
    assert "not looked at: no answer in 30 s" in refused.why
    assert len(model.calls) == 2
    # Where nothing was answered, there is nothing to keep.
    with pytest.raises(ModelTimeoutError):
        await plan(groups, LLMConsolidator(ScriptedModel([ModelTimeoutError("no answer in 30 s")])))
