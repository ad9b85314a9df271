"""Equal lessons: which lessons are equal, what another attempt adds to a lesson, and what a merge adds up.

Two lessons of one scope are equal if their words differ only in case, white space, punctuation around words or Unicode
form. Whether other wordings say the same is left to a person or a model.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final, TypeAlias, cast

from jeeves_reflexion.lessons.history import listed
from jeeves_reflexion.lessons.principals import writer_of
from jeeves_reflexion.lessons.records import COPIES, MERGED_INTO, TASKS
from jeeves_reflexion.types import JSON, Lesson, Trust
from vectorstores.base import RecordWrite

EQUAL: Final = "equal"
"""Records that name a lesson, keyed by a digest of its words and scope: an equal lesson is found by this key."""
NOTES: Final = 8
"""How many of the attempts that taught it again a lesson keeps notes of; its history has all."""

_LEAST_TRUSTED_FIRST: Final[tuple[Trust, ...]] = ("imported", "shared", "own")
# Only around a word: within a word or a number these characters mean something (1.5, -1, don't, C++).
_BEFORE: Final = "\"'([{\u00ab\u2018\u201c\u201e\u3008\u300a\u300c\u300e\u00bf\u00a1"
_BEHIND: Final = (
    ".,;:!?\"')]}\u00bb\u2018\u2019\u201c\u201d\u2026\u3001\u3002\u3009\u300b\u300d\u300f"
    "\uff0c\uff01\uff1a\uff1b\uff1f"
)
_DASHES: Final = str.maketrans("\u2010\u2011\u2012\u2013\u2014\u2212\u2019", "------'")

Attempt: TypeAlias = tuple[JSON, JSON, JSON]


def normalised(text: str) -> str:
    """Return the words of a text for comparison: in lower case, one blank between, no punctuation around them.

    Punctuation that carries meaning stays: ``1.5``, ``-1``, ``.env``, ``>=``, ``C++``, and ``;`` or ``..`` on their
    own are words; a lone dash is not.
    """
    if not text.isascii():  # the slow part
        text = unicodedata.normalize("NFC", text).casefold().translate(_DASHES)
    small = text.lower() if text.isascii() else text
    plain = [word.lstrip(_BEFORE).rstrip(_BEHIND) or word for word in small.split()]
    joined = " ".join([word for word in plain if word != "-"])
    return joined if joined.isascii() else unicodedata.normalize("NFC", joined)


def scope_of(lesson: Lesson) -> tuple[str | None, str | None, Trust, str]:
    """Return what equal lessons must share: kind of task, agent, trust and writer."""
    return lesson.task_kind, lesson.provenance.agent, lesson.trust, writer_of(lesson)


def is_equal(one: Lesson, other: Lesson) -> bool:
    """Whether two lessons have one scope and the same words."""
    same = one.text == other.text or normalised(one.text) == normalised(other.text)
    return same and scope_of(one) == scope_of(other)


def claim_key(lesson: Lesson) -> str:
    """Return the key, in ``EQUAL``, of the record for this lesson and those equal to it."""
    identity = json.dumps([normalised(lesson.text), *scope_of(lesson)])
    return f"{hashlib.sha256(identity.encode()).hexdigest()}:1"


def claim_of(lesson: Lesson, *, must_be_new: bool = False) -> RecordWrite:
    """Return the record by which later equal lessons find this one; the first of several keeps it."""
    return RecordWrite(EQUAL, claim_key(lesson), {"lesson_id": lesson.id}, must_be_new=must_be_new)


def supported(kept: Lesson, again: Lesson, *, another_task: bool) -> Lesson:
    """Return a lesson with the support of an attempt that taught it again; the same attempt counts only once.

    ``another_task`` says that it is found by the task of that attempt too. A retired lesson stays retired, because
    learning a harmful lesson again does not make it better. An attempt that taught a less trusted lesson, which was
    merged into this one, is noted but adds no support.
    """
    if attempt_of(again) in known_attempts(kept):
        return kept
    kept = _with_copy(kept, again, task_ids=[again.task_id] if another_task else [])
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
    """Return a lesson into which others are merged: supports add up, and an attempt that taught two counts once.

    Less trusted lessons add no support, so that no outsider can push a lesson up.
    """
    merged_ids = [kept.id]
    for other in others:
        merged_ids.append(other.id)
        support = other.support - len(known_attempts(kept) & known_attempts(other))
        task_ids = [other.task_id, *listed(other, TASKS)]
        kept = _with_copy(kept, other, listed(other, COPIES), task_ids=task_ids)
        if _LEAST_TRUSTED_FIRST.index(other.trust) >= _LEAST_TRUSTED_FIRST.index(kept.trust):
            kept = replace(kept, support=kept.support + max(support, 0))
        kept = replace(
            kept,
            tools=tuple(dict.fromkeys((*kept.tools, *other.tools))),
            contradicts=tuple(dict.fromkeys((*kept.contradicts, *other.contradicts))),
        )
    return replace(kept, contradicts=tuple(each for each in kept.contradicts if each not in merged_ids))


def merged_away(lesson: Lesson, into: str) -> Lesson:
    """Return a lesson that was merged into another: retired, with the id of the other."""
    metadata: dict[str, JSON] = {**lesson.metadata, MERGED_INTO: into}
    return replace(lesson, state="retired", state_reason=f"merged into {into}", metadata=metadata)


def unmerged(lesson: Lesson) -> Lesson:
    """Return a lesson that is no longer merged into another; its state stays."""
    kept = {name: value for name, value in lesson.metadata.items() if name != MERGED_INTO}
    return replace(lesson, metadata=kept)


def attempt_of(lesson: Lesson) -> Attempt:
    """Return what identifies the attempt that first taught a lesson."""
    return lesson.provenance.run_id, lesson.provenance.attempt, lesson.task_id


def known_attempts(lesson: Lesson) -> set[Attempt]:
    """Return the attempts that taught a lesson, as far as it has notes of them."""
    notes = cast("Sequence[Mapping[str, JSON]]", listed(lesson, COPIES))
    return {attempt_of(lesson)} | {(each["run_id"], each["attempt"], each["task_id"]) for each in notes}


def _with_copy(kept: Lesson, copy: Lesson, notes: Sequence[JSON] = (), *, task_ids: Sequence[JSON]) -> Lesson:
    """Return a lesson with a note of its copy, after the ``notes`` that this one had of its own."""
    tasks = dict.fromkeys([*listed(kept, TASKS), *(each for each in task_ids if each != kept.task_id)])
    note: dict[str, JSON] = {"text": copy.text, "task_id": copy.task_id, "trust": copy.trust}
    metadata: dict[str, JSON] = {
        **kept.metadata,
        COPIES: [*listed(kept, COPIES), *notes, note | asdict(copy.provenance)][-NOTES:],
    }
    if tasks:
        metadata[TASKS] = list(tasks)
    return replace(kept, metadata=metadata)
