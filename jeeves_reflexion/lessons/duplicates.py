"""Equal lessons: which are, what an attempt that teaches a lesson again adds to it, and what a merge adds up.

Two lessons are equal whose words are the same but for case, white space, punctuation around words and the way in
which Unicode writes them, and that have one scope. Whether others say the same is left to a person or a model.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final, TypeAlias, cast

from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.history import copies_total, listed
from jeeves_reflexion.lessons.principals import writer_of
from jeeves_reflexion.lessons.records import COPIES, COPIES_TOTAL, MERGED_INTO, TASKS
from jeeves_reflexion.types import JSON, Lesson, Trust
from vectorstores.base import RecordStore, RecordWrite

EQUAL: Final = "equal"
"""Records of lessons by a digest of words and scope: who records the same finds the lesson by it."""
NOTES: Final = 8
"""Of so many attempts that taught it again a lesson keeps a note; its history has all."""

_LEAST_TRUSTED_FIRST: Final[tuple[Trust, ...]] = ("imported", "shared", "own")
# Within a word or a number they mean something (1.5, -1, don't, C++): only what stands around one is left out.
_BEFORE: Final = "\"'([{\u00ab\u2018\u201c\u201e\u3008\u300a\u300c\u300e\u00bf\u00a1"
_BEHIND: Final = (
    ".,;:!?\"')]}\u00bb\u2018\u2019\u201c\u201d\u2026\u3001\u3002\u3009\u300b\u300d\u300f"
    "\uff0c\uff01\uff1a\uff1b\uff1f"
)
_DASHES: Final = str.maketrans("\u2010\u2011\u2012\u2013\u2014\u2212\u2019", "------'")

Attempt: TypeAlias = tuple[JSON, JSON, JSON]


def normalised(text: str) -> str:
    """Return the words of a text as they are compared: small, one blank between, no punctuation around them.

    Signs that mean something stay: ``1.5``, ``-1``, ``.env``, ``>=``, ``C++``, and ``;`` or ``..`` where they stand
    alone, are words; a dash alone is none.
    """
    if not text.isascii():  # what takes most of the time
        text = unicodedata.normalize("NFC", text).casefold().translate(_DASHES)
    small = text.lower() if text.isascii() else text
    plain = [word.lstrip(_BEFORE).rstrip(_BEHIND) or word for word in small.split()]
    joined = " ".join([word for word in plain if word != "-"])
    return joined if joined.isascii() else unicodedata.normalize("NFC", joined)


def scope_of(lesson: Lesson) -> tuple[str | None, str | None, Trust, str]:
    """Return what two lessons must have in common to be one: who may recall them, and who answers for them."""
    return lesson.task_kind, lesson.provenance.agent, lesson.trust, writer_of(lesson)


def is_equal(one: Lesson, other: Lesson) -> bool:
    """Whether two lessons of one scope say the same in the same words."""
    same = one.text == other.text or normalised(one.text) == normalised(other.text)
    return same and scope_of(one) == scope_of(other)


def claim_key(lesson: Lesson) -> str:
    """Return the key of the record by which lessons that are equal to this one are found."""
    said = json.dumps([normalised(lesson.text), *scope_of(lesson)])
    return f"{hashlib.sha256(said.encode()).hexdigest()}:1"


def claim_of(lesson: Lesson, *, must_be_new: bool = False) -> RecordWrite:
    """Return the record by which a newcomer of the same words finds a lesson; the first of its equals keeps it."""
    return RecordWrite(EQUAL, claim_key(lesson), {"lesson_id": lesson.id}, must_be_new=must_be_new)


async def unclaim(records: RecordStore, lesson_id: str) -> None:
    """Take away what a lesson is found by, which tells of its words."""
    its = [each.key async for each in each_record(records, EQUAL) if each.value == {"lesson_id": lesson_id}]
    await records.delete_records(EQUAL, its)


def supported(kept: Lesson, again: Lesson, *, another_task: bool) -> Lesson:
    """Return a lesson with the support of an attempt that taught it again; the same attempt again changes nothing.

    With ``another_task`` it is found by the task of that attempt too. A retired one stays so: what was found to harm
    does not come back by being learned once more. Where it speaks for one that is trusted less than itself, an attempt
    that taught that one is noted, and adds nothing.
    """
    if attempt_of(again) in known_attempts(kept):
        return kept
    kept = _with_notes(kept, [_note(again)], [again.task_id] if another_task else [])
    if _LEAST_TRUSTED_FIRST.index(again.trust) < _LEAST_TRUSTED_FIRST.index(kept.trust):
        return kept
    if kept.state == "proposed" and again.state == "active":
        kept = replace(
            kept, state="active", state_reason="learned again, by a writer whose lessons need no review"
        )
    return replace(
        kept,
        support=kept.support + again.support,
        tools=tuple(dict.fromkeys((*kept.tools, *again.tools))),
    )


def merged(kept: Lesson, others: Iterable[Lesson]) -> Lesson:
    """Return a lesson that speaks for others as well: supports add up, an attempt that taught two of them counts once.

    Lessons that are trusted less add none, so that nobody from outside can push a lesson up.
    """
    gone = [kept.id]
    for other in others:
        gone.append(other.id)
        support = other.support - len(known_attempts(kept) & known_attempts(other))
        notes = [*listed(other, COPIES), _note(other)]
        kept = _with_notes(kept, notes, [other.task_id, *listed(other, TASKS)], copies_total(other) + 1)
        if _LEAST_TRUSTED_FIRST.index(other.trust) >= _LEAST_TRUSTED_FIRST.index(kept.trust):
            kept = replace(kept, support=kept.support + max(support, 0))
        kept = replace(
            kept,
            tools=tuple(dict.fromkeys((*kept.tools, *other.tools))),
            contradicts=tuple(dict.fromkeys((*kept.contradicts, *other.contradicts))),
        )
    return replace(kept, contradicts=tuple(each for each in kept.contradicts if each not in gone))


def merged_away(lesson: Lesson, into: str) -> Lesson:
    """Return a lesson as it is once another speaks for it: retired, with the id of that one."""
    metadata: dict[str, JSON] = {**lesson.metadata, MERGED_INTO: into}
    return replace(lesson, state="retired", state_reason=f"merged into {into}", metadata=metadata)


def unmerged(lesson: Lesson) -> Lesson:
    """Return a lesson that speaks for itself again; its state is not changed."""
    kept = {name: value for name, value in lesson.metadata.items() if name != MERGED_INTO}
    return replace(lesson, metadata=kept)


def attempt_of(lesson: Lesson) -> Attempt:
    """Return what names the attempt that taught a lesson first."""
    return lesson.provenance.run_id, lesson.provenance.attempt, lesson.task_id


def known_attempts(lesson: Lesson) -> set[Attempt]:
    """Return the attempts that taught a lesson, as far as it keeps notes of them."""
    notes = cast("Sequence[Mapping[str, JSON]]", listed(lesson, COPIES))
    return {attempt_of(lesson)} | {(each["run_id"], each["attempt"], each["task_id"]) for each in notes}


def _with_notes(kept: Lesson, notes: Sequence[JSON], task_ids: Sequence[JSON], copies: int = 1) -> Lesson:
    tasks = dict.fromkeys([*listed(kept, TASKS), *(each for each in task_ids if each != kept.task_id)])
    metadata: dict[str, JSON] = {
        **kept.metadata,
        COPIES: [*listed(kept, COPIES), *notes][-NOTES:],
        COPIES_TOTAL: copies_total(kept) + copies,
    }
    if tasks:
        metadata[TASKS] = list(tasks)
    return replace(kept, metadata=metadata)


def _note(lesson: Lesson) -> dict[str, JSON]:
    about = {"text": lesson.text, "task_id": lesson.task_id, "trust": lesson.trust}
    return {**about, **asdict(lesson.provenance)}
