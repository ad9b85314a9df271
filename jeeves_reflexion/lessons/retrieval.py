"""Which of the lessons that were found are recalled: order, utility, diversity, token budget, and a reason for each."""

from __future__ import annotations

import difflib
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias, cast

from jeeves_reflexion.errors import ConfigurationError, UnknownLessonError
from jeeves_reflexion.lessons.credit.effects import freshness
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.duplicates import normalised
from jeeves_reflexion.lessons.filters import both
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.records import ANY, OFF, RECALLED, TASKS, chunk_ids, one_each, readable
from jeeves_reflexion.lessons.repository import Repository
from jeeves_reflexion.text import estimate_tokens
from jeeves_reflexion.types import Lesson, LessonState, Lift, RecalledLesson, Task
from jeeves_reflexion.values import checked_settings
from vectorstores.base import Filter

POOL: Final = 4
"""So many times k keys of lessons are looked at to pick k lessons."""

_NUMBER: Final = re.compile(r"\d+")
_TIE: Final = 1e-4  # of two cosine similarities of equal texts

StrategyName: TypeAlias = Literal["nearest", "hybrid", "structured_reflections", "seed002"]
Order: TypeAlias = Literal["similarity", "own_first", "failures_first", "recency"]
"""Which lessons come first, before a strategy decides among them: none, those of the task itself, those of attempts
that failed, or the newest."""
Likeness: TypeAlias = Callable[[str, str], float]
"""The cosine similarity of the words of two lessons, named by their ids; 0 where it is not known."""
_Words: TypeAlias = tuple[list[str], list[str]]  # the words of a lesson, and its numbers


@dataclass(frozen=True, slots=True)
class Candidate:
    """A lesson that was found.

    ``similarity`` is its cosine similarity to the task, ``utility`` what it is expected to add to an attempt's score,
    in points of that score.
    """

    lesson: Lesson
    similarity: float
    lift: Lift | None = None
    utility: float = 0.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its relevance, at most 1, and why it stands where it stands."""

    candidate: Candidate
    relevance: float
    why: str


class Strategy(Protocol):
    """Orders candidates by how relevant they are to a task, the best first."""

    def __call__(self, task: Task, candidates: Sequence[Candidate]) -> list[Ranked]:
        """Return all candidates, ordered."""
        ...


def nearest(task: Task, candidates: Sequence[Candidate]) -> list[Ranked]:
    """Order by similarity to the task; of equals those of the task itself first, then the older."""
    # An embedder reads so much of a text: tasks that begin alike are one to it.
    ordered = sorted(candidates, key=lambda c: (-c.similarity, not _is_own(task, c.lesson)))
    return [Ranked(c, c.similarity, f"near the task ({c.similarity:.2f})") for c in ordered]


_GONE: Final = ("hybrid", "structured_reflections", "seed002")


@dataclass(frozen=True, slots=True)
@checked_settings
class Picking:
    """How lessons are picked from those that were found.

    ``strategy`` orders them. ``utility_weight`` is how many points of relevance one point of expected score is worth.
    ``diversity``, in [0, 1], is how much being like a lesson already picked weighs against relevance (maximal marginal
    relevance; 0: not at all). Of lessons that have at least ``max_likeness``, in (0, 1], of their words in common, in
    one order, one alone is recalled; with 1.0 all are. ``max_tokens`` bounds all recalled together.
    """

    strategy: StrategyName | Strategy = "nearest"
    utility_weight: float = 1.0
    max_likeness: float = 1.0
    max_tokens: int = 1000
    diversity: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.strategy, str):
            if self.strategy in _GONE:
                why = f"the strategy {self.strategy} is gone: nearest is used in its place"
                warnings.warn(why, DeprecationWarning, stacklevel=4)
                object.__setattr__(self, "strategy", "nearest")
            elif self.strategy != "nearest":
                raise ConfigurationError(f"strategy must be nearest or a callable, not {self.strategy!r}")
        if not self.utility_weight >= 0.0:
            raise ConfigurationError(f"utility_weight must be at least 0, not {self.utility_weight}")
        if not 0.0 < self.max_likeness <= 1.0:
            raise ConfigurationError(f"max_likeness must lie in (0, 1], not {self.max_likeness}")
        if not 0.0 <= self.diversity <= 1.0:
            raise ConfigurationError(f"diversity must lie in [0, 1], not {self.diversity}")
        if not self.max_tokens >= 1:
            raise ConfigurationError(f"max_tokens must be at least 1, not {self.max_tokens}")


async def found_lessons(
    lessons: Repository,
    query: str,
    where: Filter | None,
    *,
    number: int,
    least: int,
    floor: float,
    state: LessonState | None = "active",
) -> list[Candidate]:
    """Return the lessons of a state, or of any, near a text, the nearest first, each once: of ``number`` hits, and more
    of them where fewer than ``least`` lessons are among these and there may be others above the floor.

    What a writer says of its own lesson counts for nothing: the reader decides whether it is active.
    """
    of_state = RECALLED if state == "active" else both(OFF, {"state": state}) if state else ANY
    asked = both(of_state, where)
    while True:
        hits = await lessons.store.search(query, k=number, filter=asked)
        seen = [(lessons.reader.seen(lesson), hit.score) for hit, lesson in readable(one_each(hits))]
        found = [Candidate(lesson, score) for lesson, score in seen if state in (None, lesson.state)]
        if len(found) >= least or len(hits) < number or hits[-1].score < floor:
            return found
        number *= 2


async def near_task(
    lessons: Repository,
    task: Task,
    query: str,
    where: Filter | None,
    *,
    k: int,
    floor: float,
    order: Order,
) -> list[Candidate]:
    """Return the active lessons near a task; its own are among them, also where many tasks have the same text.

    Where an order by what lessons are must choose among equally near ones, all of these are there.
    """
    number = POOL * k
    found = await found_lessons(lessons, query, where, number=number, least=k, floor=floor)
    if len(found) <= k or not _tied(found):
        return found
    if order in ("failures_first", "recency"):
        more: list[Candidate] = []
        while _tied(found) and len(more) != len(found):
            number, more = 2 * number, found
            found = await found_lessons(
                lessons, query, where, number=number, least=2 * len(more), floor=floor
            )
        return found
    mine = both(where, {"task_id": task.id})
    own = await found_lessons(lessons, query, mine, number=number, least=0, floor=floor)
    known = {each.lesson.id for each in own}
    return own + [each for each in found if each.lesson.id not in known]


def _tied(found: Sequence[Candidate]) -> bool:
    return found[0].similarity - found[-1].similarity < _TIE


async def nearest_lessons(
    lessons: Repository, query: str, where: Filter | None, *, k: int, pool: int, state: LessonState | None
) -> list[Candidate]:
    """Return the lessons of a state, or of any, nearest to a text, at least ``k`` where there are so many."""
    found = await found_lessons(lessons, query, where, number=k, least=k, floor=-1.0, state=state)
    if state != "proposed":
        return found
    # What another principal wrote lies in the store as active, and is proposed to this reader.
    near = await found_lessons(lessons, query, where, number=pool, least=0, floor=-1.0, state=None)
    known = {each.lesson.id for each in found}
    found += [each for each in near if each.lesson.state == state and each.lesson.id not in known]
    return sorted(found, key=lambda each: -each.similarity)


def credited(
    found: Sequence[Candidate], known: Credits, *, retire: bool, half_life_days: float
) -> tuple[list[Candidate], list[RecalledLesson]]:
    """Return what was found with its credit, and apart from it what is to be retired for the harm it does.

    What a lesson is worth counts beyond what any lesson of the library is; the older the news, the less it weighs.
    """
    now = time.time()
    kept: list[Candidate] = []
    harmful: list[RecalledLesson] = []
    for each in found:
        lift, verdict = known.lift(each.lesson.id), known.judge(each.lesson.id)
        if retire and verdict.kind == "retire":
            away = replace(each.lesson, state="retired", state_reason=verdict.reason)
            harmful.append(RecalledLesson(away, each.similarity, f"retired: {verdict.reason}", lift))
        else:
            idle = known.idle(each.lesson.id, now)
            fresh = 1.0 if idle is None else freshness(idle, half_life_days=half_life_days)
            utility = (known.utility(each.lesson.id) - known.prior.mean) * fresh
            kept.append(replace(each, lift=lift, utility=utility))
    return kept, harmful


async def retire(lessons: Repository, harmful: Iterable[RecalledLesson]) -> list[RecalledLesson]:
    """Retire what is shown to harm, and return what was; one that is forgotten at this moment is not."""
    retired = []
    for item in harmful:
        reason = item.lesson.state_reason
        away = partial(replace, state="retired", state_reason=reason)
        with suppress(UnknownLessonError):
            await lessons.change(item.lesson.id, away, Change("retire", reason, "credit"))
            retired.append(item)
    return retired


async def likeness_of(lessons: Repository, candidates: Sequence[Candidate]) -> Likeness:
    """Read how near lessons are to one another by their own words."""
    import numpy as np  # noqa: PLC0415 - commands that recall nothing start without it

    # The chunk that holds its text: the second where a task comes before it.
    number = 0 if lessons.key == "lesson" else 1
    ids = [chunk_ids(each.lesson.id)[number] for each in candidates]
    found = await lessons.store.get_by_ids(ids, vectors=True) if ids else []
    # None where the lesson was stored to be found by something else.
    kept = [chunk for chunk in found if chunk.metadata.get("holds") == "text" and chunk.vector is not None]
    places = {chunk.metadata["lesson_id"]: place for place, chunk in enumerate(kept)}
    rows = np.array([chunk.vector for chunk in kept])
    products: list[list[float]] = (rows @ rows.T).tolist() if kept else []

    def likeness(one: str, other: str) -> float:
        first, second = places.get(one), places.get(other)
        return 0.0 if first is None or second is None else products[first][second]

    return likeness


def pick(
    task: Task,
    candidates: Sequence[Candidate],
    *,
    k: int,
    picking: Picking,
    likeness: Likeness,
    order: Order = "similarity",
) -> tuple[list[RecalledLesson], list[RecalledLesson]]:
    """Return what is recalled, best first and at most ``k``, and what was found and left out, each with its reason.

    What the ``order`` has first is chosen first; of equals in it one after the other by maximal marginal relevance.
    What is recalled stands in the order, and then in the strategy's.
    """
    ranked = (nearest if isinstance(picking.strategy, str) else picking.strategy)(task, candidates)
    if picking.utility_weight and any(item.candidate.utility for item in ranked):
        ranked = _by_utility(ranked, picking.utility_weight)
    ranked = sorted(ranked, key=lambda item: _turn(order, task, item.candidate.lesson))
    lessons = [item.candidate.lesson for item in ranked]
    turns = [_turn(order, task, lesson) for lesson in lessons]
    words = {each.id: (normalised(each.text).split(), _NUMBER.findall(each.text)) for each in lessons}
    chosen: list[int] = []
    reasons: dict[int, str] = {}
    nearness = dict.fromkeys(range(len(ranked)), 0.0)  # to the nearest of those that are chosen
    room = picking.max_tokens
    while len(chosen) < k:
        left = [at for at in nearness if at not in chosen and at not in reasons]
        if not left:
            break
        # The first choice has nothing to differ from: it is the best, at any diversity.
        weight = picking.diversity if chosen else 0.0
        turn = [each for each in left if turns[each] == turns[left[0]]]
        at = max(
            turn, key=lambda each: ((1 - weight) * ranked[each].relevance - weight * nearness[each], -each)
        )
        lesson = lessons[at]
        cost = estimate_tokens(lesson.text)
        if cost > room:
            reasons[at] = "no room left in the token budget"
            continue
        room -= cost
        chosen.append(at)
        for each in left:
            if each != at and _says_the_same(lesson, lessons[each], words, picking.max_likeness):
                reasons[each] = f"says what {lesson.id[:8]} says"
            elif each != at:
                nearness[each] = max(nearness[each], likeness(lesson.id, lessons[each].id))
    better = f"{k} better one{'s' * (k > 1)}"
    return (
        [_recalled(ranked[at], ranked[at].why) for at in sorted(chosen)],
        [_recalled(item, reasons.get(at, better)) for at, item in enumerate(ranked) if at not in chosen],
    )


def _is_own(task: Task, lesson: Lesson) -> bool:
    """Whether a task taught the lesson, or taught it again."""
    return task.id == lesson.task_id or task.id in cast("Sequence[str]", lesson.metadata.get(TASKS, ()))


def _turn(order: Order, task: Task, lesson: Lesson) -> tuple[float, int]:
    """Return when a lesson's turn is in an order: the lowest comes first."""
    match order:
        case "own_first":
            return (not _is_own(task, lesson), 0)
        case "failures_first":
            return (lesson.outcome != "failed", 0)
        case "recency":
            return (-lesson.provenance.created_at, -lesson.provenance.attempt)
        case "similarity":
            return (0, 0)


def _says_the_same(one: Lesson, other: Lesson, words: Mapping[str, _Words], likeness: float) -> bool:
    """Whether two lessons say the same in the same words, but for so few; an embedder takes opposites for alike."""
    (mine, numbers), (theirs, others) = words[one.id], words[other.id]
    if likeness >= 1.0 or numbers != others or one.id in other.contradicts or other.id in one.contradicts:
        return False
    # Most pairs have few words in common: these are told apart without a look at their order.
    least = likeness * (len(mine) + len(theirs)) / 2
    if min(len(mine), len(theirs)) < least or (Counter(mine) & Counter(theirs)).total() < least:
        return False
    return difflib.SequenceMatcher(None, mine, theirs, autojunk=False).ratio() >= likeness


def _by_utility(ranked: Sequence[Ranked], weight: float) -> list[Ranked]:
    moved = []
    for item in ranked:
        candidate = item.candidate
        known = candidate.lift is not None and candidate.lift.value is not None
        why = f"{item.why}, worth {candidate.utility:+.2f} so far" if known else item.why
        moved.append(replace(item, relevance=item.relevance + weight * candidate.utility, why=why))
    return sorted(moved, key=lambda r: -r.relevance)


def _recalled(item: Ranked, reason: str) -> RecalledLesson:
    candidate = item.candidate
    return RecalledLesson(candidate.lesson, candidate.similarity, reason, candidate.lift)


def set_aside(seen: Iterable[tuple[Lesson, float]], known: Credits | None) -> list[RecalledLesson]:
    """Return the lessons, given with their similarity, that are not recalled for the state that they are in."""
    return [
        RecalledLesson(lesson, score, _why_inactive(lesson), _lift(known, lesson))
        for lesson, score in seen
        if lesson.state != "active"
    ]


def too_far(found: Iterable[Candidate], known: Credits | None, *, floor: float) -> list[RecalledLesson]:
    """Return what was found below the floor of similarity."""
    reason = f"below the floor of {floor:.2f}"
    return [
        RecalledLesson(each.lesson, each.similarity, reason, _lift(known, each.lesson))
        for each in found
        if each.similarity < floor
    ]


def _lift(known: Credits | None, lesson: Lesson) -> Lift | None:
    return None if known is None else known.lift(lesson.id)


def _why_inactive(lesson: Lesson) -> str:
    reason = f": {lesson.state_reason}" if lesson.state_reason else ""
    return f"{lesson.state}{reason}" if lesson.state == "retired" else f"waits for review{reason}"
