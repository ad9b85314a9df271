"""Which of the found lessons are recalled: order, utility, diversity, token budget, and a reason for each."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias, cast, get_args

from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.duplicates import normalised
from jeeves_reflexion.lessons.filters import both
from jeeves_reflexion.lessons.records import OFF, RECALLED, TASKS, chunk_ids, readable
from jeeves_reflexion.lessons.repository import Repository
from jeeves_reflexion.lessons.settings import LessonSettings, Order, Picking
from jeeves_reflexion.text import estimate_tokens
from jeeves_reflexion.types import JSON, Lesson, LessonState, Lift, RecalledLesson, Task
from vectorstores.base import Filter

POOL: Final = 4
"""If more than nearness decides which k lessons are picked, ``POOL * k`` keys are searched."""

_NUMBER: Final = re.compile(r"\d+")
_TIE: Final = 1e-4  # cosine similarities closer than this count as equal

Likeness: TypeAlias = Callable[[str, str], float]
"""The cosine similarity of the own texts of two lessons, given by id; 0 if unknown."""


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

    def because(self, reason: str) -> RecalledLesson:
        """Return the lesson with the reason why it is recalled, or why not."""
        return RecalledLesson(self.lesson, self.similarity, reason, self.lift)


async def found_lessons(
    lessons: Repository,
    query: str,
    where: Filter | None,
    *,
    number: int,
    least: int = 0,
    floor: float = -1.0,
    states: Collection[LessonState] = get_args(LessonState),
) -> list[Candidate]:
    """Return the lessons of these states near a text, the nearest first, each once.

    ``number`` hits are searched, and more if these hold fewer than ``least`` lessons and others may lie above the
    floor. The reader decides whether a lesson is active, whatever its writer says.
    """
    while True:
        hits = await lessons.store.search(query, k=number, filter=where)
        seen = [(lessons.reader.seen(lesson), hit.score) for hit, lesson in readable(hits)]
        found = [Candidate(lesson, score) for lesson, score in seen if lesson.state in states]
        if len(found) >= least or len(hits) < number or hits[-1].score < floor:
            return found
        number *= 2


async def near_task(
    lessons: Repository,
    task: Task,
    query: str,
    where: Filter | None,
    settings: LessonSettings,
    *,
    k: int,
    widely: bool = False,
) -> list[Candidate]:
    """Return the active lessons near a task.

    ``POOL * k`` keys are searched ``widely``, or if more than nearness decides which lessons are picked, or if the
    nearest k exceed the token budget; else ``k + 1``, which shows a tie. If more lessons are equally near than can be
    recalled, those of the task itself are included; with an order by age or outcome, all of the equally near ones are.
    """
    active: tuple[LessonState, ...] = ("active",)
    look = partial(found_lessons, lessons, query, floor=settings.min_similarity, states=active)
    where, picking = both(RECALLED, where), settings.picking
    by_nearness = not picking.diversity and picking.max_likeness == 1.0 and settings.order == "similarity"
    number = k + 1 if by_nearness and settings.credit is None and not widely else POOL * k
    found = await look(where, number=number, least=k)
    if sum(estimate_tokens(each.lesson.text) for each in found[:k]) > picking.max_tokens:
        found = await look(where, number=max(number, POOL * k), least=k)
    if not _tied(found, k):
        return found
    if settings.order in ("failures_first", "recency"):
        more: list[Candidate] = []
        while _tied(found, k) and len(more) != len(found):
            number, more = 2 * number, found
            found = await look(where, number=number, least=2 * len(more))
        return found
    own = await look(both(where, {"task_id": task.id}), number=number)
    known = {each.lesson.id for each in own}
    return own + [each for each in found if each.lesson.id not in known]


def _tied(found: Sequence[Candidate], k: int) -> bool:
    """Whether more than k lessons may be as near as the nearest. Lessons of the task itself are among those.

    Exactly k count too: further keys that were searched belong to the same lessons, or to lessons that are not active.
    """
    return len(found) >= k and found[0].similarity - found[-1].similarity < _TIE


async def inactive_lessons(
    lessons: Repository,
    query: str,
    where: Filter | None,
    *,
    k: int,
    states: Sequence[LessonState] = ("proposed", "retired"),
) -> list[Candidate]:
    """Return the proposed and retired lessons near a text, at least ``k`` if that many exist.

    A lesson of another principal is stored as active but proposed to this reader. Such lessons are only found among
    the nearest ``POOL * k`` keys.
    """
    off: Filter = {"$and": [OFF, {"state": {"$in": cast("list[JSON]", list(states))}}]}
    found = await found_lessons(lessons, query, both(off, where), number=k, least=k, states=states)
    if "proposed" in states:
        found += await found_lessons(
            lessons, query, both(RECALLED, where), number=POOL * k, states=["proposed"]
        )
    return sorted(found, key=lambda each: -each.similarity)


def credited(
    found: Sequence[Candidate], known: Credits, settings: LessonSettings
) -> tuple[list[Candidate], list[RecalledLesson]]:
    """Return the candidates with their credit, and those that do harm, as lessons to retire."""
    now, harmful = time.time(), list[RecalledLesson]()
    found = [
        replace(each, lift=known.lift(each.lesson.id), utility=known.utility(each.lesson.id, now))
        for each in found
    ]
    for each in found if settings.credit and settings.credit.retire else ():
        if each.similarity >= settings.min_similarity:
            verdict = known.judge(each.lesson.id)
            if verdict.kind == "retire":
                lesson = replace(each.lesson, state="retired", state_reason=verdict.reason)
                harmful.append(replace(each, lesson=lesson).because(f"retired: {verdict.reason}"))
    return found, harmful


async def likeness_of(lessons: Repository, candidates: Sequence[Candidate]) -> Likeness:
    """Read the vectors of the candidates' own texts, and return how alike two of them are."""
    # The chunk that holds a lesson's own text is the second if a task comes first.
    number = 0 if lessons.key == "lesson" else 1
    ids = [chunk_ids(each.lesson.id)[number] for each in candidates]
    found = await lessons.store.get_by_ids(ids, vectors=True) if ids else []
    # The text has no vector if the lesson was stored with another kind of key.
    known = {
        each.metadata["lesson_id"]: each.vector
        for each in found
        if each.metadata.get("holds") == "text" and each.vector is not None
    }
    return lambda one, other: float(known[one] @ known[other]) if {one, other} <= known.keys() else 0.0


def pick(
    task: Task,
    candidates: Sequence[Candidate],
    *,
    k: int,
    picking: Picking,
    likeness: Likeness,
    order: Order = "similarity",
) -> tuple[list[RecalledLesson], list[RecalledLesson]]:
    """Return the lessons to recall, best first and at most ``k``, and those left out, each with its reason.

    Lessons that come first in ``order`` are chosen first; those equal in it by maximal marginal relevance. The result
    is sorted by ``order``, then by relevance. At equal relevance the task's own lessons come first: an embedder reads
    only the beginning of a long text, so tasks that begin alike have one vector.
    """

    def relevance(each: Candidate) -> float:
        return each.similarity + picking.utility_weight * each.utility

    def worth(at: int) -> float:
        nearest = max([0.0, *(likeness(ranked[at].lesson.id, ranked[each].lesson.id) for each in chosen)])
        return (1 - picking.diversity) * relevance(ranked[at]) - picking.diversity * nearest

    ranked = sorted(
        candidates,
        key=lambda each: (
            _turn(order, task, each.lesson),
            -relevance(each),
            -each.similarity,
            not _is_own(task, each.lesson),
        ),
    )
    left, chosen, room = list(range(len(ranked))), list[int](), picking.max_tokens
    reasons: dict[int, str] = {}
    while left and len(chosen) < k:
        at = left[0]
        # The first choice has nothing to differ from, so it is the best at any diversity.
        if picking.diversity and chosen:
            turn = _turn(order, task, ranked[at].lesson)
            at = max([each for each in left if _turn(order, task, ranked[each].lesson) == turn], key=worth)
        left.remove(at)
        lesson = ranked[at].lesson
        cost = estimate_tokens(lesson.text)
        if cost > room:
            reasons[at] = "no room left in the token budget"
            continue
        room -= cost
        chosen.append(at)
        same = [each for each in left if _says_the_same(lesson, ranked[each].lesson, picking.max_likeness)]
        reasons |= dict.fromkeys(same, f"says what {lesson.id[:8]} says")
        left = [each for each in left if each not in same]
    better = f"{k} better one{'s' * (k > 1)}"
    offered = []
    for each in (ranked[at] for at in sorted(chosen)):
        reason = f"near the task ({each.similarity:.2f})"
        if picking.utility_weight and each.lift is not None and each.lift.value is not None:
            reason += f", worth {each.utility:+.2f} so far"
        offered.append(each.because(reason))
    left_out = [each.because(reasons.get(at, better)) for at, each in enumerate(ranked) if at not in chosen]
    return offered, left_out


def _is_own(task: Task, lesson: Lesson) -> bool:
    """Whether the task taught the lesson, at first or again."""
    return task.id == lesson.task_id or task.id in cast("Sequence[str]", lesson.metadata.get(TASKS, ()))


def _turn(order: Order, task: Task, lesson: Lesson) -> tuple[float, int]:
    """Return a lesson's rank in an order; the lowest comes first."""
    match order:
        case "own_first":
            return (not _is_own(task, lesson), 0)
        case "failures_first":
            return (lesson.outcome != "failed", 0)
        case "recency":
            return (-lesson.provenance.created_at, -lesson.provenance.attempt)
        case "similarity":
            return (0, 0)


def _says_the_same(one: Lesson, other: Lesson, likeness: float) -> bool:
    """Whether two lessons have nearly the same words. Vectors can't tell: those of opposites are close too."""
    if likeness >= 1.0 or one.id in other.contradicts or other.id in one.contradicts:
        return False
    if _NUMBER.findall(one.text) != _NUMBER.findall(other.text):
        return False
    mine, theirs = normalised(one.text).split(), normalised(other.text).split()
    words = difflib.SequenceMatcher(None, mine, theirs, autojunk=False)
    # Most pairs share few words; quick_ratio, which ignores their order, rules these out.
    return words.quick_ratio() >= likeness and words.ratio() >= likeness
