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
from jeeves_reflexion.lessons.history import HISTORY, Change
from jeeves_reflexion.lessons.quarantine import QUARANTINE
from jeeves_reflexion.lessons.records import (
    COPIES,
    DRAWN_FROM,
    MERGED_INTO,
    TASKS,
    WORDINGS,
    from_whole,
    lesson_from_fields,
    whole,
)
from jeeves_reflexion.lessons.repository import Repository
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

    def without(self, own: frozenset[str]) -> Traces:
        """Return the traces without the texts that are another lesson's own."""
        return replace(self, texts=self.texts - own, tasks=self.tasks - own)


async def forget_traces(repository: Repository, lesson_id: str) -> bool:
    """Note that a lesson is forgotten, and strike it from all other lessons and their histories.

    The lesson itself stays, for the caller to remove. Returns False if it does not exist.
    """
    stored = await repository.read(lesson_id)
    if stored is None:
        return False
    entries = cast("Sequence[Fields]", await repository.entries(lesson_id))
    await repository.note_forgotten(lesson_id)
    traces = _traces(stored.lesson, stored.tasks, entries)
    owned: dict[str, frozenset[str]] = {}
    async for other in repository.each():
        if other.id != lesson_id and _struck(whole(other), traces) != whole(other):
            owned[other.id] = await _own(repository, other, traces)
            await _strike_lesson(repository, other.id, traces.without(owned[other.id]))
    for collection in (HISTORY, QUARANTINE):
        async for record in each_record(repository.records, collection):
            of = record.key.rpartition(":")[0] if collection == HISTORY else record.key
            if of == lesson_id or _struck(record.value, traces) == record.value:
                continue
            if of not in owned:
                owned[of] = await _own_of(repository, of, traces)
            change = partial(_changed, traces=traces.without(owned[of]))
            await swap(repository.records, collection, record.key, change)
    return True


def _traces(lesson: Lesson, known: Sequence[str], entries: Sequence[Fields]) -> Traces:
    versions: list[Fields] = [whole(lesson)]
    texts, tasks, ids, attempts = set[str](), set(known), set[str](), set[tuple[JSON, JSON, JSON]]()
    for entry in entries:
        versions += [entry[side] for side in ("before", "after") if entry.get(side)]
        tasks.update(*entry.get("tasks", {}).values())
    for each in versions:
        extra = each["extra"]
        texts.update(extra.get(WORDINGS, ()))
        tasks.add(each["task_excerpt"])
        ids |= {each["task_id"], *extra.get(TASKS, ())}
        for one in (each, *extra.get(COPIES, ())):
            texts.add(one["text"])
            attempts.add((one["run_id"], one["attempt"], one["task_id"]))
    known_tasks = frozenset(tasks - {""})
    return Traces(lesson.id, frozenset(texts), known_tasks, frozenset(ids), frozenset(attempts))


async def _own(repository: Repository, lesson: Lesson, traces: Traces) -> frozenset[str]:
    """Return the words and tasks that a lesson learned by itself or got by merges with still other lessons."""
    own = await _first(repository, lesson.id, traces)
    for entry in cast("Sequence[Fields]", await repository.entries(lesson.id)):
        if entry["operation"] == "merge":
            for other in entry.get("others", ()):
                own |= set() if other == traces.id else await _first(repository, other, traces)
        elif entry["operation"] not in _BACK:
            own |= {entry["after"]["text"], *entry.get("tasks", {}).get("added", ())}
    return frozenset(own - {STRUCK})


async def _first(repository: Repository, lesson_id: str, traces: Traces) -> set[str]:
    """Return the words and the task that a lesson began with."""
    stored = await repository.read(lesson_id)
    if stored is None:
        return set()
    entries = cast("Sequence[Fields]", await repository.entries(lesson_id))
    first: Fields = entries[0]["after"] if entries else whole(stored.lesson)
    # Earlier versions drew lessons from others, with their tasks.
    drawn = traces.id in first["extra"].get(DRAWN_FROM, ())
    return {first["text"]} if drawn else {first["text"], first["task_excerpt"], *stored.tasks[:1]}


async def _own_of(repository: Repository, lesson_id: str, traces: Traces) -> frozenset[str]:
    """Do what :func:`_own` does, given the id of a lesson or of a text in quarantine."""
    lesson = await repository.get(lesson_id)
    if lesson is not None:
        return await _own(repository, lesson, traces)
    record = await repository.records.get(QUARANTINE, lesson_id)
    if record is None:
        return frozenset()
    held = cast("Fields", record.value)
    lesson = from_whole(held["lesson"])
    return frozenset({lesson.text, lesson.task_excerpt, *held["tasks"]})


async def _strike_lesson(repository: Repository, lesson_id: str, traces: Traces) -> None:
    """Strike the traces from a lesson; if its own words are struck, it gets its last words before them."""
    texts = [cast("Fields", entry)["after"]["text"] for entry in await repository.entries(lesson_id)]
    words = next((text for text in reversed(texts) if text not in traces.texts), STRUCK)

    def make(now: Lesson) -> Lesson:
        text = words if now.text in traces.texts else now.text
        return lesson_from_fields(text, _struck(whole(now), traces))

    change = Change("forget", "a lesson that it knew of was forgotten")
    with contextlib.suppress(UnknownLessonError):  # somebody has forgotten this lesson too
        await repository.change(lesson_id, make, change, without=traces.tasks)


def _changed(value: JSON, traces: Traces) -> JSON | None:
    struck = _struck(value, traces)
    return None if struck == value else struck


def _struck(value: JSON, traces: Traces, key: str = "") -> JSON:
    """Return a JSON value without the traces: fields are overwritten, items of lists are removed."""
    if isinstance(value, str):
        return _struck_text(value, traces, key)
    if isinstance(value, Mapping):
        fields = {name: _struck(item, traces, name) for name, item in value.items()}
        if isinstance(fields.get(TASKS), list) and isinstance(fields.get(COPIES), list):
            fields[TASKS] = _known_tasks(fields, traces)
        return fields
    if isinstance(value, Sequence):
        return [_struck(item, traces, key) for item in value if not _is_trace(item, traces)]
    return value


def _struck_text(text: str, traces: Traces, key: str) -> str:
    if text in traces.texts or text in traces.tasks or (text == traces.id and key == MERGED_INTO):
        return STRUCK
    if key in ("reason", "state_reason"):
        for trace in (traces.id, *sorted((*traces.texts, *traces.tasks), key=len, reverse=True)):
            if trace == traces.id or len(trace) >= _LONG:
                text = text.replace(trace, STRUCK)
    return text


def _is_trace(item: JSON, traces: Traces) -> bool:
    if isinstance(item, str):
        return item == traces.id or item in traces.texts or item in traces.tasks
    if not isinstance(item, Mapping) or "run_id" not in item:
        return False
    text, attempt = item.get("text"), [item.get(name) for name in ("run_id", "attempt", "task_id")]
    # The metadata of a lesson may hold any JSON: a value that can't be hashed is not one of our notes.
    hashable = all(isinstance(each, str | int | None) for each in (text, *attempt))
    return hashable and (text in traces.texts or tuple(attempt) in traces.attempts)


def _known_tasks(fields: Fields, traces: Traces) -> JSON:
    """Return the ids of the tasks that a lesson keeps, since a note of a copy names them or they are no traces."""
    known = [note.get("task_id") for note in fields[COPIES] if isinstance(note, Mapping)]
    return [task for task in fields[TASKS] if task in known or task not in [*traces.task_ids]]
