"""Forgetting a lesson removes its words everywhere: also from lessons that took it in, and from their histories.

A lesson that was merged into another one left its text, notes and tasks there, and other lessons name its id. All of
that is struck; numbers such as support stay. What another lesson learned by itself stays, even if the words are the
same. Only a digest of the forgotten id is kept, to recognise a backup that would bring the lesson back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, cast

from jeeves_reflexion.errors import UnknownLessonError
from jeeves_reflexion.lessons.credit.records import each_record, swap
from jeeves_reflexion.lessons.duplicates import known_attempts
from jeeves_reflexion.lessons.history import HISTORY, Change, Entry, listed
from jeeves_reflexion.lessons.quarantine import QUARANTINE, Quarantine
from jeeves_reflexion.lessons.records import (
    COPIES,
    DRAWN_FROM,
    MERGED_INTO,
    TASKS,
    WORDINGS,
    StoredLesson,
    from_whole,
    whole,
)
from jeeves_reflexion.lessons.repository import FORGOTTEN, Repository, digest_of
from jeeves_reflexion.types import JSON, Lesson

STRUCK: Final = "[forgotten]"
"""What replaces an id, a text or a task of a forgotten lesson."""

_BACK: Final = ("rollback", "undo", "forget")
"""Operations that may bring back words and tasks that a lesson had from another one."""
_LONG: Final = 12
"""The length from which a text is also looked for within other texts."""

Fields: TypeAlias = Mapping[str, Any]  # JSON whose form was checked where it was read


@dataclass(frozen=True, slots=True)
class Traces:
    """What other records may hold of a lesson: its id, its own and merged texts, its tasks, and its attempts."""

    id: str
    texts: frozenset[str]
    tasks: frozenset[str]
    task_ids: frozenset[str]
    attempts: frozenset[tuple[JSON, JSON, JSON]]


async def forget_traces(repository: Repository, lesson_id: str) -> bool:
    """Note that a lesson is forgotten, and strike it from all other lessons and their histories.

    The lesson itself stays, for the caller to remove. Returns False if it does not exist.
    """
    stored = await repository.read(lesson_id)
    if stored is None:
        return False
    history = await repository.history(lesson_id)
    # From now on no write can bring its words back.
    await repository.records.append_once(FORGOTTEN, digest_of(lesson_id), {})
    traces = _traces_of(stored, history)
    left: dict[str, Traces] = {}
    async for other in repository.each():
        if other.id != lesson_id and _changed(whole(other), traces) is not None:
            left[other.id] = await _without_own(repository, other.id, traces)
            await _strike_lesson(repository, other.id, left[other.id])
    for collection in (HISTORY, QUARANTINE):
        async for record in each_record(repository.records, collection):
            of = record.key.rpartition(":")[0] if collection == HISTORY else record.key
            if of == lesson_id or _changed(record.value, traces) is None:
                continue
            if of not in left:
                left[of] = await _without_own(repository, of, traces)
            await swap(repository.records, collection, record.key, partial(_changed, traces=left[of]))
    return True


def _traces_of(stored: StoredLesson, history: Sequence[Entry]) -> Traces:
    texts, tasks, ids, attempts = set[str](), set(stored.tasks), set[str](), set[tuple[JSON, JSON, JSON]]()
    versions = [stored.lesson]
    for entry in history:
        versions += [entry.after] if entry.before is None else [entry.before, entry.after]
        tasks.update(entry.added, entry.removed)
    for each in versions:
        notes = cast("Sequence[Fields]", listed(each, COPIES))
        texts.update((each.text, *map(str, listed(each, WORDINGS)), *(note["text"] for note in notes)))
        tasks.add(each.task_excerpt)
        ids.update((each.task_id, *map(str, listed(each, TASKS))))
        attempts |= known_attempts(each)
    return Traces(
        stored.lesson.id, frozenset(texts), frozenset(tasks - {""}), frozenset(ids), frozenset(attempts)
    )


async def _without_own(repository: Repository, of: str, traces: Traces) -> Traces:
    """Return the traces without what a lesson, or a text in quarantine, has by itself.

    These are the words and tasks that it learned, or got by merges with still other lessons.
    """
    own = set[str]()
    if await repository.get(of) is not None:
        own = await _first(repository, of, traces)
        for entry in await repository.history(of):
            if entry.operation == "merge":
                for other in entry.others:
                    own |= set() if other == traces.id else await _first(repository, other, traces)
            elif entry.operation not in _BACK:
                own |= {entry.after.text, *entry.added}
    elif (held := await Quarantine(repository).get(of)) is not None:
        own = {held.lesson.text, held.lesson.task_excerpt, *held.tasks}
    own -= {STRUCK}
    return replace(traces, texts=traces.texts - own, tasks=traces.tasks - own)


async def _first(repository: Repository, lesson_id: str, traces: Traces) -> set[str]:
    """Return the words and the task that a lesson began with."""
    stored = await repository.read(lesson_id)
    if stored is None:
        return set()
    history = await repository.history(lesson_id)
    first = history[0].after if history else stored.lesson
    # Earlier versions drew lessons from others, with their tasks.
    drawn = traces.id in listed(first, DRAWN_FROM)
    return {first.text} if drawn else {first.text, first.task_excerpt, *stored.tasks[:1]}


async def _strike_lesson(repository: Repository, lesson_id: str, traces: Traces) -> None:
    """Strike the traces from a lesson; if its own words are struck, it gets its last words before them."""
    texts = [entry.after.text for entry in await repository.history(lesson_id)]
    words = next((text for text in reversed(texts) if text not in traces.texts), STRUCK)

    def make(now: Lesson) -> Lesson:
        text = words if now.text in traces.texts else now.text
        return from_whole({**cast("Fields", _struck(whole(now), traces)), "text": text})

    change = Change("forget", "a lesson that it knew of was forgotten")
    with contextlib.suppress(UnknownLessonError):  # somebody has forgotten this lesson too
        await repository.change(lesson_id, make, change, without=traces.tasks)


def _changed(value: JSON, traces: Traces) -> JSON | None:
    """Return a JSON value without the traces; None if it has none."""
    struck = _struck(value, traces)
    return None if struck == value else struck


def _struck(value: JSON, traces: Traces, key: str = "") -> JSON:
    """Return a JSON value without the traces: fields are overwritten, items of lists are removed."""
    if isinstance(value, str):
        if value in traces.texts or value in traces.tasks or (value == traces.id and key == MERGED_INTO):
            return STRUCK
        if key in ("reason", "state_reason"):
            for trace in (traces.id, *sorted((*traces.texts, *traces.tasks), key=len, reverse=True)):
                if trace == traces.id or len(trace) >= _LONG:
                    value = value.replace(trace, STRUCK)
    elif isinstance(value, Mapping):
        fields = {name: _struck(item, traces, name) for name, item in value.items()}
        notes, tasks = fields.get(COPIES), fields.get(TASKS)
        if isinstance(tasks, list) and isinstance(notes, list):
            # A task stays if a note of a copy that is left names it.
            known = [note.get("task_id") for note in notes if isinstance(note, Mapping)]
            fields[TASKS] = [task for task in tasks if task in known or task not in [*traces.task_ids]]
        return fields
    elif isinstance(value, Sequence):
        return [_struck(item, traces, key) for item in value if not _is_trace(item, traces)]
    return value


def _is_trace(item: JSON, traces: Traces) -> bool:
    if isinstance(item, str):
        return item == traces.id or item in traces.texts or item in traces.tasks
    if not isinstance(item, Mapping) or "run_id" not in item:
        return False
    text, attempt = item.get("text"), [item.get(name) for name in ("run_id", "attempt", "task_id")]
    # The metadata of a lesson may hold any JSON: a value that can't be hashed is not one of our notes.
    hashable = all(isinstance(each, str | int | None) for each in (text, *attempt))
    return hashable and (text in traces.texts or tuple(attempt) in traces.attempts)
