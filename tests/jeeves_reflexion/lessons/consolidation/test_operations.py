"""What a model proposes is held against the lessons, the plan so far, and what was measured."""

from __future__ import annotations

import json
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
from jeeves_reflexion.lessons.consolidation.operations import MOST_ADDED, Operation
from jeeves_reflexion.lessons.consolidation.plans import Proposals, plan
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


async def test_an_edit_into_the_words_of_another_lesson_is_a_merge_and_refused():
    assert await refusals(Operation("edit", ("sink",), DRY.text.upper())) == ["lesson dry says so already"]
    # A merge may speak in the words of any of its lessons.
    assert await refusals(Operation("merge", ("sink", "twice"), TWICE.text)) == []


async def test_the_same_new_lesson_is_added_once_and_few_are_added_at_all():
    said = [
        "Look for a towel first.",
        "Count the plates.",
        "Ask for the keys of the room.",
        "Close the window.",
    ]
    operations = [Operation("add", ("sink",), text) for text in said]
    again = replace(operations[0], ids=("dry",))
    assert await refusals(operations[0], again) == ["an earlier operation of this plan says so already"]
    (why,) = await refusals(*operations)
    assert f"{MOST_ADDED} new lessons are drawn from these already" in why


@pytest.mark.parametrize("other", [{"agent": "another"}, {"kind": "heat"}])
async def test_lessons_of_other_agents_or_kinds_are_not_merged(other):
    theirs = replace(
        TWICE,
        task_kind=other.get("kind"),
        provenance=replace(TWICE.provenance, agent=other.get("agent")),
    )
    (why,) = await refusals(Operation("merge", ("sink", "twice")), group=[SINK, theirs])
    assert "different agents or kinds of task" in why
    same = replace(theirs, text=SINK.text)
    assert (await RuleConsolidator()([SINK, same])).operations == ()


async def test_a_lesson_drawn_from_those_of_one_agent_is_found_by_recalls_narrowed_to_it():
    mine = [replace(each, provenance=replace(each.provenance, agent="cook")) for each in GROUP]
    adding = Operation("add", ("sink", "dry"), "Leave the kitchen as you found it.")
    (step,) = (await plan([mine], proposing(adding))).steps
    assert step.deltas[0].after.provenance.agent == "cook"
    (step,) = (await plan([[mine[0], *GROUP[1:]]], proposing(adding))).steps
    assert step.deltas[0].after.provenance.agent is None


async def test_a_long_reason_is_cut():
    operation = Operation("retire", ("sink",), reason="wrong " * 10_000)
    (step,) = (await plan([GROUP], proposing(operation))).steps
    assert len(step.deltas[0].after.state_reason) <= 300


def reply(**operation) -> str:
    return json.dumps({"operations": [operation]})


@pytest.mark.parametrize(
    ("operation", "lift", "why"),
    [
        ({"op": "retire", "ids": ["L1"], "reason": "I say so"}, GOOD, "attempts go better with lesson sink"),
        ({"op": "merge", "ids": ["L1", "L2"]}, BAD, "attempts go worse with lesson sink"),
        ({"op": "retire", "ids": ["L1"], "reason": "I say so"}, BAD, None),
        ({"op": "edit", "ids": ["L1"], "text": "Wash it."}, GOOD, None),
        ({"op": "retire", "ids": ["L2"], "reason": "I say so"}, GOOD, None),
        ({"op": "add", "ids": [], "text": "Wash it."}, GOOD, None),
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
