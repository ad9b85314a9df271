"""Which of the lessons that were found are offered: order, utility, diversity, token budget, and a reason for each.

Recall is a line of narrow gates, each of which only takes away: the store filters and applies the similarity floor, a
strategy orders what came of it, utility moves what helped before upward and what harmed down, near-copies of a lesson
already picked are passed over, and a token budget ends the list. What is found and not picked is kept with its reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.endpoints import named_tools
from jeeves_reflexion.text import estimate_tokens
from jeeves_reflexion.types import Lesson, Lift, RecalledLesson, Task

StrategyName: TypeAlias = Literal["nearest", "hybrid", "structured_reflections"]

RRF_K: Final = 60
"""The constant of reciprocal-rank fusion as its authors chose it (Cormack, Clarke, Büttcher 2009, SIGIR)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A lesson that was found.

    ``similarity`` is its cosine similarity to the task, ``words`` its BM25 score if words were searched for,
    ``utility`` what it is expected to add to an attempt's score, in points of that score.
    """

    lesson: Lesson
    similarity: float
    words: float = 0.0
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
    """Order by similarity to the task; the older of equals first."""
    ordered = sorted(candidates, key=lambda c: -c.similarity)
    return [Ranked(c, c.similarity, f"near the task ({c.similarity:.2f})") for c in ordered]


def hybrid(task: Task, candidates: Sequence[Candidate]) -> list[Ranked]:
    """Order by reciprocal-rank fusion of similarity and words (Cormack et al. 2009).

    A candidate that shares no word with the task has no rank among the words. One found by its words alone is ranked by
    its similarity like all others.
    """
    by_meaning = nearest(task, candidates)
    by_words = sorted((c for c in candidates if c.words > 0), key=lambda c: -c.words)
    word_rank = {c.lesson.id: rank for rank, c in enumerate(by_words, 1)}
    best = 2 / (RRF_K + 1)
    ranked = []
    for rank, item in enumerate(by_meaning, 1):
        other = word_rank.get(item.candidate.lesson.id)
        fused = 1 / (RRF_K + rank) + (1 / (RRF_K + other) if other else 0.0)
        words = f", {_nth(other)} by its words" if other else ""
        why = f"{_nth(rank)} by meaning ({item.candidate.similarity:.2f}){words}"
        ranked.append(Ranked(item.candidate, fused / best, why))
    return sorted(ranked, key=lambda r: -r.relevance)


def structured_reflections(task: Task, candidates: Sequence[Candidate]) -> list[Ranked]:
    """Order as structured reflections are: same type of task, then a tool or API in common, then the newest.

    Its relevance makes no use of similarity beyond the floor: 2/3 for the type, 1/3 less a hair for a tool.
    """
    tools = named_tools(task.tools, task.prompt)
    newest_first = sorted(candidates, key=lambda c: -c.lesson.provenance.created_at)
    ranked = []
    for age, c in enumerate(newest_first):
        lesson = c.lesson
        same_kind = task.kind is not None and (lesson.task_kind or "").casefold() == task.kind.casefold()
        told = named_tools(lesson.tools, f"{lesson.task_excerpt}\n{lesson.text}")
        same_tool = bool(tools.keys() & told.keys())
        reasons = ["same type of task"] * same_kind + ["same tool"] * same_tool
        relevance = (2 * same_kind + same_tool) / 3 - age * 1e-6
        ranked.append(Ranked(c, relevance, ", ".join(reasons) or f"near the task ({c.similarity:.2f})"))
    return sorted(ranked, key=lambda r: -r.relevance)


STRATEGIES: Final[dict[str, Strategy]] = {
    "nearest": nearest,
    "hybrid": hybrid,
    "structured_reflections": structured_reflections,
}


@dataclass(frozen=True, slots=True)
class Picking:
    """How lessons are picked from those that were found.

    ``utility_weight`` is how many points of relevance one point of expected score is worth; ``max_likeness`` is how
    alike, in [0, 1], the wording of two offered lessons may be; ``max_tokens`` bounds all offered together.
    """

    strategy: StrategyName | Strategy = "nearest"
    utility_weight: float = 1.0
    max_likeness: float = 0.85
    max_tokens: int = 1000

    def __post_init__(self) -> None:
        if str(self.strategy) == "seed002":
            new = "structured_reflections"
            warnings.warn(f'strategy="seed002" is now {new!r}', DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "strategy", new)
        if isinstance(self.strategy, str) and self.strategy not in STRATEGIES:
            raise ConfigurationError(
                f"strategy must be one of {', '.join(STRATEGIES)} or a callable, not {self.strategy!r}"
            )
        if not self.utility_weight >= 0.0:
            raise ConfigurationError(f"utility_weight must be at least 0, not {self.utility_weight}")
        if not 0.0 < self.max_likeness <= 1.0:
            raise ConfigurationError(f"max_likeness must lie in (0, 1], not {self.max_likeness}")
        if not self.max_tokens >= 1:
            raise ConfigurationError(f"max_tokens must be at least 1, not {self.max_tokens}")


Alike: TypeAlias = Callable[[str, str, float], bool]
"""Whether the likeness of two texts, in [0, 1], is above a bound."""


def pick(
    task: Task, candidates: Sequence[Candidate], *, k: int, picking: Picking, alike: Alike
) -> tuple[list[RecalledLesson], list[RecalledLesson]]:
    """Return what is offered, best first and at most ``k``, and what was found and left out, each with its reason."""
    order = STRATEGIES[picking.strategy] if isinstance(picking.strategy, str) else picking.strategy
    ranked = order(task, candidates)
    if picking.utility_weight and any(item.candidate.utility for item in ranked):
        ranked = _by_utility(ranked, picking.utility_weight)
    offered: list[RecalledLesson] = []
    left_out: list[RecalledLesson] = []
    room = picking.max_tokens
    for item in ranked:
        cost = estimate_tokens(item.candidate.lesson.text)
        reason = _objection(item, offered, k, picking, alike)
        if not reason and cost > room:
            reason = "no room left in the token budget"
        if reason:
            left_out.append(_recalled(item, reason))
        else:
            room -= cost
            offered.append(_recalled(item, item.why))
    return offered, left_out


def _by_utility(ranked: Sequence[Ranked], weight: float) -> list[Ranked]:
    moved = []
    for item in ranked:
        candidate = item.candidate
        known = candidate.lift is not None and candidate.lift.value is not None
        why = f"{item.why}, worth {candidate.utility:+.2f} so far" if known else item.why
        moved.append(replace(item, relevance=item.relevance + weight * candidate.utility, why=why))
    return sorted(moved, key=lambda r: -r.relevance)


def _objection(
    item: Ranked, offered: Sequence[RecalledLesson], k: int, picking: Picking, alike: Alike
) -> str:
    if len(offered) >= k:
        return f"{k} better one{'s' * (k > 1)}"
    if picking.max_likeness < 1.0:
        text = item.candidate.lesson.text
        for other in offered:
            if alike(text, other.lesson.text, picking.max_likeness):
                return f"says what {other.lesson.id[:8]} says"
    return ""


def _recalled(item: Ranked, reason: str) -> RecalledLesson:
    candidate = item.candidate
    return RecalledLesson(candidate.lesson, candidate.similarity, reason, candidate.lift)


def below_floor(floor: float) -> str:
    """Return the reason of a lesson that is not near enough to the task."""
    return f"below the floor of {floor:.2f}"


def _nth(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
