"""How a task's notes change over its runs: versions, what the runs under each scored, and going back to one.

Everything here is a value and a rule; :mod:`jeeves_reflexion.tasknotes.store` stores it. A run's score belongs to the
version that it was made under, version 0 being none: a person who looks at them decides which version is in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

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

MOST_VERSIONS: Final = 30
MOST_SCORES: Final = 200
MOST_CHANGES: Final = 50
EXCERPT: Final = 200

ChangeKind: TypeAlias = Literal["stored", "rolled_back", "rolled_back_by_hand"]
"""``rolled_back`` is of earlier versions, which took notes back by themselves: it is read and no longer written."""


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


def with_reflection(
    history: NoteHistory, reflection: TaskReflection, *, description: str = ""
) -> NoteHistory:
    """Return the history after one more reflection, made of the current version.

    The count grows by one, whatever the reflection says. What says nothing new makes no version, nor does what was
    taken back before. A failed reflection counts nothing, and is kept where no version is in force.
    """
    reflection = storable(reflection)
    description = abridge(storable_text(description, MOST_CHARACTERS), EXCERPT) or history.description
    if not reflection.complete:
        in_force = history.version(history.current) is not None
        return history if in_force else replace(history, failed=reflection, description=description)
    count = history.run_count + 1
    counted = replace(history, run_count=count, description=description, failed=None)
    if any(each.withdrawn and each.reflection.texts == reflection.texts for each in history.versions):
        return counted
    return _grown(counted, replace(reflection, run_count=count))


def with_replacement(history: NoteHistory, reflection: TaskReflection) -> NoteHistory:
    """Return the history with this reflection in force, its count and its time as they are.

    A failed one takes no version's place.
    """
    if not reflection.complete:
        return with_reflection(history, reflection)
    counted = replace(history, run_count=reflection.run_count, failed=None)
    return _grown(counted, storable(reflection))


def _grown(history: NoteHistory, reflection: TaskReflection) -> NoteHistory:
    current = history.version(history.current)
    if current is not None and current.reflection.texts == reflection.texts:
        return replace(history, versions=_swapped(history.versions, replace(current, reflection=reflection)))
    number = max((each.number for each in history.versions), default=0) + 1
    change = NoteChange(reflection.reflected_at, "stored", history.current, number)
    versions = (*history.versions, NoteVersion(number, reflection, history.current))[-MOST_VERSIONS:]
    return _noted(replace(history, current=number, versions=versions), change)


def with_score(history: NoteHistory, version: int, score: float) -> NoteHistory:
    """Return the history with the score of a run made under a version; a version no longer kept is passed over."""
    if version == 0:
        return replace(history, baseline=(*history.baseline, score)[-MOST_SCORES:])
    found = history.version(version)
    if found is None:
        return history
    scored = replace(found, scores=(*found.scores, score)[-MOST_SCORES:])
    return replace(history, versions=_swapped(history.versions, scored))


def rolled_back(history: NoteHistory, to: int, reason: str) -> NoteHistory:
    """Return the history with version ``to`` as the current one; those after it count as withdrawn."""
    versions = tuple(
        replace(each, withdrawn=each.number != to and (each.withdrawn or to < each.number <= history.current))
        for each in history.versions
    )
    reason = storable_text(reason, MOST_ITEM_CHARACTERS)
    change = NoteChange(datetime.now(UTC), "rolled_back_by_hand", history.current, to, reason)
    return _noted(replace(history, current=to, versions=versions), change)


def _noted(history: NoteHistory, change: NoteChange) -> NoteHistory:
    return replace(history, changes=(*history.changes, change)[-MOST_CHANGES:])


def _swapped(versions: Sequence[NoteVersion], new: NoteVersion) -> tuple[NoteVersion, ...]:
    return tuple(new if each.number == new.number else each for each in versions)


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
