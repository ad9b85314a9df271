"""Reflection with a validator of your own: the second example of the reflection pattern.

The model here is a script, so that the example runs anywhere; put your own in its place, such as
``OpenAIModel("gpt-4o-mini")``.
"""

import ast
import asyncio
from collections.abc import Sequence

from jeeves_reflexion import Message, QualityCriterion, ReAct, ReflectionPattern, ScriptedModel


def syntax_validator(code: str) -> tuple[bool, str]:
    """Validate Python syntax."""
    try:
        ast.parse(code)
        return True, "Valid syntax"  # noqa: TRY300 - as the pattern's description prints it
    except SyntaxError as e:
        return False, f"Syntax error: {e}"


def script(messages: Sequence[Message]) -> str:
    """Write, judge and revise as a model would."""
    if "You judge" in messages[0].content:
        return '{"score": 0.9, "confidence": 0.8, "issues": []}'
    told = "Syntax error" in messages[-1].content
    return (
        "def greet(name):\n    print(f'hello {name}')"
        if told
        else "def greet(name)\n    print(f'hello {name}')"
    )


async def main() -> None:
    criteria = [
        QualityCriterion(
            name="syntax",
            evaluator="function",
            evaluator_config={"function": syntax_validator},
        ),
        QualityCriterion(name="correctness"),  # LLM evaluation
    ]

    pattern = ReflectionPattern(quality_criteria=criteria)

    agent = pattern.wrap(ReAct(ScriptedModel(script)))

    result = await agent.run("Write a function that greets someone by name")

    for version in result.history.versions:
        print(f"{version.evaluation.overall_score:.2f} {version.evaluation.issues}")
    print(result.best_output)


asyncio.run(main())
