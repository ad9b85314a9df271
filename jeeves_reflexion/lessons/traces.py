"""Forgetting a lesson means forgetting its words everywhere: in the lessons that took it in, and in their histories.

A lesson that was merged into another left there its text, notes of it, and tasks; others name its id. All of that is
struck; numbers such as support stay. What another lesson learned by itself is its own, and stays, also where it is the
same words. What is kept of the forgotten one is a digest of its id, so that a backup that has it is known to bring it
back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias, cast

import anyio.lowlevel

from jeeves_reflexion.errors import UnknownLessonError
from jeeves_reflexion.lessons.credit.records import each_record, swap
from jeeves_reflexion.lessons.history import HISTORY, Change
from jeeves_reflexion.lessons.quarantine import QUARANTINE
from jeeves_reflexion.lessons.records import from_whole, lesson_from_fields, whole
from jeeves_reflexion.lessons.repository import FORGOTTEN, Repository, digest_of
from jeeves_reflexion.lessons.schema import COPIES, DRAWN_FROM, MERGED_INTO, TASKS, WORDINGS
from jeeves_reflexion.types import JSON, Lesson

STRUCK: Final = "[forgotten]"
"""What stands where an id, a text or a task of a forgotten lesson stood."""

_IN_A_TURN: Final = 25  # few enough to be looked through in a millisecond or two of the event loop's time
_BACK: Final = ("rollback", "undo", "forget")
"""Operations after which a lesson may have words and tasks again that it had from another."""
_LONG: Final = 12
"""Only texts of so many characters are looked for within others."""

Fields: TypeAlias = Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Traces:
    """What may be left of a lesson elsewhere: its id, texts it had or took in, tasks, and what attempts taught it."""

    id: str
    texts: frozenset[str]
    tasks: frozenset[str]
    task_ids: frozenset[str]
    attempts: frozenset[tuple[JSON, JSON, JSON]]
    speakers: frozenset[str] = frozenset()
    """The ids of those that spoke for it, and of those that spoke for these in turn."""

    def without(self, own: frozenset[str]) -> Traces:
        """Return the traces but for those texts that another lesson has as its own."""
        return replace(self, texts=self.texts - own, tasks=self.tasks - own)


async def forget_traces(
    repository: Repository, lesson_id: str, *, once: tuple[Lesson, Sequence[str]] | None = None
) -> bool:
    """Strike a lesson that is still there from all others and their histories, and note that it is forgotten.

    ``once`` is what lies in quarantine under the id, with the texts of its tasks: if it was a lesson once, it is struck
    too. Returns False if there was none.
    """
    stored = await repository.read(lesson_id)
    lesson, tasks = (None, ()) if stored is None else (stored.lesson, stored.tasks)
    entries = await repository.entries(lesson_id)
    if lesson is None and once is not None and entries:
        lesson, tasks = once[0], tuple(once[1])
    if lesson is None:
        return False
    await repository.note_forgotten(lesson_id)
    speakers = await _speakers(repository, lesson_id)
    traces = replace(_traces(lesson, entries, tasks), speakers=speakers)
    owned: dict[str, frozenset[str]] = {}
    number = 0
    async for other in repository.each():
        number += 1
        if number % _IN_A_TURN == 0:
            await anyio.lowlevel.checkpoint()  # a store in memory lets nobody else have a turn
        if other.id != lesson_id and _struck(whole(other), traces) != whole(other):
            owned[other.id] = await _own(repository, other, traces)
            await _strike_lesson(repository, other.id, traces.without(owned[other.id]))
    await _strike_histories(repository, traces, owned)
    await _strike_quarantine(repository, traces)
    return True


async def forgotten(repository: Repository) -> Forgotten:
    """Return which lessons were forgotten here."""
    return Forgotten(frozenset([record.key async for record in each_record(repository.records, FORGOTTEN)]))


async def remember(repository: Repository, lesson_id: str) -> None:
    """Take back that a lesson is forgotten: it was put there again on purpose."""
    await repository.records.delete_records(FORGOTTEN, [digest_of(lesson_id)])


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The ids that were forgotten; one can ask for an id, and not list them."""

    digests: frozenset[str] = frozenset()

    def __contains__(self, lesson_id: object) -> bool:
        return isinstance(lesson_id, str) and digest_of(lesson_id) in self.digests


def _traces(lesson: Lesson, entries: Sequence[JSON], known: Sequence[str]) -> Traces:
    versions: list[Fields] = [whole(lesson)]
    tasks = set(known)
    for entry in cast("Sequence[Fields]", entries):
        versions += [cast("Fields", entry[side]) for side in ("before", "after") if entry.get(side)]
        for changed in cast("Mapping[str, Sequence[str]]", entry.get("tasks", {})).values():
            tasks.update(changed)
    texts, ids, attempts = set[str](), set[str](), set[tuple[JSON, JSON, JSON]]()
    for each in versions:
        extra = cast("Fields", each["extra"])
        notes = [note for note in _items(extra, COPIES) if isinstance(note, Mapping)]
        texts |= {cast("str", each["text"]), *cast("list[str]", _items(extra, WORDINGS))}
        tasks.add(cast("str", each["task_excerpt"]))
        ids |= {cast("str", each["task_id"]), *cast("list[str]", _items(extra, TASKS))}
        for one in (each, *notes):
            texts.add(cast("str", one["text"]))
            attempts.add((one["run_id"], one["attempt"], one["task_id"]))
    return Traces(lesson.id, frozenset(texts), frozenset(tasks - {""}), frozenset(ids), frozenset(attempts))


async def _speakers(repository: Repository, lesson_id: str) -> frozenset[str]:
    """The ids of the lessons that a lesson was merged into at any time, and that these were merged into."""
    found, ahead = set[str](), [lesson_id]
    while ahead:
        for entry in cast("Sequence[Fields]", await repository.entries(ahead.pop())):
            extra = cast("Fields", cast("Fields", entry["after"])["extra"])
            into = cast("str | None", extra.get(MERGED_INTO))
            if into is not None and into not in (*found, lesson_id):
                found.add(into)
                ahead.append(into)
    return frozenset(found)


async def _own(
    repository: Repository, lesson: Lesson, traces: Traces, passed: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The words and tasks of a lesson that are not from the forgotten one, also not through another."""
    gone = {traces.id, *traces.speakers}
    entries = cast("Sequence[Fields]", await repository.entries(lesson.id))
    first = cast("Fields", entries[0]["before"] or entries[0]["after"]) if entries else whole(lesson)
    own = {cast("str", first["text"])}
    if traces.id not in _items(cast("Fields", first["extra"]), DRAWN_FROM):
        tasks = await repository.tasks_of([lesson.id])
        own |= {cast("str", first["task_excerpt"]), *tasks.get(lesson.id, ())[:1]}
    for entry in entries:
        others = cast("Sequence[str]", _items(entry, "others"))
        from_others = entry["operation"] == "merge" and (not others or not gone.isdisjoint(others))
        if not from_others and entry["operation"] not in _BACK:
            own.add(cast("str", cast("Fields", entry["after"])["text"]))
            own |= set(cast("Mapping[str, Sequence[str]]", entry.get("tasks", {})).get("added", ()))
        if from_others:  # what the one between learned by itself
            for other in {*others} - {traces.id, lesson.id, *passed}:
                between = await repository.get(other)
                if between is not None:
                    own |= await _own(repository, between, traces, passed | {lesson.id})
    return frozenset(own - {STRUCK})


async def _own_of(repository: Repository, lesson_id: str, traces: Traces) -> frozenset[str]:
    lesson = await repository.get(lesson_id)
    if lesson is None:
        held = await repository.records.get(QUARANTINE, lesson_id)
        if held is None:
            return frozenset()
        lesson = from_whole(cast("Fields", held.value)["lesson"])
    return await _own(repository, lesson, traces)


async def _strike_lesson(repository: Repository, lesson_id: str, traces: Traces) -> None:
    entries = cast("Sequence[Fields]", await repository.entries(lesson_id))
    said = [cast("str", cast("Fields", entry["after"])["text"]) for entry in entries]
    words = next((text for text in reversed(said) if text not in traces.texts), STRUCK)

    def make(now: Lesson) -> Lesson:
        fields = cast("Fields", _struck(whole(now), traces))
        text = words if now.text in traces.texts else now.text
        return lesson_from_fields(text, fields)

    change = Change("forget", "a lesson that it knew of was forgotten")
    with contextlib.suppress(UnknownLessonError):  # it was forgotten itself meanwhile
        await repository.change(lesson_id, make, change, without=traces.tasks)


async def _strike_quarantine(repository: Repository, traces: Traces) -> None:
    """Strike a lesson from texts that were let in, took something from it, and were put back; words stay their own."""
    async for record in each_record(repository.records, QUARANTINE):
        if record.key == traces.id or _struck(record.value, traces) == record.value:
            continue
        held = cast("Fields", record.value)
        lesson, tasks = from_whole(held["lesson"]), cast("Sequence[str]", held["tasks"])
        if await repository.entries(record.key):
            tasks = tasks[:1]
        own = await _own(repository, lesson, traces) | {lesson.text, lesson.task_excerpt, *tasks}
        left = partial(_changed, traces=traces.without(own))
        await swap(repository.records, QUARANTINE, record.key, left)


async def _strike_histories(repository: Repository, traces: Traces, owned: dict[str, frozenset[str]]) -> None:
    number = 0
    async for record in each_record(repository.records, HISTORY):
        number += 1
        if number % _IN_A_TURN == 0:
            await anyio.lowlevel.checkpoint()
        lesson_id = record.key.rpartition(":")[0]
        if lesson_id == traces.id or _struck(record.value, traces) == record.value:
            continue
        if lesson_id not in owned:
            owned[lesson_id] = await _own_of(repository, lesson_id, traces)
        left = partial(_changed, traces=traces.without(owned[lesson_id]))
        await swap(repository.records, HISTORY, record.key, left)


def _changed(value: JSON, traces: Traces) -> JSON | None:
    struck = _struck(value, traces)
    return None if struck == value else struck


def _struck(value: JSON, traces: Traces, key: str = "") -> JSON:
    """Return a JSON value without the traces: struck where a field needs something, left out of lists."""
    if isinstance(value, str):
        return _struck_text(value, traces, key)
    if isinstance(value, Mapping):
        fields = {name: _struck(item, traces, name) for name, item in value.items()}
        if isinstance(fields.get(TASKS), list) and COPIES in fields:
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
    if not isinstance(item, Mapping):
        return False
    text, attempt = item.get("text"), [item.get(name) for name in ("run_id", "attempt", "task_id")]
    # Any JSON may lie in a lesson's metadata: what can't be hashed is no note of ours.
    hashable = all(isinstance(each, str | int | None) for each in (text, *attempt))
    return "run_id" in item and hashable and (text in traces.texts or tuple(attempt) in traces.attempts)


def _known_tasks(fields: Fields, traces: Traces) -> JSON:
    """The ids of the tasks that a lesson still knows by its copies."""
    notes = [note for note in _items(fields, COPIES) if isinstance(note, Mapping)]
    known = {note["task_id"] for note in notes}
    return [task for task in _items(fields, TASKS) if task in known or task not in traces.task_ids]


def _items(fields: Fields, key: str) -> Sequence[JSON]:
    return cast("Sequence[JSON]", fields.get(key, ()))
