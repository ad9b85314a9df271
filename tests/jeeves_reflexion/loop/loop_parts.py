"""Small agents, evaluators and reflectors for the tests of the loop, and what the tests read off a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jeeves_reflexion import (
    Attempt,
    Evaluation,
    LessonSettings,
    Reflection,
    Reflexion,
    Session,
    Task,
    Trial,
    VectorLessonStore,
)
from jeeves_reflexion.events import Event
from vectorstores import HashingEmbedder, InMemoryVectorStore

BLOCK = "reflexion_lessons"


def lesson_store(**settings) -> VectorLessonStore:
    """A lesson store in memory, with these settings."""
    under = InMemoryVectorStore(HashingEmbedder(), namespace="tests")
    return VectorLessonStore(under, settings=LessonSettings(**settings))


class Player:
    """An agent that gives the outputs of a script in turn, the last one again, and keeps what it was given."""

    name = "player"

    def __init__(self, *outputs: str | Attempt | Exception) -> None:
        self.outputs = outputs or ("done",)
        self.tasks: list[Task] = []
        self.blocks: list[str] = []

    async def __call__(self, task: Task, session: Session) -> Attempt:
        turn = min(len(self.tasks), len(self.outputs) - 1)
        self.tasks.append(task)
        self.blocks.append(session.blocks[BLOCK])
        output = self.outputs[turn]
        if isinstance(output, Exception):
            raise output
        return output if isinstance(output, Attempt) else Attempt(output)


class Grader:
    """An evaluator that gives the scores of a script in turn, the last one again."""

    def __init__(self, *scores: float | Evaluation | Exception | None) -> None:
        self.scores = scores
        self.attempts: list[Attempt] = []

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        score = self.scores[min(len(self.attempts), len(self.scores) - 1)]
        self.attempts.append(attempt)
        if isinstance(score, Exception):
            raise score
        return score if isinstance(score, Evaluation) else Evaluation(score)


class Writer:
    """A reflector that writes ``lesson 1``, ``lesson 2`` and so on, or what a function says; keeps what it saw."""

    def __init__(self, say: Callable[[int], str] = lambda number: f"lesson {number} says look left") -> None:
        self.say = say
        self.seen: list[Sequence[Trial]] = []
        self.problems: list[str | None] = []

    async def __call__(
        self, task: Task, trials: Sequence[Trial], *, problem: str | None = None
    ) -> Reflection:
        self.seen.append(trials)
        self.problems.append(problem)
        return Reflection(self.say(len(self.seen)))


class Ear:
    """A listener that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def kinds(self) -> list[str]:
        """The kinds of the events, without their prefix."""
        return [event.kind.removeprefix("reflexion.") for event in self.events]


def heard(loop: Reflexion) -> tuple[Session, Ear]:
    """Return a session of the loop and the ear that listens to it."""
    ear = Ear()
    return loop.session(listener=ear), ear
