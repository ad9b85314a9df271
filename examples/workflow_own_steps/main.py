"""The same loop without YAML, and a workflow with its own action that routes by the verdict."""

import asyncio

from jeeves_reflexion.workflows import Workflow, reflection_loop

ROUTES = """
name: greeting
nodes:
  - name: greet
    uses: own.greet
    with: {who: "{{ state.who }}"}
  - name: judge
    uses: reflection.evaluate
    with:
      data: "{{ state.greeting }}"
      schema: {type: string, minLength: 12}
    output: verdict
    goto:
      - when: state.verdict.valid
        to: __end__
      - when: state.tries < 3
        to: greet
"""


def greet(state: dict, parameters: dict) -> dict:
    tries = state.get("tries", 0) + 1
    return {"tries": tries, "greeting": "Hello, " + " and ".join([parameters["who"]] * tries)}


def longer(state: dict) -> str:
    return state["reflection_output"] + "!"


async def main() -> None:
    result = await reflection_loop(
        {"word": "go"},
        generator=lambda state: state["word"],
        evaluator=lambda output, state: {"valid": len(output) > 3, "score": min(len(output) / 4, 1.0)},
        corrector=longer,
    )
    print([entry["output"] for entry in result["reflection_history"]], result["success"])

    workflow = Workflow.from_text(ROUTES)
    workflow.register_action("own.greet", greet)
    state = await workflow.run({"who": "Ada"})
    print(state["tries"], state["greeting"])


asyncio.run(main())
