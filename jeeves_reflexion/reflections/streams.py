"""The principles and procedures of important reflections, which outlast their task.

Principles are candidates for permanent rules, which a person approves; procedures are playbooks to replay. Approved
items reach prompts only through a :class:`~jeeves_reflexion.reflections.library.ReflectionLibrary` with these streams.
This module also decides which items and reflections matter for a task, and which of them give orders.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from anyio.to_thread import run_sync
from pydantic import TypeAdapter

from jeeves_reflexion.errors import ConfigurationError, LessonRefusedError, LessonStoreError
from jeeves_reflexion.lessons.credit.records import each_record, swap
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.lessons.screening.rules import screen
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.endpoints import named_tools
from jeeves_reflexion.reflections.forms import PRINCIPLE
from jeeves_reflexion.reflections.markdown import Entry, agent_slug, plain_id
from jeeves_reflexion.types import JSON, Task
from vectorstores.base import RecordStore

PRINCIPLES: Final = "principles"
PROCEDURES: Final = "procedures"

ItemState: TypeAlias = Literal["candidate", "approved", "rejected"]


@dataclass(frozen=True, slots=True)
class StreamItem:
    """A principle or procedure; ``sources`` are the ids of the reflections with it, oldest first.

    The agent and the fields of the task are those of the first source. Older versions stored no task ids and tools.
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


_ITEM: Final = TypeAdapter(StreamItem)


def flaw(text: str) -> str:
    """Return how a text of a reflection gives orders to its readers; empty if it is advice."""
    # A principle begins with words of its form, "follow this rule", which are not an order.
    finding = screen(f"\n{text}".replace(f"\n{PRINCIPLE}", "\n"))
    return "" if finding is None else f"{finding.why} ({finding.excerpt!r})"


def flaw_of(entry: Entry) -> str:
    """Return how a reflection gives orders to its readers; empty if it is advice."""
    return flaw(f"{entry.summary}\n{entry.body}")


def relevances(task: Task, others: Iterable[tuple[Entry | StreamItem, str]]) -> list[tuple[str, str]]:
    """Return why each of the entries or items, with its text, matters for a task. Blocks for long texts.

    Each has two reasons, which are empty if they do not apply: the task or its type is the same; and both name the same
    tool, endpoint or API, as a tool or in their text.
    """
    ours, task_id = named_tools(task.tools, task.prompt), plain_id(task.id)
    reasons = []
    for other, text in others:
        same_type = other.task_kind and task.kind and other.task_kind.casefold() == task.kind.casefold()
        of_type = "the same task type" if same_type else ""
        if other.task_id and other.task_id == task_id:
            of_type = "the same task"
        theirs, whole = named_tools(other.tools, text), "\n".join((text, *other.tools))
        shared = [name for key, name in ours.items() if key in theirs or _names(whole, key, name)]
        shared += [name for key, name in theirs.items() if key not in ours and _names(task.prompt, key, name)]
        reasons.append((of_type, f"the same tool ({', '.join(sorted(shared))})" if shared else ""))
    return reasons


def _names(text: str, key: str, tool: str) -> bool:
    """Return whether a text names a tool; a plain word, such as ``search``, must be quoted or called like one."""
    name = re.escape(key)
    if tool.isalpha() and tool[1:].islower():
        return re.search(rf"`{name}`|(?<!\w){name}[(\[]", text, re.IGNORECASE) is not None
    begins = "" if key.startswith("/") else r"(?<!\w)"  # a path may follow a host
    ends = r"(?![\w-])" if "/" in key else r"(?!\w)"
    return re.search(f"{begins}{name}{ends}", text, re.IGNORECASE) is not None


class Stream:
    """The items of one collection of a record store. A store that fails raises :class:`LessonStoreError`."""

    def __init__(self, records: RecordStore, collection: str) -> None:
        self._records = records
        self.collection = collection
        self._errors = partial(store_errors, f"read or write the {collection}")

    async def add(self, text: str, entry: Entry) -> StreamItem:
        """Add the text of a reflection. A known item gets one more source, and keeps a person's decision on it."""
        text = redact(clean_characters(text))
        key = hashlib.sha256(" ".join(text.casefold().split()).encode("utf-8", "replace")).hexdigest()[:32]
        first = StreamItem(
            key, text, entry.agent, entry.task_kind, (entry.id,), task_id=entry.task_id, tools=entry.tools
        )
        async with self._errors():
            document = _ITEM.dump_python(first, mode="json", exclude={"id"})
            if await self._records.append_once(self.collection, key, document):
                return first
        return await self._change(
            key, lambda item: replace(item, sources=tuple(dict.fromkeys((*item.sources, entry.id))))
        )

    async def list(self, state: ItemState | None = None) -> tuple[StreamItem, ...]:
        """Return the items, or those in one state, oldest first."""
        async with self._errors():
            records = each_record(self._records, self.collection)
            items = [self._item(record.key, record.value) async for record in records]
        return tuple(item for item in items if state in (None, item.state))

    async def approve(self, id: str, *, reason: str = "") -> StreamItem:
        """Approve an item for prompts; raises :class:`LessonRefusedError` if it gives orders to its readers."""

        def approved(item: StreamItem) -> StreamItem:
            if why := flaw(item.text):
                raise LessonRefusedError(
                    f"item {id} of the {self.collection} can't be approved: it {why}", id
                )
            return replace(item, state="approved", reason=redact(reason))

        return await self._change(id, approved)

    async def reject(self, id: str, *, reason: str = "") -> StreamItem:
        """Reject an item. It is kept, so that it does not become a candidate again."""
        return await self._change(id, lambda item: replace(item, state="rejected", reason=redact(reason)))

    async def forget(self, source: str) -> None:
        """Remove a reflection from the sources, and every item, approved or not, that has no other source."""
        for item in await self.list():
            if source not in item.sources:
                continue
            left = await self._change(
                item.id, lambda now: replace(now, sources=tuple(id for id in now.sources if id != source))
            )
            if not left.sources:
                async with self._errors():
                    await self._records.delete_records(self.collection, [item.id])

    async def _change(self, key: str, change: Callable[[StreamItem], StreamItem]) -> StreamItem:
        """Change an item, also while others change it; return it afterwards."""

        def changed(value: JSON) -> JSON | None:
            item = self._item(key, value)
            new = change(item)
            return None if new == item else _ITEM.dump_python(new, mode="json", exclude={"id"})

        async with self._errors():
            await swap(self._records, self.collection, key, changed)
            record = await self._records.get(self.collection, key)
        if record is None:
            raise ConfigurationError(f"there is no item {key!r} among the {self.collection}")
        return self._item(key, record.value)

    def _item(self, key: str, value: JSON) -> StreamItem:
        fields: Any = value
        try:
            return _ITEM.validate_python({**fields, "id": key})
        except (TypeError, ValueError) as error:
            raise LessonStoreError(
                f"the record {key!r} of {self.collection} can't be read ({type(error).__name__}: {error})"
            ) from error


class Streams:
    """The tactical stream of principles, and the playbooks of procedures."""

    def __init__(self, records: RecordStore) -> None:
        self.principles = Stream(records, PRINCIPLES)
        self.procedures = Stream(records, PROCEDURES)

    async def take(self, entry: Entry) -> None:
        """Add the principle and procedure of an entry, if it has them. Repeating it changes nothing."""
        if entry.reflection.principle is not None:
            await self.principles.add(entry.reflection.principle, entry)
        if entry.reflection.procedure is not None:
            await self.procedures.add(entry.reflection.procedure, entry)

    async def approved(self, task: Task, agent: str | None = None) -> tuple[StreamItem, ...]:
        """Return the approved items for a prompt: the rules of an agent, and its playbooks that fit the task.

        Without ``agent``, returns those of all agents. A playbook fits tasks of its type, and tasks that share a tool
        or API with it.
        """
        of_agent = None if agent is None else agent_slug(agent)
        rules = await self.principles.list("approved")
        playbooks = await self.procedures.list("approved")
        reasons = await run_sync(relevances, task, [(item, item.text) for item in playbooks])
        fit = [item for item, why in zip(playbooks, reasons, strict=True) if any(why)]
        return tuple(item for item in (*rules, *fit) if of_agent in (None, item.agent))

    async def forget(self, source: str) -> None:
        """Remove a reflection from both streams."""
        await self.principles.forget(source)
        await self.procedures.forget(source)
