"""How a task's notes change over its runs: versions, the scores of the runs under each, and rollbacks.

This module has values and rules; :mod:`jeeves_reflexion.tasknotes.store` stores them. The score of a run belongs to the
version that the run was given; version 0 means no notes. A person who looks at the scores decides whether to roll back.
"""

from __future__ import annotations

from collections.abc import Mapping
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
"""``rolled_back`` is read but no longer written: earlier versions rolled back by themselves."""


@dataclass(frozen=True, slots=True)
class NoteVersion:
    """One version of a task's notes: its text, the version it was made from (0: none), and the scores of its runs."""

    number: int
    reflection: TaskReflection
    base: int
    scores: tuple[float, ...] = ()
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class NoteChange:
    """One change of a task's notes: from which version to which, and why."""

    at: datetime
    kind: ChangeKind
    old: int
    new: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NoteHistory:
    """Everything that is stored of a task's notes; ``current`` is the version that the next run gets, 0 for none.

    ``baseline`` holds the scores of runs without notes. ``run_count`` counts reflections, including those that were
    rolled back. ``failed`` is the last failed reflection while no version is current. It is not a version, so runs
    after it are runs without notes.
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
        """Return a version by its number, or None if it does not exist or is no longer kept."""
        return next((each for each in self.versions if each.number == number), None)

    @property
    def reflection(self) -> TaskReflection | None:
        """The current version's reflection, else the last failed one, else None."""
        version = self.version(self.current)
        return (
            self.failed if version is None else replace(version.reflection, run_count=max(self.run_count, 1))
        )


def with_reflection(
    history: NoteHistory, reflection: TaskReflection, *, description: str = "", replaces: bool = False
) -> NoteHistory:
    """Return the history after one more reflection, which was made from the current version.

    The count grows by one, but a reflection that says nothing new, or that was rolled back before, makes no version.
    One that ``replaces`` the current version becomes it in any case, with its own count. A failed reflection is not
    counted, and is kept only while no version is current.
    """
    reflection = storable(reflection)
    description = abridge(storable_text(description, MOST_CHARACTERS), EXCERPT) or history.description
    if not reflection.complete:
        has_current = history.version(history.current) is not None
        return history if has_current else replace(history, failed=reflection, description=description)
    if not replaces:
        reflection = replace(reflection, run_count=history.run_count + 1)
    history = replace(history, run_count=reflection.run_count, description=description, failed=None)
    withdrawn = (each.reflection.texts for each in history.versions if each.withdrawn)
    if not replaces and reflection.texts in withdrawn:
        return history
    current = history.version(history.current)
    if current is not None and current.reflection.texts == reflection.texts:
        versions = (
            replace(each, reflection=reflection) if each is current else each for each in history.versions
        )
        return replace(history, versions=tuple(versions))
    number = max((each.number for each in history.versions), default=0) + 1
    change = NoteChange(reflection.reflected_at, "stored", history.current, number)
    return replace(
        history,
        current=number,
        versions=(*history.versions, NoteVersion(number, reflection, history.current))[-MOST_VERSIONS:],
        changes=(*history.changes, change)[-MOST_CHANGES:],
    )


def with_score(history: NoteHistory, version: int, score: float) -> NoteHistory:
    """Return the history with the score of a run under a version; unchanged if the version is no longer kept."""
    if version == 0:
        return replace(history, baseline=(*history.baseline, score)[-MOST_SCORES:])
    return replace(
        history,
        versions=tuple(
            replace(each, scores=(*each.scores, score)[-MOST_SCORES:]) if each.number == version else each
            for each in history.versions
        ),
    )


def rolled_back(history: NoteHistory, to: int, reason: str) -> NoteHistory:
    """Return the history with version ``to`` as the current one; the versions after it are withdrawn."""
    versions = tuple(
        replace(each, withdrawn=each.number != to and (each.withdrawn or to < each.number <= history.current))
        for each in history.versions
    )
    reason = storable_text(reason, MOST_ITEM_CHARACTERS)
    change = NoteChange(datetime.now(UTC), "rolled_back_by_hand", history.current, to, reason)
    changes = (*history.changes, change)[-MOST_CHANGES:]
    return replace(history, current=to, versions=versions, changes=changes)


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
    """Read a history back. Raises :class:`ReflectionStoreError` if it is damaged or of another format."""
    given = document if isinstance(document, Mapping) else {}
    form = given.get("format", FORMAT)
    if form != FORMAT:
        raise ReflectionStoreError(
            f"the notes on task {identity} have format {form!r}, and this version reads {FORMAT}: "
            "update jeeves-reflexion"
        )
    cause = None
    if missing := _REQUIRED - given.keys():
        problem = f"{', '.join(sorted(missing))} missing"
    else:
        try:
            return _HISTORY.validate_python({**given, "identity": identity})
        except ValidationError as error:
            cause, first = error, error.errors()[0]
            problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    raise ReflectionStoreError(
        f"the notes on task {identity} can't be read ({problem}): forget them, or restore them"
    ) from cause
