"""What the tests of task notes share: records, strategies without a model, stores that can less, and a listener."""

from __future__ import annotations

import json
from datetime import datetime

from jeeves_reflexion.tasknotes import ReflectionInput, TaskReflectedEvent, TaskReflection

REPLY = """\
REFINED_DESCRIPTION:
Research three trends in AI.

REFINED_EXPECTED_OUTPUT:
A report with three headings.

OBSERVATIONS:
- The report was long.
- It had no sources.

SUGGESTIONS:
- Ask for sources.
- Bound the length.
"""


def noted(text: str = "Do it well.", *observations: str) -> TaskReflection:
    return TaskReflection.of_first_run(text, "A report.", observations or ("It was long.",), ("Be brief.",))


class Counting:
    """Reflects without a model: says how often it was asked."""

    def __init__(self) -> None:
        self.given: list[ReflectionInput] = []

    async def reflect(self, given: ReflectionInput) -> TaskReflection:
        self.given.append(given)
        prior = given.prior_reflection
        text = f"{given.description} (better, {len(self.given)})"
        return noted(text) if prior is None else TaskReflection.from_prior(prior, text, "A report.")


class TwoMethods:
    """A store with the seed's two methods alone, sync."""

    def __init__(self) -> None:
        self.kept: dict[str, TaskReflection] = {}

    def store(self, task_identity: str, reflection: TaskReflection) -> None:
        self.kept[task_identity] = reflection

    def retrieve(self, task_identity: str) -> TaskReflection | None:
        return self.kept.get(task_identity)


class SixFields(TwoMethods):
    """A store that keeps the six fields of seed 000 as rows of text, as a table made after the seed does."""

    def store(self, task_identity: str, reflection: TaskReflection) -> None:
        names = ("refined_description", "refined_expected_output", "observations", "suggestions", "run_count")
        fields = {name: getattr(reflection, name) for name in names}
        self.kept[task_identity] = json.dumps({**fields, "reflected_at": reflection.reflected_at.isoformat()})

    def retrieve(self, task_identity: str) -> TaskReflection | None:
        if task_identity not in self.kept:
            return None
        fields = json.loads(self.kept[task_identity])
        return TaskReflection(**{**fields, "reflected_at": datetime.fromisoformat(fields["reflected_at"])})


class Broken:
    """A store that fails, on reading, on writing or both."""

    def __init__(self, *, reads: bool = False, writes: bool = False) -> None:
        self.reads, self.writes = reads, writes

    async def store(self, task_identity: str, reflection: TaskReflection) -> None:
        if not self.writes:
            raise OSError("the disk is gone, password=hunter2secret")

    async def retrieve(self, task_identity: str) -> TaskReflection | None:
        if not self.reads:
            raise OSError("the disk is gone")
        return None


class Heard(list):
    async def __call__(self, event):
        self.append(event)

    @property
    def reflected(self):
        return [event for event in self if isinstance(event, TaskReflectedEvent)]

    @property
    def warnings(self):
        return [event.message for event in self if event.kind == "reflexion.warned"]
