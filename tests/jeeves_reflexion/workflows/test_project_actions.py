"""Lessons and the outer loop as actions of a workflow."""

from __future__ import annotations

import pytest

from jeeves_reflexion import ConfigurationError, Reflexion, VectorLessonStore
from jeeves_reflexion.workflows import Workflow, lesson_actions, reflexion_actions
from vectorstores import HashingEmbedder, InMemoryVectorStore

pytestmark = pytest.mark.anyio

TEXT = """
nodes:
  - name: learn
    uses: lessons.record
    with: {task: "{{ state.task }}", lesson: Open the drawer before you look into it., score: 0.25}
    output: learned
  - name: recall
    uses: lessons.recall
    with: {task: "{{ state.task }}", k: 2}
  - name: try
    uses: reflexion.run
    with: {task: "{{ state.task }}"}
    output: tried
"""


def workflow(text: str = TEXT) -> Workflow:
    store = VectorLessonStore(InMemoryVectorStore(HashingEmbedder(), namespace="test"))
    answers = iter(["nothing", "a key"])
    loop = Reflexion(
        lambda prompt: next(answers),
        evaluator=lambda output: output == "a key",
        reflector=lambda task, trials: "Look.",
    )
    made = Workflow.from_text(text)
    for name, action in {**lesson_actions(store), **reflexion_actions(loop)}.items():
        made.register_action(name, action)
    return made


async def test_a_workflow_records_recalls_and_runs_the_outer_loop():
    state = await workflow().run({"task": "find the key in the drawer"})
    assert state["lessons"] == ["Open the drawer before you look into it."]
    assert state["learned"]["lesson"] == state["lessons"][0]
    assert (state["tried"]["output"], state["tried"]["passed"], state["tried"]["attempts"]) == (
        "a key",
        True,
        2,
    )


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("{task: ' '}", "task: must be a text that is not empty"),
        ("{task: x, k: 0}", "k: must be at least 1, not 0"),
        ("{task: x, kk: 1}", "unknown key 'kk'"),
        ("{}", "task is missing"),
    ],
)
async def test_their_parameters_are_checked(parameters, said):
    with pytest.raises(ConfigurationError, match=said):
        await workflow(f"nodes: [{{name: a, uses: lessons.recall, with: {parameters}}}]").run()
