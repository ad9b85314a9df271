"""``python -m benchmarks.lessons.retrieval DATA``: does recall return the lessons that are relevant to a task?

The queries of a labelled set (:mod:`benchmarks.lessons.retrieval_data`) go through the real lesson store, with several
keys, floors and ways to pick lessons. Intervals come from a bootstrap over clusters; differences are paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import anyio
import click
import numpy as np

from benchmarks.lessons.embedding import Remembering
from benchmarks.lessons.retrieval_data import (
    BEARS,
    Document,
    Query,
    alfworld_lessons,
    described_queries,
    grade,
    held_out_queries,
    hotpotqa,
    read_goals,
)
from benchmarks.options import embedder_called
from benchmarks.report import counted_share, figure_text, out_option, share_of, table, write_result
from jeeves_reflexion import LessonSettings, Picking, Provenance, Reflection, Task, VectorLessonStore
from jeeves_reflexion.errors import LessonRefusedError
from jeeves_reflexion.lessons.records import Key
from jeeves_reflexion.statistics import Difference
from vectorstores import Embedder, Filter, InMemoryVectorStore

NAME: Final = "lessons_retrieval"
DEPTH: Final = 5
RESAMPLES: Final = 2000
FLOORS: Final = (-1.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_REFLECTIONS: Final = "alfworld/logged_reflections.jsonl"
_GAMES: Final = "alfworld/valid_seen_140.tar.xz"
_QUESTIONS: Final = "hotpotqa/hotpotqa_replay_cot_no_context_reflexion.jsonl"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to recall: the key, the floor, how lessons are picked, and whether equal ones are stored."""

    name: str
    key: Key = "task"
    floor: float = 0.3
    picking: Picking = Picking()  # noqa: RUF009 - frozen
    copies: bool = False


DEFAULT: Final = Way("by task, the default")
WAYS: Final = (
    DEFAULT,
    Way("equal ones kept", copies=True),
    Way("diversity 0.05", picking=Picking(diversity=0.05)),
    Way("one of 95 % alike", picking=Picking(max_likeness=0.95)),
    Way("both, the default before", picking=Picking(diversity=0.05, max_likeness=0.95)),
    Way("by the lesson's text", key="lesson"),
    Way("by both", key="both"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One recall: grades and similarities of the recalled lessons, best first, and the grades of all lessons."""

    query: str
    cluster: str
    recalled: tuple[int, ...]
    possible: tuple[int, ...]
    similarities: tuple[float, ...] = ()

    def above(self, floor: float) -> Asked:
        """Return what a floor leaves of a recall that is ordered by similarity."""
        kept = sum(similarity >= floor for similarity in self.similarities)
        return replace(self, recalled=self.recalled[:kept], similarities=self.similarities[:kept])


def ndcg(asked: Asked) -> float:
    """Normalised discounted cumulative gain at 5, gains 2^grade - 1 (Järvelin, Kekäläinen 2002)."""

    def gain(grades: Sequence[int]) -> float:
        return math.fsum((2**each - 1) / math.log2(at + 1) for at, each in enumerate(grades[:DEPTH], 1))

    best = gain(sorted(asked.possible, reverse=True))
    return gain(asked.recalled) / best if best else math.nan


def recall(asked: Asked, depth: int = DEPTH) -> float:
    """Return the relevant lessons among the first ones, divided by min(depth, relevant); NaN if none is relevant."""
    relevant = sum(each >= BEARS for each in asked.possible)
    found = sum(each >= BEARS for each in asked.recalled[:depth])
    return found / min(depth, relevant) if relevant else math.nan


def precision(asked: Asked) -> float:
    """Return the share of relevant lessons among those recalled; NaN if none was recalled."""
    found = asked.recalled[:DEPTH]
    return sum(each >= BEARS for each in found) / len(found) if found else math.nan


FIGURES: Final[Mapping[str, Callable[[Asked], float]]] = {
    "nDCG@5": ndcg,
    "recall@1": lambda asked: recall(asked, 1),
    "recall@5": recall,
    "precision": precision,
    "empty": lambda asked: float(not asked.recalled),
}


def estimates(asked: Sequence[Asked], beside: Sequence[Asked] | None = None) -> dict[str, Difference]:
    """Return all figures, or their differences from another way over the same queries.

    They have 95 % bootstrap intervals, and are NaN if nothing could be measured.
    """
    if beside is not None and [each.query for each in asked] != [each.query for each in beside]:
        raise ValueError("paired figures need the same queries in the same order")
    return {
        name: estimate(_sums(asked, of), None if beside is None else _sums(beside, of))
        for name, of in FIGURES.items()
    }


def _sums(asked: Sequence[Asked], of: Callable[[Asked], float]) -> np.ndarray[Any, Any]:
    """Return the sum and number of a figure's values by cluster, without queries for which it is undefined."""
    sums: dict[str, list[float]] = {}
    for each in asked:
        total, value = sums.setdefault(each.cluster, [0.0, 0.0]), of(each)
        if not math.isnan(value):
            total[0] += value
            total[1] += 1
    return np.array([sums[cluster] for cluster in sorted(sums)])


def estimate(sums: np.ndarray[Any, Any], beside: np.ndarray[Any, Any] | None = None) -> Difference:
    """Return the mean, given sum and number of values by cluster, minus that of ``beside``, with its interval."""
    # All figures use the same draws, so that differences are paired.
    drawn = np.random.default_rng(0).integers(len(sums), size=(RESAMPLES, len(sums)))
    every = np.arange(len(sums))[None, :]

    def ratio(of: np.ndarray[Any, Any], places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        total, number = np.moveaxis(of[places].sum(axis=1), 1, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(total / number)

    def mean(places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = ratio(sums, places)
        return found if beside is None else found - ratio(beside, places)

    value = float(mean(every)[0])
    if math.isnan(value):
        return Difference(math.nan, math.nan, math.nan)
    low, high = np.nanpercentile(mean(drawn), [2.5, 97.5])
    return Difference(value, float(low), float(high))


class Library:
    """Lessons in the real store, the same documents for each key."""

    def __init__(self, documents: Sequence[Document], embedder: Embedder) -> None:
        self.documents = documents
        self.refused = 0
        self._goals = {each.task.id: each.goal for each in documents}
        self._embedder = embedder
        self._stores: dict[tuple[Key, bool], InMemoryVectorStore] = {}

    async def ask(self, queries: Sequence[Query], way: Way) -> list[Asked]:
        """Recall for each query."""
        settings = LessonSettings(key=way.key, min_similarity=way.floor, where=_apart, picking=way.picking)
        lessons = VectorLessonStore(await self._filled(way.key, copies=way.copies), settings=settings)
        asked = []
        for query in queries:
            task = replace(query.task, metadata={"apart": query.apart})
            found = await lessons.recall(task, k=DEPTH)
            possible = (each.goal for each in self.documents if each.task.id != query.apart)
            asked.append(
                Asked(
                    query.task.id,
                    query.cluster,
                    tuple(grade(query.goal, self._goals[item.lesson.task_id]) for item in found.offered),
                    tuple(grade(query.goal, goal) for goal in possible),
                    tuple(item.similarity for item in found.offered),
                )
            )
        return asked

    async def close(self) -> None:
        """Close the stores."""
        for store in self._stores.values():
            await store.close()

    async def _filled(self, key: Key, *, copies: bool) -> InMemoryVectorStore:
        if (key, copies) not in self._stores:
            self._stores[key, copies] = store = InMemoryVectorStore(self._embedder, namespace="lessons")
            lessons = VectorLessonStore(store, settings=LessonSettings(key=key, keep_copies=copies))
            for number, each in enumerate(self.documents):
                source = Provenance(f"run{number}", 1, 0.0, created_at=1.0 + number)
                try:
                    await lessons.record(each.task, Reflection(each.text), provenance=source)
                except LessonRefusedError:
                    self.refused += 1
        return self._stores[key, copies]


def _apart(task: Task) -> Filter | None:
    apart = cast("str", task.metadata.get("apart"))
    return {"task_id": {"$ne": apart}} if apart else None


async def measure(data: Path, embedder: Embedder, *, limit: int | None = None) -> dict[str, Any]:
    """Ask every set in every way, with at most ``limit`` queries of each set."""
    lessons = alfworld_lessons(data / _REFLECTIONS, read_goals())
    questions, answers = hotpotqa(data / _QUESTIONS)
    household, other = Library(lessons, embedder), Library(answers, embedder)
    sets = {
        "log": (household, held_out_queries(lessons)[:limit]),
        "described": (household, described_queries(data / _GAMES)[:limit]),
        "questions": (other, questions[:limit]),
    }
    found: dict[str, Any] = {"embedder": embedder.id, "lessons": len(lessons), "answers": len(answers)}
    try:
        for name, (library, queries) in sets.items():
            default = await library.ask(queries, DEFAULT)
            ways = {way.name: await library.ask(queries, way) for way in WAYS}
            free = await library.ask(queries, Way("no floor", floor=-1.0))
            found[name] = {
                "queries": len(queries),
                "ways": {each: _flat(estimates(asked)) for each, asked in ways.items()},
                "beside the default": {each: _flat(estimates(a, default)) for each, a in ways.items()},
                "floors": [_flat(estimates([each.above(floor) for each in free])) for floor in FLOORS],
            }
        strangers = await household.ask(questions[:limit], Way("no floor", floor=-1.0))
        found["strangers"] = [
            counted_share(share_of(bool(each.above(floor).recalled) for each in strangers), 1)
            for floor in FLOORS
        ]
        found["refused"] = household.refused + other.refused
    finally:
        await household.close()
        await other.close()
    return found


def _flat(figures: Mapping[str, Difference]) -> dict[str, list[float]]:
    return {name: list(asdict(each).values()) for name, each in figures.items()}


_PAGE: Final = """# Recall: does it return the lessons that are relevant to a task?

**Leaving out similar lessons, the earlier default, was nowhere better than plain cosine top-k, and worse on questions**
(below). It is now off by default.

Measured by `python -m benchmarks.lessons.retrieval DATA` with {embedder}, k = 5. Lessons: {lessons} distinct
reflections of a language model after failed ALFWorld trials (noahshinn/reflexion, MIT); the gate refused {refused} of
all. The tasks of 48 environments were read off their reflections by hand. **log**: those tasks, each without
its own lessons. **described**: people's descriptions of other games (`valid_seen`, three per game). **questions**:
HotpotQA questions with {answers} reflections on them; a reflection on the same question is relevant. Grades by rule: 3
for the same kind of task, thing and place; 2 for the same kind, and thing or place; 1 for less; relevant from 2 on.
Nobody judged single lessons: this says whether recall returns lessons on the right errand, not whether they are useful.
Intervals: 95 %, bootstrap over goals (2,000 resamples); differences are paired by query. Otherwise the store has its
defaults: plain cosine top-k, equal lessons stored once. Leaving out similar lessons costs where it leaves out relevant
ones; its purpose, that k places hold k pieces of advice, is not measured here: see [ALFWorld](lessons_harm.md).

{tables}

## The floor

By task. `recalled for questions`: the share of HotpotQA's questions for which a household lesson was recalled.

{floors}
"""


def page(found: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    sets = ("log", "described", "questions")
    tables = []
    for name in sets:
        ways, apart = found[name]["ways"], found[name]["beside the default"]
        rows = [
            (
                way,
                _text(ways[way]["nDCG@5"]),
                _text(apart[way]["nDCG@5"], sign=True),
                *tuple(f"{ways[way][figure][0]:.3f}" for figure in list(FIGURES)[1:]),
            )
            for way in ways
        ]
        heads = ["found", "nDCG@5", "beside the default", *list(FIGURES)[1:]]
        tables += [f"## {name}, n = {found[name]['queries']}", "", table(heads, rows), ""]
    floors = table(
        [
            "floor",
            *(f"{name}: {figure}" for name in sets for figure in ("nDCG@5", "empty")),
            "recalled for questions",
        ],
        [
            ["none" if floor < 0 else f"{floor:.1f}"]
            + [
                f"{found[name]['floors'][at][figure][0]:.3f}"
                for name in sets
                for figure in ("nDCG@5", "empty")
            ]
            + [found["strangers"][at]]
            for at, floor in enumerate(FLOORS)
        ],
    )
    return _PAGE.format(**found, tables="\n".join(tables).rstrip(), floors=floors)


def _text(figure: Sequence[float], *, sign: bool = False) -> str:
    return "-" if math.isnan(figure[0]) else figure_text(Difference(*figure), 3, sign=sign)


@click.command()
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--limit", type=click.IntRange(min=1), help="Ask only the first N queries of each set.")
@click.option("--embedder", type=click.Choice(("minilm", "hashing")), default="minilm", show_default=True)
@out_option(f"{NAME}.md and .json")
def main(data: Path, limit: int | None, embedder: str, out: Path) -> None:
    """Measure recall, and write the tables. DATA has alfworld/ and hotpotqa/ with the logs named in the page."""
    found = anyio.run(lambda: measure(data, Remembering(embedder_called(embedder)), limit=limit))
    text = page(found)
    write_result(out, NAME, found, text)
    click.echo(text)


if __name__ == "__main__":
    main()
