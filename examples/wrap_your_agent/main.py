"""Wraps your own function, so that it learns from its mistakes and avoids them in the next session.

    pip install jeeves-reflexion
    python main.py

It needs no model and no key. The lessons stay in the folder ``my-lessons``: if you run it again, the first session
needs only one attempt, too.
"""

import anyio

from jeeves_reflexion import Reflexion, RunResult, Task, Trial
from vectorstores import FaissVectorStore, HashingEmbedder


def answer(prompt: str) -> str:
    """Stands for your agent; the lessons are in the prompt, below the question."""
    return "2026-11-21" if "ISO 8601" in prompt else "21/11/2026"


def judge(output: str) -> tuple[bool, str]:
    year_first = output[:4].isdigit()
    return year_first, "the date is fine" if year_first else "the date does not begin with the year"


def lesson(task: Task, trials: list[Trial]) -> str:
    """Say what to do differently; a model would word it for each failure."""
    return f"Write dates in ISO 8601, because {trials[-1].evaluation.rationale} otherwise."


async def session(question: str) -> RunResult:
    async with FaissVectorStore("my-lessons", embedder=HashingEmbedder(), namespace="dates") as store:
        reflexion = Reflexion(answer, evaluator=judge, reflector=lesson, lesson_store=store)
        return await reflexion.run(question)


async def main() -> None:
    for number, question in enumerate(("When was the report signed?", "When was the contract signed?"), 1):
        result = await session(question)
        print(f"Session {number}: {question} {result.output}, attempts: {len(result.trials)}")
        for learned in result.lessons:
            print(f"  learned: {learned.text}")


if __name__ == "__main__":
    anyio.run(main)
