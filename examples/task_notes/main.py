"""A task that improves its own instructions: the first run writes notes, and the second reads them.

The model here is a script, so that the example runs anywhere; put your own in its place, such as
``OpenAIModel("gpt-4o-mini")``. The notes stay in ``notes.sqlite3``: run this again, and the first run has notes too.
"""

import asyncio
from collections.abc import Sequence

from jeeves_reflexion import Message, ScriptedModel
from jeeves_reflexion.events import Event
from jeeves_reflexion.tasknotes import Ensemble, SqliteReflectionStore, Task

NOTES = """\
REFINED_DESCRIPTION:
Name the four Galilean moons of Jupiter, nearest to the planet first.

REFINED_EXPECTED_OUTPUT:
Four names, separated by commas.

OBSERVATIONS:
- "Some" left open how many moons were wanted.

SUGGESTIONS:
- Say in which order they should come.
"""


def script(messages: Sequence[Message]) -> str:
    """Reflect, or answer as well as the instructions allow."""
    if "You improve the instructions" in messages[0].content:
        return NOTES
    known = "Galilean" in messages[-1].content
    return "Io, Europa, Ganymede, Callisto" if known else "Io and Ganymede, among others."


def tell(event: Event) -> None:
    if event.kind == "tasknotes.reflected":
        print(f"  reflected: {event.reflection.suggestions[0]} (reflection {event.reflection.run_count})")


async def main() -> None:
    task = Task("Name some moons of Jupiter.", expected_output="A list of names.", reflect=True)
    ensemble = Ensemble(
        ScriptedModel(script), reflection_store=SqliteReflectionStore("notes.sqlite3"), listeners=[tell]
    )
    for number in (1, 2):
        result = await ensemble.run(task)
        outcome = result.outcomes[0]
        notes = f"notes of version {outcome.version}" if outcome.version else "no notes"
        print(f"Run {number}, {notes}: {result.output}")
    print(f"The task itself is as it was: {task.description}")


asyncio.run(main())
