"""Would the right lesson have come back? Recall of the logged reflections from one store that all questions share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.hotpotqa.replay_log import LoggedRun
from benchmarks.hotpotqa.replay_play import task_of
from jeeves_reflexion import LessonSettings, Provenance, Reflection, Task, VectorLessonStore
from jeeves_reflexion.errors import LessonRefusedError
from jeeves_reflexion.lessons.records import Key
from jeeves_reflexion.statistics import Share, wilson
from vectorstores import Embedder, InMemoryVectorStore

KS = (1, 3, 5)


@dataclass(frozen=True, slots=True)
class RecallFigures:
    """How often a reflection of a question's own earlier trials was among the ``k`` recalled before a later trial.

    ``pairs`` counts questions and later trials, ``questions`` those questions that it came back to in all their later
    trials. ``offered`` is how many lessons were offered on average, ``own`` which share of them was the question's own.
    ``whole`` says that the store held all reflections of the run, later ones of other questions too; else those of the
    trials before. ``stored`` is how many lessons it held at the end, after near-copies were merged;
    ``refused`` counts the reflections that the gate did not let in, which are there for no recall.
    """

    key: Key
    whole: bool
    k: int
    pairs: Share
    questions: Share
    offered: float
    own: float
    stored: int
    refused: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """One recall: for which question, how many lessons it offered, and how many of them were its own."""

    question: str
    offered: int
    own: int


async def measure_recall(
    run: LoggedRun, embedder: Embedder, *, keys: Sequence[Key] = ("task", "lesson"), ks: Sequence[int] = KS
) -> list[RecallFigures]:
    """Measure a run by the default recall, found by task (the default) and by the lesson's own text.

    Lessons are stored in the order of the log, trial by trial. Returns nothing for a run without reflections that a
    later trial could have used.
    """
    found: list[RecallFigures] = []
    for key in keys:
        shelf = _Shelf(run, embedder, key)
        growing: dict[int, list[_Asked]] = {k: [] for k in ks}
        for trial in range(2, run.n_trials + 1):
            await shelf.learn(trial - 1)
            for k in ks:
                growing[k] += [await shelf.ask(task, trial, k) for task in shelf.later(trial)]
        whole = {
            k: [
                await shelf.ask(task, trial, k)
                for trial in range(2, run.n_trials + 1)
                for task in shelf.later(trial)
            ]
            for k in ks
        }
        stored = await shelf.close()
        for is_whole, asked in ((False, growing), (True, whole)):
            found += [
                _figures(key, whole=is_whole, k=k, asked=asked[k], stored=stored, refused=shelf.refused)
                for k in ks
                if asked[k]
            ]
    return found


class _Shelf:
    """The reflections of a run in one lesson store with default settings but for the key."""

    def __init__(self, run: LoggedRun, embedder: Embedder, key: Key) -> None:
        self._run = run
        self._tasks = {question.id: task_of(question).public() for question in run.questions}
        self._own: dict[str, list[tuple[int, str]]] = {}
        store = InMemoryVectorStore(embedder, namespace="lessons")
        self.refused = 0
        self._lessons = VectorLessonStore(store, settings=LessonSettings(key=key))

    async def learn(self, trial: int) -> None:
        """Store what was reflected after a trial; one that is not let in is counted, and can't be recalled."""
        for question in self._run.questions:
            for logged in question.trials:
                for text in logged.learned if logged.trial == trial else ():
                    await self._record(question.id, trial, text)

    async def _record(self, question: str, trial: int, text: str) -> None:
        source = Provenance(question, trial, 0.0, self._run.model, created_at=float(trial))
        try:
            lesson = await self._lessons.record(self._tasks[question], Reflection(text), provenance=source)
        except LessonRefusedError:
            self.refused += 1
        else:
            self._own.setdefault(question, []).append((trial, lesson.id))

    def later(self, trial: int) -> list[Task]:
        """The questions that were tried again in a trial, after a reflection."""
        return [
            self._tasks[question.id]
            for question in self._run.questions
            if any(logged.trial == trial for logged in question.trials)
            and any(logged.trial < trial and logged.learned for logged in question.trials)
        ]

    async def ask(self, task: Task, trial: int, k: int) -> _Asked:
        """Recall for a trial; what the question learns only later is not its own yet."""
        own = {id for number, id in self._own.get(task.id, ()) if number < trial}
        recall = await self._lessons.recall(task, k=k)
        offered = [item.lesson.id for item in recall.offered]
        return _Asked(task.id, len(offered), sum(id in own for id in offered))

    async def close(self) -> int:
        """Close the store; return how many lessons it held."""
        count = await self._lessons.count()
        await self._lessons.close()
        return count


def _figures(
    key: Key, *, whole: bool, k: int, asked: Sequence[_Asked], stored: int, refused: int
) -> RecallFigures:
    questions = {each.question for each in asked}
    missed = {each.question for each in asked if not each.own}
    offered = sum(each.offered for each in asked)
    return RecallFigures(
        key,
        whole,
        k,
        wilson(sum(each.own > 0 for each in asked), len(asked)),
        wilson(len(questions - missed), len(questions)),
        offered / len(asked),
        sum(each.own for each in asked) / offered if offered else 0.0,
        stored,
        refused,
    )
