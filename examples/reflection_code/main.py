"""Basic reflection for code generation: the first example of the reflection pattern.

The model here is a script, so that the example runs anywhere; put your own in its place, such as
``OpenAIModel("gpt-4o-mini")``.
"""

import asyncio
from collections.abc import Sequence

from jeeves_reflexion import Message, QualityCriterion, ReAct, ReflectionPattern, ScriptedModel

FIRST = """def longest_palindrome(text):
    best = ""
    for i in range(len(text)):
        for j in range(i, len(text)):
            part = text[i : j + 1]
            if part == part[::-1] and len(part) > len(best):
                best = part
    return best"""

EDIT = """<<<<<<< SEARCH
    best = ""
    for i in range(len(text)):
        for j in range(i, len(text)):
            part = text[i : j + 1]
            if part == part[::-1] and len(part) > len(best):
                best = part
    return best
=======
    best = ""
    for middle in range(len(text)):
        for start, end in ((middle, middle), (middle, middle + 1)):
            while start >= 0 and end < len(text) and text[start] == text[end]:
                start, end = start - 1, end + 1
            best = max(best, text[start + 1 : end], key=len)
    return best
>>>>>>> REPLACE"""


def script(messages: Sequence[Message]) -> str:
    """Write, judge and revise as a model would."""
    system, asked = messages[0].content, messages[-1].content
    if "You judge" in system:
        slow = "for j in range" in asked and "Judge" in asked and "efficiency" in asked
        if slow:
            return '{"score": 0.4, "confidence": 0.9, "issues": ["every substring is copied and reversed: cubic time"]}'
        return '{"score": 0.95, "confidence": 0.9, "issues": []}'
    return EDIT if "SEARCH" in system + asked else FIRST


async def main() -> None:
    criteria = [
        QualityCriterion(name="correctness", weight=2.0),
        QualityCriterion(name="efficiency", weight=1.0),
        QualityCriterion(name="readability", weight=1.0),
        QualityCriterion(name="edge_cases", weight=1.5),
    ]

    pattern = ReflectionPattern(
        max_iterations=4,
        quality_criteria=criteria,
        quality_threshold=0.85,
        revision_strategy="targeted_edit",
    )

    agent = pattern.wrap(ReAct(ScriptedModel(script), system_prompt="You are an expert Python developer."))

    result = await agent.run("Write a function to find the longest palindromic substring")

    # View the improvement journey
    for version in result.history.versions:
        print(f"Iteration {version.iteration}: Score {version.evaluation.overall_score:.2f}")
        print(f"  Issues: {version.evaluation.issues}")


asyncio.run(main())
