"""What important reflections leave beyond the task: principles (candidates for permanent rules) and procedures.

The principles are the tactical stream, from which a person approves permanent rules of the system prompt; the
procedures are playbooks to replay. Each has a record collection of its own. What is approved reaches prompts through a
:class:`~jeeves_reflexion.reflections.library.ReflectionLibrary` that is given the streams; nothing else reads them.
Which of them, and which reflections, matter for a task, and which give orders, is decided here.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
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


def flaw(text: str) -> str:
    """Say how a text of a reflection tries to command its readers; empty if it is advice."""
    # The words that a principle begins with are the form's own: "follow this rule" is no order there.
    finding = screen(f"\n{text}".replace(f"\n{PRINCIPLE}", "\n"))
    return "" if finding is None else f"{finding.why} ({finding.excerpt!r})"


def flaw_of(entry: Entry) -> str:
    """Say how a reflection tries to command its readers; empty if it is advice."""
    return flaw(f"{entry.summary}\n{entry.body}")


def relevance_for(task: Task) -> Callable[[Entry | StreamItem, str], tuple[str, str]]:
    """Return what says how something that was told, in a text, matters for a task; blocks for long texts.

    It says that it is of the same type, and that it is for the same tool, endpoint or API: both name it, given as a
    tool or in words. Either is empty where it is not so.
    """
    ours, task_id = named_tools(task.tools, task.prompt), plain_id(task.id)

    def relevance(told: Entry | StreamItem, text: str) -> tuple[str, str]:
        same_type = told.task_kind and task.kind and told.task_kind.casefold() == task.kind.casefold()
        of_type = "the same task type" if same_type else ""
        if told.task_id and told.task_id == task_id:
            of_type = "the same task"
        theirs, whole = named_tools(told.tools, text), "\n".join((text, *told.tools))
        shared = [name for key, name in ours.items() if key in theirs or _names(whole, key, name)]
        shared += [name for key, name in theirs.items() if key not in ours and _names(task.prompt, key, name)]
        return of_type, f"the same tool ({', '.join(sorted(shared))})" if shared else ""

    return relevance


def _names(text: str, key: str, tool: str) -> bool:
    """Whether a text names a tool: a plain word, such as ``search``, only where it is quoted or called as one."""
    name = re.escape(key)
    if tool.isalpha() and tool[1:].islower():
        return re.search(rf"`{name}`|(?<!\w){name}[(\[]", text, re.IGNORECASE) is not None
    begins = "" if key.startswith("/") else r"(?<!\w)"  # a path begins behind a host
    ends = r"(?![\w-])" if "/" in key else r"(?!\w)"
    return re.search(f"{begins}{name}{ends}", text, re.IGNORECASE) is not None


class Stream:
    """One kind of them over any :class:`~vectorstores.base.RecordStore`; a failing store is a LessonStoreError."""

    def __init__(self, records: RecordStore, collection: str) -> None:
        self._records = records
        self.collection = collection

    async def add(self, text: str, entry: Entry) -> StreamItem:
        """Note what a reflection came to. Noted before, it gets one more source; a person's decision on it stays."""
        text = redact(clean_characters(text))
        key = hashlib.sha256(" ".join(text.casefold().split()).encode("utf-8", "replace")).hexdigest()[:32]
        first = StreamItem(
            key, text, entry.agent, entry.task_kind, (entry.id,), task_id=entry.task_id, tools=entry.tools
        )
        async with self._errors():
            if await self._records.append_once(self.collection, key, _document(first)):
                return first
        return await self._change(
            key, lambda item: replace(item, sources=tuple(dict.fromkeys((*item.sources, entry.id))))
        )

    async def list(self, state: ItemState | None = None) -> tuple[StreamItem, ...]:
        """Return the items, oldest first; those in one state if it is named."""
        async with self._errors():
            records = each_record(self._records, self.collection)
            found = [self._item(record.key, record.value) async for record in records]
        return tuple(item for item in found if state in (None, item.state))

    async def approve(self, id: str, *, reason: str = "") -> StreamItem:
        """Make a candidate a permanent one: :meth:`Streams.approved` says whose prompts it reaches.

        Raises :class:`LessonRefusedError` for one that gives orders to its readers.
        """

        def approved(item: StreamItem) -> StreamItem:
            if why := flaw(item.text):
                raise LessonRefusedError(
                    f"item {id} of the {self.collection} can't be approved: it {why}", id
                )
            return replace(item, state="approved", reason=redact(reason))

        return await self._change(id, approved)

    async def reject(self, id: str, *, reason: str = "") -> StreamItem:
        """Turn a candidate down; it is kept, so that it does not come again."""
        return await self._change(id, lambda item: replace(item, state="rejected", reason=redact(reason)))

    async def forget(self, source: str) -> None:
        """Take a reflection out of the sources; an item that has no other goes with it, whatever was decided on it."""

        def without(item: StreamItem) -> StreamItem:
            return replace(item, sources=tuple(each for each in item.sources if each != source))

        for item in await self.list():
            if source in item.sources and not (await self._change(item.id, without)).sources:
                async with self._errors():
                    await self._records.delete_records(self.collection, [item.id])

    async def _change(self, key: str, change: Callable[[StreamItem], StreamItem]) -> StreamItem:
        """Change an item against other writers of the same, and return it as it is then."""

        def changed(value: JSON) -> JSON | None:
            item = self._item(key, value)
            new = change(item)
            return None if new == item else _document(new)

        async with self._errors():
            await swap(self._records, self.collection, key, changed)
            record = await self._records.get(self.collection, key)
        if record is None:
            raise ConfigurationError(f"there is no item {key!r} among the {self.collection}")
        return self._item(key, record.value)

    def _errors(self) -> contextlib.AbstractAsyncContextManager[None]:
        return store_errors(f"read or write the {self.collection}")

    def _item(self, key: str, value: JSON) -> StreamItem:
        fields: Any = value
        try:
            return _ITEM.validate_python({**fields, "id": key})
        except (TypeError, ValueError) as error:
            raise LessonStoreError(
                f"the record {key!r} of {self.collection} is none of ours ({type(error).__name__}: {error})"
            ) from error


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
        rules = await self.principles.list("approved")
        playbooks = await self.procedures.list("approved")

        def fit() -> list[StreamItem]:
            relevance = relevance_for(task)
            return [item for item in playbooks if any(relevance(item, item.text))]

        found = (*rules, *await run_sync(fit))
        return tuple(item for item in found if of_agent in (None, item.agent))

    async def forget(self, source: str) -> None:
        """Take a reflection out of both."""
        await self.principles.forget(source)
        await self.procedures.forget(source)


_ITEM: Final = TypeAdapter(StreamItem)


def _document(item: StreamItem) -> JSON:
    value: JSON = _ITEM.dump_python(item, mode="json", exclude={"id"})
    return value
