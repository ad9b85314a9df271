"""What important reflections leave beyond the task: principles (candidates for permanent rules) and procedures.

Seed 002, section 6: the principles are the tactical stream, from which a person approves permanent rules of the system
prompt; the procedures are playbooks to replay. Each has a record collection of its own. What is approved reaches
prompts through a :class:`~jeeves_reflexion.reflections.library.ReflectionLibrary` that is given the streams;
nothing else reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast

from jeeves_reflexion.errors import ConfigurationError, LessonRefusedError, LessonStoreError
from jeeves_reflexion.mars import rule_of, steps_of
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.gate import flaw
from jeeves_reflexion.reflections.markdown import Entry
from jeeves_reflexion.reflections.naming import agent_slug
from jeeves_reflexion.reflections.relevance import same_tool, same_type
from jeeves_reflexion.types import JSON, Task
from vectorstores.base import ConflictError, Record, RecordStore, VectorStoreError

PRINCIPLES: Final = "principles"
PROCEDURES: Final = "procedures"
TRIES: Final = 20

ItemState: TypeAlias = Literal["candidate", "approved", "rejected"]


@dataclass(frozen=True, slots=True)
class StreamItem:
    """A principle or procedure; ``sources`` are the ids of the reflections that came to it, the first one first.

    Agent, type, id and tools of the task are those of the first. Ids and tools are empty in items of older versions.
    """

    id: str
    text: str
    agent: str
    task_kind: str | None
    sources: tuple[str, ...]
    state: ItemState = "candidate"
    reason: str = ""
    task_id: str = ""
    tools: tuple[str, ...] = ()

    @property
    def body(self) -> str:
        """Its text, as relevance looks at it."""
        return self.text

    @property
    def rule(self) -> str | None:
        """The one sentence of a principle; None for a procedure."""
        return rule_of(self.text)

    @property
    def steps(self) -> tuple[str, ...] | None:
        """The steps of a procedure; None for a principle."""
        return steps_of(self.text)


class Stream:
    """One kind of them over any :class:`~vectorstores.base.RecordStore`; a failing store is a LessonStoreError."""

    def __init__(self, records: RecordStore, collection: str) -> None:
        self._records = records
        self.collection = collection

    async def add(self, text: str, entry: Entry) -> StreamItem:
        """Note what a reflection came to. Noted before, it gets one more source; a person's decision on it stays."""
        text = redact(text)
        key = hashlib.sha256(" ".join(text.casefold().split()).encode("utf-8", "replace")).hexdigest()[:32]
        first = StreamItem(
            key, text, entry.agent, entry.task_kind, (entry.id,), task_id=entry.task_id, tools=entry.tools
        )
        return await self._change(key, lambda item: _with_source(item, entry.id), first)

    async def list(self, state: ItemState | None = None) -> tuple[StreamItem, ...]:
        """Return the items, oldest first; those in one state if it is named."""
        found: list[StreamItem] = []
        after: str | None = None
        while True:
            try:
                page = await self._records.scan_records(self.collection, after=after)
            except VectorStoreError as error:
                raise LessonStoreError(f"could not list the {self.collection}: {error}") from error
            found += map(_item, page.records)
            if page.next is None:
                return tuple(item for item in found if state in (None, item.state))
            after = page.next

    async def approve(self, id: str, *, reason: str = "") -> StreamItem:
        """Make a candidate a permanent one: :meth:`Streams.approved` says whose prompts it reaches.

        Raises :class:`LessonRefusedError` for one that gives orders to its readers.
        """
        for item in await self.list():
            if item.id == id and (why := flaw(item.text)):
                raise LessonRefusedError(
                    f"item {id} of the {self.collection} can't be approved: it {why}", id
                )
        return await self._decide(id, "approved", reason)

    async def reject(self, id: str, *, reason: str = "") -> StreamItem:
        """Turn a candidate down; it is kept, so that it does not come again."""
        return await self._decide(id, "rejected", reason)

    async def forget(self, source: str) -> None:
        """Take a reflection out of the sources; an item that has no other goes with it, whatever was decided on it."""
        for item in await self.list():
            if source not in item.sources:
                continue
            left = await self._change(item.id, lambda found: _without_source(found, source), None)
            if not left.sources:
                try:
                    await self._records.delete_records(self.collection, [item.id])
                except VectorStoreError as error:
                    raise LessonStoreError(
                        f"could not take an item out of the {self.collection}: {error}"
                    ) from error

    async def _decide(self, id: str, state: ItemState, reason: str) -> StreamItem:
        return await self._change(id, lambda item: replace(item, state=state, reason=redact(reason)), None)

    async def _change(
        self, key: str, change: Callable[[StreamItem], StreamItem], first: StreamItem | None
    ) -> StreamItem:
        """Change an item against other writers of the same; ``first`` is written where there is none yet."""
        for _ in range(TRIES):
            try:
                record = await self._records.get(self.collection, key)
                if record is None and first is None:
                    raise ConfigurationError(f"there is no item {key!r} among the {self.collection}")
                item = first if record is None else change(_item(record))
                if record is not None and item == _item(record):
                    return item
                version = None if record is None else record.version
                await self._records.compare_and_swap(
                    self.collection, key, _document(cast("StreamItem", item)), version=version
                )
            except ConflictError:
                continue  # another writer was first: read what is there now, and change that
            except VectorStoreError as error:
                raise LessonStoreError(f"could not write to the {self.collection}: {error}") from error
            return cast("StreamItem", item)
        raise LessonStoreError(f"item {key} of the {self.collection} kept changing")


class Streams:
    """The tactical stream of principles, and the playbooks of procedures."""

    def __init__(self, records: RecordStore) -> None:
        self.principles = Stream(records, PRINCIPLES)
        self.procedures = Stream(records, PROCEDURES)

    async def take(self, entry: Entry) -> None:
        """Put an entry's principle and procedure, if it has them, where they belong; once, however often called."""
        if entry.reflection.principle is not None:
            await self.principles.add(entry.reflection.principle, entry)
        if entry.reflection.procedure is not None:
            await self.procedures.add(entry.reflection.procedure, entry)

    async def approved(self, task: Task, agent: str | None = None) -> tuple[StreamItem, ...]:
        """Return what a person approved for a prompt: the rules of an agent, and its playbooks for such a task.

        Without ``agent`` those of all. A playbook is for tasks of its type, or that share a tool or API with it.
        """
        of_agent = None if agent is None else agent_slug(agent)
        rules = [item for item in await self.principles.list("approved") if of_agent in (None, item.agent)]
        playbooks = [
            item
            for item in await self.procedures.list("approved")
            if of_agent in (None, item.agent) and (same_type(item, task) or same_tool(item, task))
        ]
        return (*rules, *playbooks)

    async def forget(self, source: str) -> None:
        """Take a reflection out of both."""
        await self.principles.forget(source)
        await self.procedures.forget(source)


def _with_source(item: StreamItem, source: str) -> StreamItem:
    return item if source in item.sources else replace(item, sources=(*item.sources, source))


def _without_source(item: StreamItem, source: str) -> StreamItem:
    return replace(item, sources=tuple(each for each in item.sources if each != source))


def _document(item: StreamItem) -> JSON:
    return {
        "text": item.text,
        "agent": item.agent,
        "task_kind": item.task_kind,
        "sources": list(item.sources),
        "state": item.state,
        "reason": item.reason,
        "task_id": item.task_id,
        "tools": list(item.tools),
    }


def _item(record: Record) -> StreamItem:
    try:
        value = cast("Mapping[str, Any]", record.value)
        return StreamItem(
            record.key,
            str(value["text"]),
            str(value["agent"]),
            value["task_kind"],
            tuple(map(str, value["sources"])),
            cast("ItemState", value["state"]),
            str(value["reason"]),
            str(value.get("task_id", "")),
            tuple(map(str, value.get("tools", ()))),
        )
    except (KeyError, TypeError) as error:
        raise LessonStoreError(
            f"the record {record.key!r} of {record.collection} is none of ours ({type(error).__name__}: {error})"
        ) from error
