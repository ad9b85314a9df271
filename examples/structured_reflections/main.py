"""Keeps structured reflections as Markdown files that people read, and shows the relevant ones to the next run.

    pip install jeeves-reflexion
    python main.py

It needs no model and no key: the reflector's answer is scripted. The files are in ``memory/reflections``: read them,
edit them, run it again.
"""

import json

import anyio

from jeeves_reflexion import Reflexion, ScriptedModel, Task
from jeeves_reflexion.reflections.journal import ReflectionJournal
from jeeves_reflexion.reflections.library import ReflectionLibrary

REFLECTION = {
    "what_happened": "The listings were to be fetched; the run ended with a parser error.",
    "what_went_wrong": "Step 2: the body of a 503 response was given to the JSON parser.",
    "cause": "strategy",
    "why": "The body was parsed before the status was looked at.",
    "do_differently": "Look at the status first, and ask again after a 5xx.",
    "tactical_rule": "Always validate API response status before parsing the body.",
    "important": True,
    "rule": "Look at how a call ended before you use what it returned.",
    "steps": [],
    "evidence": [],
}


def scraper(prompt: str) -> str:
    """Stands for your agent; what it should remember stands in the prompt."""
    return "42 listings" if "validate API response status" in prompt else "JSONDecodeError"


def judge(output: str) -> bool:
    return "listings" in output


async def main() -> None:
    journal = ReflectionJournal()  # below memory/reflections
    loop = Reflexion(
        scraper,
        evaluator=judge,
        reflector=ScriptedModel([json.dumps(REFLECTION)]),
        lesson_store=ReflectionLibrary(journal, agent="scraper"),
        preset="structured_reflections",
    )
    for city in ("Vienna", "Lyon"):
        # A run that fails without its reflection leaves it owed: the next one would raise ReflectionOwedError.
        result = await loop.run(
            Task(f"Fetch the listings of {city}", kind="web scraping", tools=("http_get",))
        )
        print(f"{city}: {result.output}, attempts: {len(result.trials)}")
    for stored in journal.list("scraper").stored:
        name = stored.path.name.removeprefix(stored.entry.date.isoformat())
        print(f"{stored.path.parent.as_posix()}/...{name}")
        print(f"  {stored.entry.reflection.fields['why']}")
        print(f"  {stored.entry.reflection.principle}")


if __name__ == "__main__":
    anyio.run(main)
