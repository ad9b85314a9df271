"""How a task's notes change over its runs: versions, what the runs under each scored, and when one is taken back.

Everything here is a value and a rule; :mod:`jeeves_reflexion.tasknotes.store` stores it.

A run's score belongs to the version that it was made under, version 0 being none. A version is held against what was
before it: the scores of the runs under it *and the versions made of it* against those under the versions it was made
of. It is worse when the interval of the difference of the means lies below zero (:func:`~jeeves_reflexion.statistics.
difference`) and there are :data:`LEAST` scores on either side. Several versions may be doubted at once, and each is
looked at after each run: :data:`Z` is wider than usual for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from jeeves_reflexion.statistics import Difference, difference
from jeeves_reflexion.tasknotes.values import (
    MOST_CHARACTERS,
    MOST_ITEM_CHARACTERS,
    ReflectionStoreError,
    TaskReflection,
    storable,
    storable_text,
)
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON

LEAST: Final = 5
"""So many scores are needed on either side of a comparison."""

Z: Final = 2.576
"""The width of the interval: 99 %, since many versions are looked at, again after each run (docs/tasknotes.md)."""

MOST_VERSIONS: Final = 30
MOST_SCORES: Final = 200
MOST_CHANGES: Final = 50
EXCERPT: Final = 200

ChangeKind: TypeAlias = Literal["stored", "rolled_back", "rolled_back_by_hand"]


@dataclass(frozen=True, slots=True)
class NoteVersion:
    """One version of a task's notes: what it says, the version it was made of (0: none), and its runs' scores."""

    number: int
    reflection: TaskReflection
    base: int
    scores: tuple[float, ...] = ()
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class NoteChange:
    """What happened to a task's notes: from which version to which, and why."""

    at: datetime
    kind: ChangeKind
    old: int
    new: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NoteHistory:
    """All that is kept of a task's notes; ``current`` is the version that the next run gets, 0 for none.

    ``baseline`` holds the scores of runs without notes, ``run_count`` counts reflections, also those taken back.
    ``failed`` is the last reflection that failed, as long as there is no version in force: it is none itself, so that
    runs after it are runs without notes.
    """

    identity: str
    description: str = ""
    current: int = 0
    run_count: int = 0
    baseline: tuple[float, ...] = ()
    versions: tuple[NoteVersion, ...] = ()
    changes: tuple[NoteChange, ...] = ()
    failed: TaskReflection | None = None

    def version(self, number: int) -> NoteVersion | None:
        """Return a version, or None if there is none of that number, or no longer."""
        return next((each for each in self.versions if each.number == number), None)

    @property
    def reflection(self) -> TaskReflection | None:
        """What the next run gets, else the last reflection that failed; None for nothing."""
        version = self.version(self.current)
        return (
            self.failed if version is None else replace(version.reflection, run_count=max(self.run_count, 1))
        )

    @property
    def lineage(self) -> Iterator[NoteVersion]:
        """The current version, the one that it was made of, and so on."""
        version = self.version(self.current)
        while version is not None:
            yield version
            version = self.version(version.base)


@dataclass(frozen=True, slots=True)
class Rollback:
    """A version was taken back: from which to which, and by how much its runs were worse."""

    old: int
    new: int
    reason: str


def with_reflection(
    history: NoteHistory, reflection: TaskReflection, *, base: int | None = None, description: str = ""
) -> NoteHistory:
    """Return the history after one more reflection, made of version ``base`` (by default the current one).

    The count grows by one, whatever the reflection says. What says nothing new makes no version, nor does what was
    taken back before or is made of that. A failed reflection counts nothing, and is kept where no version is in force.
    """
    reflection = storable(reflection)
    current = history.version(history.current)
    description = abridge(storable_text(description, MOST_CHARACTERS), EXCERPT) or history.description
    if not reflection.complete:
        return (
            history if current is not None else replace(history, failed=reflection, description=description)
        )
    counted = replace(history, run_count=history.run_count + 1, description=description, failed=None)
    reflection = replace(reflection, run_count=counted.run_count)
    if current is not None:
        reflection = replace(
            reflection, reflected_at=max(reflection.reflected_at, current.reflection.reflected_at)
        )
    origin = None if base is None else history.version(base)
    if origin is not None and origin.withdrawn:
        return counted  # made, elsewhere, of what has been taken back meanwhile
    if any(each.withdrawn and each.reflection.texts == reflection.texts for each in history.versions):
        return counted
    return _grown(counted, reflection, history.current if base is None else base)


def with_replacement(history: NoteHistory, reflection: TaskReflection) -> NoteHistory:
    """Return the history with this reflection in force, its count and its time as they are.

    A failed one takes no version's place.
    """
    if not reflection.complete:
        return with_reflection(history, reflection)
    counted = replace(history, run_count=reflection.run_count, failed=None)
    return _grown(counted, storable(reflection), history.current)


def _grown(history: NoteHistory, reflection: TaskReflection, base: int) -> NoteHistory:
    current = history.version(history.current)
    if current is not None and current.reflection.texts == reflection.texts:
        return replace(history, versions=_swapped(history.versions, replace(current, reflection=reflection)))
    number = max((each.number for each in history.versions), default=0) + 1
    change = NoteChange(reflection.reflected_at, "stored", history.current, number)
    version = NoteVersion(number, reflection, base)
    return _noted(_pruned(replace(history, current=number, versions=(*history.versions, version))), change)


def with_score(history: NoteHistory, version: int, score: float) -> NoteHistory:
    """Return the history with the score of a run made under a version; a version no longer kept is passed over."""
    if version == 0:
        return replace(history, baseline=(*history.baseline, score)[-MOST_SCORES:])
    found = history.version(version)
    if found is None:
        return history
    scored = replace(found, scores=(*found.scores, score)[-MOST_SCORES:])
    return replace(history, versions=_swapped(history.versions, scored))


def judged(history: NoteHistory) -> tuple[NoteHistory, Rollback | None]:
    """Return the history after its versions were held against what was before them, and what was taken back."""
    worst: tuple[NoteVersion, Difference, int, int] | None = None
    lineage = list(history.lineage)
    for place, version in enumerate(lineage):
        after = [score for each in lineage[: place + 1] for score in each.scores]
        before = [*history.baseline, *(score for each in lineage[place + 1 :] for score in each.scores)]
        if min(len(before), len(after)) < LEAST:
            continue
        change = difference(before, after, z=Z)
        if change.worse and (worst is None or change.high < worst[1].high):
            worst = (version, change, len(before), len(after))
    if worst is None:
        return history, None
    version, change, n_before, n_after = worst
    reason = (
        f"its runs scored {-change.value:.2f} lower on average ({-change.high:.2f} to {-change.low:.2f}, "
        f"{n_after} runs against {n_before})"
    )
    target = version.base if history.version(version.base) is not None else 0
    return rolled_back(history, target, reason, by_hand=False), Rollback(history.current, target, reason)


def rolled_back(history: NoteHistory, to: int, reason: str, *, by_hand: bool = True) -> NoteHistory:
    """Return the history with version ``to`` as the current one; those after it on its line count as withdrawn."""
    kept = {each.number for each in replace(history, current=to).lineage}
    left = {each.number for each in history.lineage} - kept
    versions = tuple(
        replace(each, withdrawn=each.number in left or (each.withdrawn and each.number not in kept))
        for each in history.versions
    )
    kind: ChangeKind = "rolled_back_by_hand" if by_hand else "rolled_back"
    reason = storable_text(reason, MOST_ITEM_CHARACTERS)
    change = NoteChange(datetime.now(UTC), kind, history.current, to, reason)
    return _noted(replace(history, current=to, versions=versions), change)


def _noted(history: NoteHistory, change: NoteChange) -> NoteHistory:
    return replace(history, changes=(*history.changes, change)[-MOST_CHANGES:])


def _swapped(versions: Sequence[NoteVersion], new: NoteVersion) -> tuple[NoteVersion, ...]:
    return tuple(new if each.number == new.number else each for each in versions)


def _pruned(history: NoteHistory) -> NoteHistory:
    """Drop the oldest versions that are too many, first of those that nothing current was made of."""
    line = {each.number for each in history.lineage}
    order = sorted(history.versions, key=lambda each: (each.number in line, each.number))
    gone = order[: max(len(order) - MOST_VERSIONS, 0)]
    return replace(history, versions=tuple(each for each in history.versions if each not in gone))


# -- as JSON, as every store keeps it

FORMAT: Final = 1
_HISTORY: Final = TypeAdapter(NoteHistory)
_REFLECTION: Final = TypeAdapter(TaskReflection)
_REQUIRED: Final = {"format", *(field.name for field in fields(NoteHistory))} - {"identity", "failed"}


def document_of(history: NoteHistory) -> JSON:
    """Return a history as a JSON object."""
    return {"format": FORMAT, **_HISTORY.dump_python(history, mode="json")}


def reflection_document(reflection: TaskReflection) -> JSON:
    """Return a reflection as a JSON object."""
    document: JSON = _REFLECTION.dump_python(reflection, mode="json")
    return document


def history_of(identity: str, document: JSON) -> NoteHistory:
    """Read a history back. Raises :class:`ReflectionStoreError` for what is none, or of a newer format."""
    given = document if isinstance(document, Mapping) else {}
    found = given.get("format", FORMAT)
    if found != FORMAT:
        raise ReflectionStoreError(
            f"the notes on task {identity} are of format {found!r}, and this version reads {FORMAT}: "
            "update jeeves-reflexion"
        )
    missing = _REQUIRED - given.keys()
    if missing:
        raise _unreadable(identity, f"{', '.join(sorted(missing))} missing")
    try:
        return _HISTORY.validate_python({**given, "identity": identity})
    except ValidationError as error:
        first = error.errors()[0]
        raise _unreadable(identity, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _unreadable(identity: str, problem: str) -> ReflectionStoreError:
    return ReflectionStoreError(
        f"the notes on task {identity} can't be read ({problem}): forget them, or restore them"
    )
