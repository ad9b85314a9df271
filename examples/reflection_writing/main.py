"""Writing in several drafts: the third example of the reflection pattern.

The model here is a script, so that the example runs anywhere; put your own in its place, such as
``OpenAIModel("gpt-4o-mini")``.
"""

import asyncio
from collections.abc import Sequence

from jeeves_reflexion import Message, QualityCriterion, ReAct, ReflectionPattern, ScriptedModel

FIRST = "async def makes a coroutine function, and await waits for what it returns."
SECOND = (
    "async def makes a coroutine function. Calling it runs nothing yet: await does, and lets other tasks run"
    " meanwhile."
)
DRAFTS = [
    FIRST,
    SECOND,
    f"{SECOND}\n\nFor example, two sleeps of one second in a TaskGroup take one second together, not two.",
]
SCORES = {
    "clarity": (0.6, 0.8, 0.9),
    "engagement": (0.3, 0.5, 0.9),
    "accuracy": (0.7, 0.9, 0.95),
    "structure": (0.5, 0.6, 0.9),
}
MISSING = {"engagement": "there is no example"}


def script(messages: Sequence[Message]) -> str:
    """Write, judge and revise as a model would."""
    asked = messages[-1].content
    draft = max((n for n, text in enumerate(DRAFTS) if text.split("\n")[-1] in asked), default=-1)
    if "You judge" not in messages[0].content:
        return DRAFTS[min(draft + 1, len(DRAFTS) - 1)]
    criterion = next(name for name in SCORES if f"- {name}:" in asked)
    score = SCORES[criterion][draft]
    issues = f'["{MISSING.get(criterion, "it says too little")}"]' if score < 0.7 else "[]"
    return f'{{"score": {score}, "confidence": 0.9, "issues": {issues}}}'


async def main() -> None:
    pattern = ReflectionPattern(
        max_iterations=5,
        quality_criteria=[
            QualityCriterion(name="clarity", weight=1.5),
            QualityCriterion(name="engagement", weight=1.0),
            QualityCriterion(name="accuracy", weight=2.0),
            QualityCriterion(name="structure", weight=1.0),
        ],
        revision_strategy="incremental",
        best_version_selection="highest_score",
    )

    agent = pattern.wrap(ReAct(ScriptedModel(script), system_prompt="You are a technical writer."))

    result = await agent.run("Write a tutorial explaining how async/await works in Python")

    print(f"Final draft after {result.iterations_used} iterations")
    print(f"Best score achieved: {result.history.best_version.evaluation.overall_score:.2f}")


asyncio.run(main())
