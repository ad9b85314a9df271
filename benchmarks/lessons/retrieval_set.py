"""Asks the labelled set in every way that is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.lessons.retrieval_data import (
    Document,
    Query,
    alfworld_lessons,
    described_queries,
    held_out_queries,
    hotpotqa,
    humaneval,
    read_goals,
)
from benchmarks.lessons.retrieval_figures import Asked, Estimate, differences, estimates
from benchmarks.lessons.retrieval_recall import Answers, Library, Way
from benchmarks.lessons.retrieval_ways import DEFAULT, EVERYTHING, FLOORS, LIKENESSES, POOLS, STRATEGIES
from jeeves_reflexion.statistics import wilson
from vectorstores import Embedder

QUESTIONS = tuple(way for way in STRATEGIES if "seed002" not in way.name and "kind" not in way.name)


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the logs and tasks lie."""

    data: Path

    @property
    def reflections(self) -> Path:
        """The log of ALFWorld reflections."""
        return self.data / "alfworld" / "logged_reflections.jsonl"

    @property
    def games(self) -> Path:
        """The archive of ALFWorld's ``valid_seen``."""
        return self.data / "alfworld" / "valid_seen_140.tar.xz"

    @property
    def questions(self) -> Path:
        """A log of HotpotQA runs with reflections."""
        return self.data / "hotpotqa" / "hotpotqa_replay_cot_no_context_reflexion.jsonl"

    @property
    def programs(self) -> Path:
        """HumanEval."""
        return self.data / "humaneval" / "HumanEval.jsonl.gz"


@dataclass(frozen=True, slots=True)
class Sets:
    """All lessons and queries."""

    lessons: list[Document]
    held_out: list[Query]
    described: list[Query]
    answers: list[Document]
    questions: list[Query]
    programs: list[Query]


def read_sets(paths: Paths, limit: int | None = None) -> Sets:
    """Read all that is asked and recalled; with ``limit``, only so many queries of each set."""
    lessons = alfworld_lessons(paths.reflections, read_goals())
    questions, answers = hotpotqa(paths.questions)
    return Sets(
        lessons,
        held_out_queries(lessons)[:limit],
        described_queries(paths.games)[:limit],
        answers,
        questions[:limit],
        humaneval(paths.programs)[:limit],
    )


async def ask_everything(
    paths: Paths, embedder: Embedder, say: Callable[[str], None], *, limit: int | None = None
) -> dict[str, Any]:
    """Return the rows of all tables, and the sizes of the sets."""
    sets = read_sets(paths, limit)
    household = Library(sets.lessons, embedder)
    merged = Library(sets.lessons, embedder, merging=True)
    answers = Library(sets.answers, embedder)
    found: dict[str, Any] = {"sizes": _sizes(sets)}
    try:
        for name, ways, queries, library in (
            ("held out", STRATEGIES, sets.held_out, household),
            ("described", STRATEGIES, sets.described, household),
            ("questions", QUESTIONS, sets.questions, answers),
            ("likeness", LIKENESSES, sets.described, household),
            ("likeness, merged", LIKENESSES, sets.described, merged),
            ("pool", POOLS, sets.described, household),
        ):
            found[name] = await _table(library, queries, ways, say)
        found["merged"] = await merged.size("task")
        found["refused"] = household.refused + answers.refused
        found["floors"] = await _floors(sets, household, answers)
    finally:
        for library in (household, merged, answers):
            await library.close()
    return found


def _sizes(sets: Sets) -> dict[str, int]:
    return {
        "lessons": len(sets.lessons),
        "held_out": len(sets.held_out),
        "described": len(sets.described),
        "answers": len(sets.answers),
        "questions": len(sets.questions),
        "programs": len(sets.programs),
        "goals": len({each.goal for each in sets.lessons}),
        "described_goals": len({each.goal for each in sets.described}),
    }


async def _table(
    library: Library, queries: Sequence[Query], ways: Sequence[Way], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    beside = await library.ask(queries, DEFAULT)
    rows = []
    for way in ways:
        answers = beside if way is DEFAULT else await library.ask(queries, way)
        rows.append(_row(way, answers, beside))
        say(f"{way.name}: nDCG@5 {rows[-1]['figures']['nDCG@5'][0]:.3f}")
    return rows


def _row(way: Way, answers: Answers, beside: Answers) -> dict[str, Any]:
    return {
        "way": way.name,
        "n": len(answers.asked),
        "answerable": sum(each.answerable for each in answers.asked),
        "figures": _flat(estimates(answers.asked)),
        "difference": _flat(differences(answers.asked, beside.asked)),
        "alike": answers.alike,
        "tasks": answers.tasks,
    }


def _flat(figures: Mapping[str, Estimate]) -> dict[str, list[float]]:
    return {name: list(asdict(each).values()) for name, each in figures.items()}


async def _floors(sets: Sets, household: Library, answers: Library) -> list[dict[str, Any]]:
    """What each floor leaves: of what bears on the task, and of what is recalled for tasks of another world."""
    asked = {
        "held_out": (await household.ask(sets.held_out, EVERYTHING)).asked,
        "described": (await household.ask(sets.described, EVERYTHING)).asked,
        "questions": (await answers.ask(sets.questions, EVERYTHING)).asked,
        "question > household": (await household.ask(sets.questions, EVERYTHING)).asked,
        "program > household": (await household.ask(sets.programs, EVERYTHING)).asked,
        "household > questions": (await answers.ask(sets.described, EVERYTHING)).asked,
        "program > questions": (await answers.ask(sets.programs, EVERYTHING)).asked,
    }
    return [_at_floor(floor, asked) for floor in FLOORS]


def _at_floor(floor: float, asked: Mapping[str, Sequence[Asked]]) -> dict[str, Any]:
    row: dict[str, Any] = {"floor": floor}
    for name, each in asked.items():
        left = [one.above(floor) for one in each]
        row[name] = _some(left) if ">" in name else _flat(estimates(left))
    needless = [each.above(floor) for each in asked["described"] if not each.answerable]
    if needless:
        row["described > nothing relevant"] = _some(needless)
    return row


def _some(asked: Sequence[Asked]) -> list[float]:
    """The share of recalls that offered anything, with its interval."""
    share = wilson(sum(bool(each.offered) for each in asked), len(asked))
    return [share.value, share.low, share.high]
