"""What a lesson keeps of the copies that are merged into it: support, notes of them, their tasks and their wordings.

Pure. Whether one is a copy is decided in ``sameness.py``, what becomes of a newcomer in ``deciding.py``. The defaults
of :class:`MergeSettings` were chosen by ``python -m benchmarks.lessons.paraphrases``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.likeness.comparing import compare
from jeeves_reflexion.types import JSON, Lesson, Trust

COPIES: Final = "copies"
"""Key of a lesson's metadata: the last copies that were merged into it, each a JSON object."""
COPIES_TOTAL: Final = "copies_total"
WORDINGS: Final = "wordings"
"""Key of a lesson's metadata: other ways in which its copies said it."""
TASKS: Final = "tasks"
"""Key of a lesson's metadata: ids of the other tasks that it is found by, its own left out."""
MERGED_INTO: Final = "merged_into"
"""Key of a retired copy's metadata: the id of the lesson that it was merged into."""

SAME_WORDS: Final = 0.95
"""From this likeness on, a copy is no other way to say it."""
_RANK: Final[Mapping[Trust, int]] = {"own": 2, "shared": 1, "imported": 0}


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """When two lessons are one.

    Similarities are cosines in [-1, 1], likenesses lie in [0, 1]. A newcomer is a copy when its text is at least
    ``min_similarity`` near and ``min_likeness`` alike, neither has more than ``max_added`` words of advice on top, no
    more than ``max_within`` of them say which of several things is meant ("the old API", "on Friday"), and no word of
    the advice is replaced by an unknown one; below 1.0, one such word may be where the similarity is
    ``sure_similarity``, which finds more copies and took a pencil for a mug in logged reflections. A lesson keeps up to
    ``wordings`` other ways to say it, and what is alike one of them (``wording_likeness``) is a copy too unless it is
    in conflict with the lesson itself, or says what neither that wording nor the lesson does. It keeps notes of its
    last ``copies``.

    A task ``same_task`` near one that the lesson is found by needs no face of its own; a lesson has at most ``tasks``
    of them. Contradictions are linked from ``link_similarity`` on.
    """

    min_similarity: float = 0.2
    min_likeness: float = 0.6
    max_added: int = 2
    max_within: int = 0
    sure_similarity: float = 1.0
    wording_likeness: float = 0.7
    wordings: int = 8
    copies: int = 8
    same_task: float = 0.8
    tasks: int = 8
    link_similarity: float = 0.5

    def __post_init__(self) -> None:
        for name in ("min_similarity", "sure_similarity", "same_task", "link_similarity"):
            if not -1.0 <= getattr(self, name) <= 1.0:
                raise ConfigurationError(f"{name} must lie in [-1, 1], not {getattr(self, name)}")
        for name in ("min_likeness", "wording_likeness"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigurationError(f"{name} must lie in [0, 1], not {getattr(self, name)}")
        if min(self.wordings, self.copies, self.max_added, self.max_within, self.tasks - 1) < 0:
            raise ConfigurationError(
                "wordings, copies, max_added and max_within must be 0 or more, tasks 1 or more"
            )


def linked(lesson: Lesson, other: str) -> Lesson:
    """Return a lesson that names another as its contradiction; unchanged if it does already."""
    if other in lesson.contradicts or other == lesson.id:
        return lesson
    return replace(lesson, contradicts=(*lesson.contradicts, other))


def absorbed(
    kept: Lesson, copy: Lesson, *, another_task: bool, settings: MergeSettings | None = None
) -> Lesson:
    """Return ``kept`` with a copy merged into it; apply this to the lesson as it is at the moment of writing.

    Absorbing the same evidence (run and attempt) again changes nothing.
    """
    if evidence_of(copy) in known_evidence(kept):
        return kept
    return _taken(kept, copy, copy.support, another_task=another_task, settings=settings or MergeSettings())


def joined(
    kept: Lesson, copy: Lesson, *, another_task: bool, settings: MergeSettings | None = None
) -> Lesson:
    """Return ``kept`` with a stored lesson of the same trust merged into it: their supports add up.

    An attempt that both have a note of counts once.
    """
    twice = known_evidence(kept) & known_evidence(copy)
    support = max(copy.support - len(twice), 0)
    return _taken(kept, copy, support, another_task=another_task, settings=settings or MergeSettings())


def merged_away(lesson: Lesson, into: str) -> Lesson:
    """Return a lesson as it is once another speaks for it: retired, with the id of that one."""
    metadata: dict[str, JSON] = {**lesson.metadata, MERGED_INTO: into}
    return replace(lesson, state="retired", state_reason=f"merged into {into}", metadata=metadata)


def unmerged(lesson: Lesson) -> Lesson:
    """Return a lesson that speaks for itself again; its state is not changed."""
    kept = {name: value for name, value in lesson.metadata.items() if name != MERGED_INTO}
    return replace(lesson, metadata=kept)


def _taken(kept: Lesson, copy: Lesson, counts: int, *, another_task: bool, settings: MergeSettings) -> Lesson:
    better = _RANK[copy.trust] > _RANK[kept.trust]
    support = counts if better else kept.support + counts * (copy.trust == kept.trust)
    base = replace(kept, text=copy.text, trust=copy.trust) if better else kept
    if kept.state == "proposed" and copy.state == "active" and _RANK[copy.trust] >= _RANK[kept.trust]:
        base = replace(base, state="active", state_reason="learned again by one who is trusted")
    note = _note(kept if better else copy)
    earlier = [*listed(kept, COPIES), *listed(copy, COPIES), note]
    tasks = list(listed(kept, TASKS))
    if another_task:
        more = dict.fromkeys((copy.task_id, *listed(copy, TASKS)))
        tasks += [task for task in more if task != kept.task_id and task not in tasks]
    metadata: dict[str, JSON] = {
        **kept.metadata,
        COPIES: earlier[-settings.copies :] if settings.copies else [],
        COPIES_TOTAL: _total(kept) + _total(copy) + 1,
    }
    new = (kept.text, *wordings(kept)) if better else ()
    known = () if better else wordings(kept)
    said = _said(base.text, known, (*new, copy.text, *wordings(copy)), settings.wordings)
    if said:
        metadata[WORDINGS] = said
    if tasks:
        metadata[TASKS] = tasks
    return replace(
        base,
        support=support,
        tools=tuple(dict.fromkeys((*kept.tools, *copy.tools))),
        contradicts=tuple(i for i in dict.fromkeys((*kept.contradicts, *copy.contradicts)) if i != kept.id),
        metadata=metadata,
    )


def wordings(lesson: Lesson) -> tuple[str, ...]:
    """Return the other ways to say it that a lesson keeps."""
    return cast("tuple[str, ...]", tuple(listed(lesson, WORDINGS)))


def known_tasks(lesson: Lesson) -> tuple[JSON, ...]:
    """Return the ids of the tasks that a lesson is known to be for."""
    return (lesson.task_id, *listed(lesson, TASKS))


def evidence_of(lesson: Lesson) -> tuple[JSON, JSON, JSON]:
    """Return the attempt that taught a lesson: its run, its number, and its task."""
    return (lesson.provenance.run_id, lesson.provenance.attempt, lesson.task_id)


def known_evidence(lesson: Lesson) -> set[tuple[JSON, JSON, JSON]]:
    """Return the attempts that taught a lesson, as far as it keeps notes of them."""
    notes = cast("Sequence[Mapping[str, JSON]]", listed(lesson, COPIES))
    return {evidence_of(lesson)} | {(n["run_id"], n["attempt"], n["task_id"]) for n in notes}


def listed(lesson: Lesson, key: str) -> Sequence[JSON]:
    """Return a list of a lesson's metadata; empty if there is none."""
    return cast("Sequence[JSON]", lesson.metadata.get(key, ()))


def _note(copy: Lesson) -> dict[str, JSON]:
    source = copy.provenance
    return {
        "text": copy.text,
        "task_id": copy.task_id,
        "trust": copy.trust,
        "run_id": source.run_id,
        "attempt": source.attempt,
        "score": source.score,
        "model": source.model,
        "agent": source.agent,
        "created_at": source.created_at,
    }


def _said(text: str, known: Sequence[str], others: Sequence[str], most: int) -> list[JSON]:
    """Keep the first ways to say it that do not have the words of the text or of one another; ``known`` do not."""
    kept = [*known][:most]
    for other in others:
        if len(kept) == most:
            break
        if not any(_repeats(other, each) for each in (text, *kept)):
            kept.append(other)
    return [*kept]


def _repeats(one: str, other: str) -> bool:
    seen = compare(one, other)
    return seen.same_words and seen.likeness >= SAME_WORDS


def _total(lesson: Lesson) -> int:
    return cast("int", lesson.metadata.get(COPIES_TOTAL, 0))
