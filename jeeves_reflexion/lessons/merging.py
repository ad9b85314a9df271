"""What becomes of a newcomer: merged into a lesson that says the same, linked to one that says the opposite, or kept.

Pure: the store finds the neighbours, this module decides. An embedding finds what a newcomer may be a copy of, and
``likeness/comparing.py`` says whether it is one. Nothing is merged on similarity alone, and a lesson lost is worse than
a copy kept: in doubt both stay. The defaults were chosen by ``python -m benchmarks.lessons.paraphrases``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, cast

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.likeness.comparing import Comparison, compare, one_letter_apart
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

Kind: TypeAlias = Literal["merge", "link", "new"]

SLIP_IN: Final = 50
"""So many times as often a lesson must have been learned as one that differs by a letter, for that to be a slip."""
_SAME_WORDS: Final = 0.95
"""From this likeness on, a copy is no other way to say it."""
_SAID_ALIKE: Final = 0.85
"""From this likeness on, a way to say it that two lessons keep says that they are one."""
_HOPELESS: Final = 0.25
"""Below this likeness to the text, no other wording of it is looked at: that would cost more than it finds."""
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
    in conflict with the lesson itself. It keeps notes of its last ``copies``.

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


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored lesson near a newcomer: cosines of the two texts, and of the tasks (the nearest face) if known."""

    lesson: Lesson
    lesson_similarity: float
    task_similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a newcomer.

    ``merge``: ``lesson`` is the stored lesson as it is to be now, under its own id; with ``keeps_task`` the newcomer's
    task becomes another face of it, and with ``rewrites`` its text changed and is to be embedded anew. ``link``:
    ``lesson`` is the newcomer with the ids of ``others``, which are to name it in turn; all are kept. ``new``:
    ``lesson`` is the newcomer as it came. ``reason`` is for people.
    """

    kind: Kind
    lesson: Lesson
    reason: str
    others: tuple[str, ...] = ()
    keeps_task: bool = False
    rewrites: bool = False


def decide(newcomer: Lesson, near: Sequence[Neighbour], settings: MergeSettings | None = None) -> Decision:
    """Decide what becomes of a newcomer, given its nearest lessons (five are enough) in any order.

    The text of the stored lesson stays: its credit was earned with these words, and copies of copies can't drift away
    from them. Only words of higher trust replace it. A copy of lower trust adds no support, so that nobody from
    outside can push a lesson up; a retired lesson takes its copies in and stays retired, so that what was found to
    harm does not come back under another id.
    """
    settings = settings or MergeSettings()
    found: list[tuple[tuple[float, float, int, str], Neighbour]] = []
    opposed = []
    for each in near:
        if each.lesson.id == newcomer.id or MERGED_INTO in each.lesson.metadata:
            continue
        seen = compare(newcomer.text, each.lesson.text)
        strength = _strength(newcomer, each, seen, settings)
        if strength is None and slip_of(newcomer, each.lesson):
            strength = seen.likeness
        if strength is not None and _compatible(newcomer, each, settings):
            order = (strength, each.lesson_similarity, each.lesson.support, each.lesson.id)
            found.append((order, each))
        elif seen.contradictory and _opposes(newcomer, each, settings):
            opposed.append(each.lesson.id)
    if found:
        (strength, similarity, _, _), best = max(found, key=lambda item: item[0])
        return _merged(newcomer, best, settings, f"alike {strength:.2f}, similar {similarity:.2f}")
    if opposed:
        known = dict.fromkeys((*newcomer.contradicts, *opposed))
        reason = f"advises the opposite of {', '.join(opposed)}"
        return Decision("link", replace(newcomer, contradicts=tuple(known)), reason, tuple(opposed))
    return Decision("new", newcomer, "says what no lesson near it says")


def unsettled(
    newcomer: Lesson, near: Sequence[Neighbour], settings: MergeSettings | None = None
) -> tuple[str, ...]:
    """Return the ids of those neighbours whose ``task_similarity`` :func:`decide` needs; it may be unknown of others.

    These are few, since most newcomers neither say nor contradict what a lesson of another task says.
    """
    settings = settings or MergeSettings()
    found = []
    for each in near:
        seen = compare(newcomer.text, each.lesson.text)
        if newcomer.task_id not in _known_tasks(each.lesson) and (
            seen.contradictory
            or _strength(newcomer, each, seen, settings) is not None
            or slip_of(newcomer, each.lesson)
        ):
            found.append(each.lesson.id)
    return tuple(found)


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
    settings = settings or MergeSettings()
    if _evidence(copy) in _known_evidence(kept):
        return kept
    better = _RANK[copy.trust] > _RANK[kept.trust]
    support = copy.support if better else kept.support + copy.support * (copy.trust == kept.trust)
    base = replace(kept, text=copy.text, trust=copy.trust) if better else kept
    if kept.state == "proposed" and copy.state == "active" and _RANK[copy.trust] >= _RANK[kept.trust]:
        base = replace(base, state="active", state_reason="learned again by one who is trusted")
    note = _note(kept if better else copy)
    earlier = [*_listed(kept, COPIES), *_listed(copy, COPIES), note]
    total = _total(kept) + _total(copy) + 1
    tasks = list(_listed(kept, TASKS))
    if another_task and copy.task_id != kept.task_id and copy.task_id not in tasks:
        tasks.append(copy.task_id)
    metadata: dict[str, JSON] = {
        **kept.metadata,
        COPIES: earlier[-settings.copies :] if settings.copies else [],
        COPIES_TOTAL: total,
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


def same_advice(one: Lesson, other: Lesson, settings: MergeSettings | None = None) -> bool:
    """Whether two stored lessons say the same by their texts and kept wordings, whatever their embeddings say."""
    near = Neighbour(other, lesson_similarity=1.0)
    by_text = replace(settings or MergeSettings(), sure_similarity=1.0)
    seen = compare(one.text, other.text)
    return _same_scope(one, other) and _strength(one, near, seen, by_text) is not None


def slip_of(copy: Lesson, known: Lesson) -> bool:
    """Whether a lesson is one that was learned fifty times as often, but for a slip of the fingers that is a word."""
    if known.support < SLIP_IN * copy.support:
        return False
    seen = compare(known.text, copy.text)
    if seen.conflict or seen.likeness < _HOPELESS:
        return False
    return any(one_letter_apart(text, copy.text) for text in (known.text, *wordings(known)))


def wordings(lesson: Lesson) -> tuple[str, ...]:
    """Return the other ways to say it that a lesson keeps."""
    return cast("tuple[str, ...]", tuple(_listed(lesson, WORDINGS)))


def _strength(newcomer: Lesson, each: Neighbour, seen: Comparison, settings: MergeSettings) -> float | None:
    """How much a newcomer is a copy of a lesson, by its text or a kept wording of it; None if it is none."""
    if seen.conflict or each.lesson_similarity < settings.min_similarity:
        return None
    sure = settings.sure_similarity < 1.0 and each.lesson_similarity >= settings.sure_similarity
    much = seen.added > settings.max_added
    narrow = seen.within > settings.max_within
    if (
        seen.likeness >= settings.min_likeness
        and seen.replaced <= (1 if sure else 0)
        and not (much or narrow)
    ):
        return seen.likeness
    if seen.likeness < _HOPELESS or (much and seen.replaced):
        return None
    # One that says much more is a copy by a wording of the same words alone.
    least = _SAME_WORDS if much else settings.wording_likeness
    mine, theirs = wordings(newcomer), wordings(each.lesson)
    ways = [(newcomer.text, text, least) for text in theirs] + [
        (each.lesson.text, text, least) for text in mine
    ]
    if not seen.replaced:
        # A way to say it that both have, where one says no more than the other but for some words on top.
        ways += [(one, other, _SAID_ALIKE) for one in mine for other in theirs]
    for one, other, at_least in ways:
        again = compare(one, other)
        added = again.within > settings.max_within
        if not (again.conflict or again.replaced or added) and again.likeness >= at_least:
            return again.likeness
    return None


def _compatible(newcomer: Lesson, each: Neighbour, settings: MergeSettings) -> bool:
    """Whether merging loses no way to recall the newcomer: recalls may be narrowed by kind of task and by agent."""
    old = each.lesson
    if not _same_scope(newcomer, old):
        return False
    return not _another_task(newcomer, each, settings) or len(_listed(old, TASKS)) + 1 < settings.tasks


def _same_scope(a: Lesson, b: Lesson) -> bool:
    return a.task_kind == b.task_kind and a.provenance.agent == b.provenance.agent


def _opposes(newcomer: Lesson, each: Neighbour, settings: MergeSettings) -> bool:
    return (
        newcomer.task_kind == each.lesson.task_kind
        and each.lesson.state != "retired"
        and each.lesson_similarity >= settings.link_similarity
        and not _another_task(newcomer, each, settings)
    )


def _another_task(newcomer: Lesson, each: Neighbour, settings: MergeSettings) -> bool:
    if newcomer.task_id in _known_tasks(each.lesson):
        return False
    return each.task_similarity is None or each.task_similarity < settings.same_task


def _known_tasks(lesson: Lesson) -> tuple[JSON, ...]:
    return (lesson.task_id, *_listed(lesson, TASKS))


def _merged(newcomer: Lesson, best: Neighbour, settings: MergeSettings, reason: str) -> Decision:
    another = _another_task(newcomer, best, settings)
    lesson = absorbed(best.lesson, newcomer, another_task=another, settings=settings)
    return Decision(
        "merge",
        lesson,
        reason,
        keeps_task=another and _evidence(newcomer) not in _known_evidence(best.lesson),
        rewrites=lesson.text != best.lesson.text,
    )


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
    return seen.same_words and seen.likeness >= _SAME_WORDS


def _evidence(lesson: Lesson) -> tuple[JSON, JSON, JSON]:
    return (lesson.provenance.run_id, lesson.provenance.attempt, lesson.task_id)


def _known_evidence(lesson: Lesson) -> set[tuple[JSON, JSON, JSON]]:
    return {_evidence(lesson)} | {(n["run_id"], n["attempt"], n["task_id"]) for n in _notes(lesson)}


def _notes(lesson: Lesson) -> Sequence[Mapping[str, JSON]]:
    return cast("Sequence[Mapping[str, JSON]]", _listed(lesson, COPIES))


def _listed(lesson: Lesson, key: str) -> Sequence[JSON]:
    return cast("Sequence[JSON]", lesson.metadata.get(key, ()))


def _total(lesson: Lesson) -> int:
    return cast("int", lesson.metadata.get(COPIES_TOTAL, 0))
