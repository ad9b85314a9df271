"""Who wrote a lesson, and whose lessons a reader takes for advice: said by who opens the store, never by a lesson.

A principal is whoever opens a store under a name of its own: a person, a team, a service. Its name goes with the words
that it writes. What another one wrote is proposed to a reader until that reader, or one whom it accepts, approves it,
or the reader accepts the writer; and it never stands in a prompt as the reader's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from jeeves_reflexion.types import JSON, Lesson

WRITER: Final = "writer"
"""Key of a lesson's metadata: the principal that wrote its words; absent where it has no name."""
APPROVED_BY: Final = "approved_by"
"""Key of a lesson's metadata: the principals, other than its writer, that approved these words."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who opened a store: its ``name`` (empty where only one uses the store), and the names that it accepts."""

    name: str = ""
    accepts: Collection[str] = ()

    def wrote(self, lesson: Lesson) -> bool:
        """Whether the words of a lesson are this principal's."""
        return writer_of(lesson) == self.name

    def trusts(self, lesson: Lesson) -> bool:
        """Whether a lesson is advice to this principal: its own, an accepted writer's, or approved by one of them."""
        known = {self.name, *self.accepts}
        return writer_of(lesson) in known or not known.isdisjoint(_approvers(lesson))

    def seen(self, lesson: Lesson) -> Lesson:
        """Return a lesson as this principal sees it, whatever trust and state its writer gave it.

        It is for reading: what is changed and stored is the lesson as it lies in the store.
        """
        if self.wrote(lesson):
            return lesson
        lesson = replace(lesson, trust="shared" if lesson.trust == "own" else lesson.trust)
        if lesson.state != "active" or self.trusts(lesson):
            return lesson
        why = f"written by {writer_of(lesson)!r}, whom nobody accepted here"
        return replace(lesson, state="proposed", state_reason=why)

    def signed(self, lesson: Lesson) -> Lesson:
        """Return a new lesson with this principal as its writer, unless it says one."""
        if not self.name or WRITER in lesson.metadata:
            return lesson
        return replace(lesson, metadata={**lesson.metadata, WRITER: self.name})

    def changed(self, before: Lesson, after: Lesson) -> Lesson:
        """Return a changed lesson with who is to answer for it.

        Whoever changes the words is their writer, and nobody has approved these yet.
        """
        if before.text == after.text:
            return after
        trust = after.trust if self.wrote(before) else self.seen(before).trust
        return self.signed(unsigned(replace(after, trust=trust)))

    def approved(self, lesson: Lesson) -> Lesson:
        """Return a lesson with this principal's approval of its words, if they are another's."""
        if self.wrote(lesson) or self.name in _approvers(lesson):
            return lesson
        approvers = cast("JSON", [*_approvers(lesson), self.name])
        return replace(lesson, metadata={**lesson.metadata, APPROVED_BY: approvers})


def writer_of(lesson: Lesson) -> str:
    """Return the name of the principal that wrote a lesson; empty for one without a name."""
    return str(lesson.metadata.get(WRITER, ""))


def unsigned(lesson: Lesson) -> Lesson:
    """Return a lesson without what it says of its own writer and approvals: a file's word for itself is none."""
    metadata: Mapping[str, JSON] = {
        key: value for key, value in lesson.metadata.items() if key not in (WRITER, APPROVED_BY)
    }
    return lesson if len(metadata) == len(lesson.metadata) else replace(lesson, metadata=metadata)


def _approvers(lesson: Lesson) -> tuple[str, ...]:
    found = lesson.metadata.get(APPROVED_BY, ())
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()
