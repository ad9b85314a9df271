"""Lets your model try, judge and reflect, and shows the events as they happen.

    python main.py "Name the four largest moons of Jupiter" --model llama3:8b --base-url http://localhost:11434/v1
    python main.py --scripted          # no model: the replies are written below

Any OpenAI-compatible endpoint works; the key comes from OPENAI_API_KEY.
"""

import argparse

import anyio

from jeeves_reflexion import ChatModel, OpenAIModel, Reflexion, ScriptedModel
from jeeves_reflexion.events import AttemptFinished, Evaluated, LessonProduced, ModelCalled

TASK = "Name the four largest moons of Jupiter."
SCRIPT = [
    "Io, Europa and Titan.",
    "score: 0.3\nTitan is a moon of Saturn, and one is missing.",
    "Name the Galilean moons of Jupiter, all four, and check that none belongs to another planet.",
    "Io, Europa, Ganymede and Callisto.",
    "score: 1.0\nAll four, and no other.",
]


async def follow(reflexion: Reflexion, task: str) -> None:
    async with reflexion.stream(task) as events:
        async for event in events:
            match event:
                case ModelCalled(role=role, usage=usage):
                    print(f"    ({role} used {usage.tokens} tokens)")
                case AttemptFinished(attempt=number, output=output):
                    print(f"Attempt {number}: {output}")
                case Evaluated(score=score, passed=passed):
                    print(f"  score {score}: {'passed' if passed else 'failed'}")
                case LessonProduced(lesson=lesson):
                    print(f"  lesson: {lesson}")
    print(f"{events.result.stop_reason} after {len(events.result.trials)} attempts: {events.result.output}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", nargs="?", default=TASK)
    parser.add_argument("--model", default="gpt-4o-mini")
    parser.add_argument("--base-url")
    parser.add_argument("--scripted", action="store_true")
    given = parser.parse_args()
    model: ChatModel = (
        ScriptedModel(SCRIPT) if given.scripted else OpenAIModel(given.model, base_url=given.base_url)
    )
    anyio.run(follow, Reflexion(model=model), given.task)


if __name__ == "__main__":
    main()
