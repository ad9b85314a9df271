"""Who wrote a lesson, and whose lessons a reader takes as advice.

A principal is whoever opens a store under a name of its own: a person, a team, a service. Its name is stored with the
words that it writes. A lesson of another writer counts as proposed until the reader accepts that writer, or until the
reader, or somebody whom it accepts, approves the lesson. A prompt never shows it as the reader's own. Only whoever
opens the store says whom to trust; what a lesson claims about itself does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from jeeves_reflexion.types import JSON, Lesson

WRITER: Final = "writer"
"""Metadata key of a lesson: the principal that wrote its words; missing if the writer has no name."""
APPROVED_BY: Final = "approved_by"
"""Metadata key of a lesson: the principals, other than its writer, that approved its present words."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who opened a store: its ``name``, empty if only one principal uses the store, and the writers it accepts."""

    name: str = ""
    accepts: Collection[str] = ()

    def wrote(self, lesson: Lesson) -> bool:
        """Return whether this principal wrote the words of a lesson."""
        return writer_of(lesson) == self.name

    def trusts(self, lesson: Lesson) -> bool:
        """Return whether this principal or a writer that it accepts wrote or approved a lesson."""
        known = {self.name, *self.accepts}
        return writer_of(lesson) in known or not known.isdisjoint(_approvers(lesson))

    def seen(self, lesson: Lesson) -> Lesson:
        """Return a lesson as this principal sees it, whatever trust and state its writer gave it.

        For reading only: change and store the lesson as it was stored, not as it is seen.
        """
        if self.wrote(lesson):
            return lesson
        lesson = replace(lesson, trust="shared" if lesson.trust == "own" else lesson.trust)
        if lesson.state != "active" or self.trusts(lesson):
            return lesson
        why = f"written by {writer_of(lesson)!r}, who is not accepted here"
        return replace(lesson, state="proposed", state_reason=why)

    def signed(self, lesson: Lesson) -> Lesson:
        """Return a new lesson with this principal as its writer, unless it has a writer."""
        if not self.name or WRITER in lesson.metadata:
            return lesson
        return replace(lesson, metadata={**lesson.metadata, WRITER: self.name})

    def changed(self, before: Lesson, after: Lesson) -> Lesson:
        """Return a changed lesson with its writer: whoever changes the words is their writer, and no approval stays."""
        if before.text == after.text:
            return after
        trust = after.trust if self.wrote(before) else self.seen(before).trust
        return self.signed(unsigned(replace(after, trust=trust)))

    def approved(self, lesson: Lesson) -> Lesson:
        """Return a lesson with this principal's approval, unless the principal wrote it."""
        if self.name in (writer_of(lesson), *_approvers(lesson)):
            return lesson
        approvers = cast("JSON", [*_approvers(lesson), self.name])
        return replace(lesson, metadata={**lesson.metadata, APPROVED_BY: approvers})


def writer_of(lesson: Lesson) -> str:
    """Return the name of the principal that wrote a lesson; empty if the writer has no name."""
    return str(lesson.metadata.get(WRITER, ""))


def unsigned(lesson: Lesson) -> Lesson:
    """Return a lesson without its writer and approvals, which a file can't vouch for."""
    metadata: Mapping[str, JSON] = {
        key: value for key, value in lesson.metadata.items() if key not in (WRITER, APPROVED_BY)
    }
    return lesson if len(metadata) == len(lesson.metadata) else replace(lesson, metadata=metadata)


def _approvers(lesson: Lesson) -> tuple[str, ...]:
    names = lesson.metadata.get(APPROVED_BY, ())
    return tuple(map(str, names)) if isinstance(names, list | tuple) else ()
