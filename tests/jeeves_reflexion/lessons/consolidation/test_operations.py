"""What a model proposes is held against the lessons, the plan so far, and what was measured."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import Lesson, Provenance
from jeeves_reflexion.lessons.consolidation.consolidators import (
    LLMConsolidator,
    RuleConsolidator,
    parse,
)
from jeeves_reflexion.lessons.consolidation.plans import Operation, Proposals, plan
from jeeves_reflexion.models import ScriptedModel
from jeeves_reflexion.types import Lift

pytestmark = pytest.mark.anyio

SINK = Lesson("sink", "Wash the mug in the sink.", "t", "task", Provenance("run", 1, 0.0))
TWICE = replace(SINK, id="twice", text="Wash the mug in the sink twice.")
DRY = replace(SINK, id="dry", text="Dry the mug before you put it on the shelf.")
GROUP = [SINK, TWICE, DRY]

GOOD = Lift(0.3, 0.1, 0.5, 40, 40)
BAD = Lift(-0.3, -0.5, -0.1, 40, 40)


def proposing(*operations: Operation):
    async def consolidator(_):
        return Proposals(operations)

    return consolidator


async def refusals(*operations: Operation, group=GROUP) -> list[str]:
    return [each.why for each in (await plan([group], proposing(*operations))).refused]


@pytest.mark.parametrize("other", [{"agent": "another"}, {"kind": "heat"}])
async def test_lessons_of_other_agents_or_kinds_are_not_merged(other):
    theirs = replace(
        TWICE,
        task_kind=other.get("kind"),
        provenance=replace(TWICE.provenance, agent=other.get("agent")),
    )
    (why,) = await refusals(Operation("merge", ("sink", "twice")), group=[SINK, theirs])
    assert "different agents, writers or kinds of task" in why
    same = replace(theirs, text=SINK.text)
    assert (await RuleConsolidator()([SINK, same])).operations == ()


async def test_a_long_reason_is_cut():
    operation = Operation("retire", ("sink",), "wrong " * 10_000)
    (step,) = (await plan([GROUP], proposing(operation))).steps
    assert len(step.after[0].state_reason) <= 300


def reply(**operation) -> str:
    return json.dumps({"operations": [operation]})


@pytest.mark.parametrize(
    ("operation", "lift", "why"),
    [
        ({"op": "retire", "ids": ["L1"], "reason": "I say so"}, GOOD, "attempts go better with lesson sink"),
        ({"op": "merge", "ids": ["L1", "L2"]}, BAD, "attempts go worse with lesson sink"),
        ({"op": "retire", "ids": ["L1"], "reason": "I say so"}, BAD, None),
        ({"op": "contradict", "ids": ["L1", "L2"]}, GOOD, None),
        ({"op": "retire", "ids": ["L2"], "reason": "I say so"}, GOOD, None),
    ],
)
async def test_a_model_is_not_followed_against_what_was_measured(operation, lift, why):
    model = ScriptedModel([reply(**operation)])
    known = {"sink": lift}
    consolidator = LLMConsolidator(model, known=lambda lesson: known.get(lesson.id, Lift()))
    proposals = await consolidator(GROUP)
    assert [each.why.startswith(why or "?") for each in proposals.refused] == ([True] if why else [])
    assert len(proposals.operations) == (0 if why else 1)


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=9)
    | st.sampled_from(["L1", "L2", "merge", "add"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["op", "ids", "text", "reason", "state"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(st.lists(JSONS, max_size=6))
def test_whatever_a_model_answers_is_an_operation_or_refused_with_the_reason(entries):
    read = parse(json.dumps({"operations": entries}), {"L1": "sink", "L2": "twice"})
    assert not isinstance(read, str)
    assert len(read.operations) + len(read.refused) == len(entries)
    assert all(set(each.ids) <= {"sink", "twice"} for each in read.operations)
    assert all(each.why for each in read.refused)


async def test_a_consolidator_can_be_pickled_for_another_process():
    again = pickle.loads(pickle.dumps(RuleConsolidator()))
    assert await again(GROUP) == await RuleConsolidator()(GROUP)
