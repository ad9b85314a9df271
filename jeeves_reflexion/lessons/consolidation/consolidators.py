"""Who proposes consolidations: rules that need no model, and a language model whose every word is checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pydantic

from jeeves_reflexion.errors import ConfigurationError, UnreadableReplyError
from jeeves_reflexion.lessons.consolidation.plans import Operation, OperationKind, Proposals, Refused
from jeeves_reflexion.lessons.duplicates import is_equal
from jeeves_reflexion.lessons.history import listed
from jeeves_reflexion.lessons.records import MOST_TASKS, TASKS, checked
from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.models.ask import ask, ask_and_read
from jeeves_reflexion.models.replies import agreed, reading_of
from jeeves_reflexion.protocols import ChatModel, Completion, Message
from jeeves_reflexion.text import abridge, fence, read_prompt
from jeeves_reflexion.types import JSON, Lesson, Lift

_SHOWN: Final = 160

Known = Callable[[Lesson], Lift]


def nothing_known(_: Lesson) -> Lift:
    """Say that nothing is known of any lesson's effect."""
    return Lift()


class RuleConsolidator:
    """Proposes what needs no judgement of language; the same for the same lessons.

    Equal lessons of one scope are merged into the one with the most support, the oldest of equals; others that are near
    one another are for a person, or a model, to look at. A lesson whose lift lies below zero with its whole interval is
    retired.
    """

    def __init__(self, *, known: Known = nothing_known) -> None:
        self._known = known

    async def __call__(self, cluster: Sequence[Lesson]) -> Proposals:
        """Return the merges and retirements for a cluster; a lesson gets one operation at most."""
        operations, left, single = list[Operation](), list[Lesson](), list[Lesson]()
        for lesson in sorted(cluster, key=_foremost):
            lift = self._known(lesson)
            if _harms(lift):
                why = f"attempts go worse with it: {_told(lift)}"
                operations.append(Operation("retire", (lesson.id,), why))
            else:
                left.append(lesson)
        while left:
            first, *others = left
            equal = _with_room(first, [other for other in others if _are_copies(first, other)])
            if equal:
                why = f"{len(equal) + 1} lessons say the same"
                operations.append(Operation("merge", (first.id, *(each.id for each in equal)), why))
            single.append(first)
            left = [other for other in others if other not in equal]
        return Proposals(tuple(operations), review=tuple(single) if len(single) > 1 else ())


def _are_copies(one: Lesson, other: Lesson) -> bool:
    linked = one.id in other.contradicts or other.id in one.contradicts
    return is_equal(one, other) and not linked


def _with_room(first: Lesson, copies: Sequence[Lesson]) -> list[Lesson]:
    """Return those copies that a lesson can take in and be recalled by the tasks of all."""
    tasks, found = _task_ids(first), list[Lesson]()
    for copy in copies:
        if len(tasks | _task_ids(copy)) <= MOST_TASKS:
            tasks |= _task_ids(copy)
            found.append(copy)
    return found


def _task_ids(lesson: Lesson) -> set[JSON]:
    return {lesson.task_id, *listed(lesson, TASKS)}


def _foremost(lesson: Lesson) -> tuple[int, float, str]:
    return -lesson.support, lesson.provenance.created_at, lesson.id


class LLMConsolidator:
    """Asks a language model, which sees the lessons of a cluster as data under short ids.

    A reply that is no JSON object with a list of operations is asked for once more with the problem shown, and then
    raises :class:`UnreadableReplyError`; an entry of the list that is no operation is refused by itself, and so is one
    that a measured effect speaks against: to retire what helps, or to merge others into what harms. Raises
    ``ModelError`` when the model can't be reached.
    """

    def __init__(
        self, model: ChatModel, *, known: Known = nothing_known, prompt: str | Path | None = None
    ) -> None:
        self.model = model
        self._known = known
        self._prompt = read_prompt(prompt, "jeeves_reflexion.lessons.consolidation", "consolidate.md")

    async def __call__(self, cluster: Sequence[Lesson]) -> Proposals:
        """Return what the model proposes for a cluster."""
        lessons = {f"L{number}": lesson for number, lesson in enumerate(cluster, 1)}
        rows = [self._row(name, lesson) for name, lesson in lessons.items()]
        names = {name: lesson.id for name, lesson in lessons.items()}

        def read(completion: Completion) -> tuple[Proposals | str, str]:
            found = parse(completion.text, names)
            return found, found if isinstance(found, str) else ""

        material = fence("lessons", inert("\n".join(rows)))
        messages = [Message("system", self._prompt), Message("user", material)]
        found, _ = await ask_and_read(partial(ask, self.model), messages, read)
        if isinstance(found, str):
            raise UnreadableReplyError(f"the consolidation's answer was refused twice: {found}")
        return self._borne_out(found, {lesson.id: lesson for lesson in cluster})

    def _borne_out(self, proposals: Proposals, lessons: Mapping[str, Lesson]) -> Proposals:
        """Refuse those operations that what was measured speaks against."""
        against = [self._measured_against(each, lessons) for each in proposals.operations]
        found = list(zip(proposals.operations, against, strict=True))
        refused = (Refused(str(each), why) for each, why in found if why)
        return Proposals(tuple(each for each, why in found if not why), (*proposals.refused, *refused))

    def _measured_against(self, operation: Operation, lessons: Mapping[str, Lesson]) -> str:
        for lesson_id in operation.ids[:1]:  # of a merge, the one that stays
            lift = self._known(lessons[lesson_id])
            if operation.kind == "retire" and lift.low is not None and lift.low > 0:
                return f"attempts go better with lesson {lesson_id}: {_told(lift)}"
            if operation.kind == "merge" and _harms(lift):
                return f"attempts go worse with lesson {lesson_id}: {_told(lift)}"
        return ""

    def _row(self, name: str, lesson: Lesson) -> str:
        row: dict[str, JSON] = {"id": name, "text": lesson.text, "support": lesson.support}
        lift = self._known(lesson)
        if lift.value is not None:
            row["lift"] = _told(lift)
        return json.dumps(row, ensure_ascii=False)


class _Proposed(pydantic.BaseModel):
    """An operation as a model writes it down."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    op: OperationKind
    ids: list[str]
    reason: str | None = None

    @pydantic.field_validator("op", mode="before")
    @classmethod
    def _small(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value


def parse(reply: str, names: Mapping[str, str]) -> Proposals | str:
    """Read a model's reply; ``names`` maps the ids that it saw to the lessons' own. A text says what is wrong."""
    found = reading_of(reply).objects
    if not found:
        return "it holds no JSON object"
    listed = [one.read_as(one.value["operations"]) for one in found if "operations" in one.value]
    stated = agreed(listed, lambda entries: json.dumps(entries, sort_keys=True))
    entries = None if stated is None else stated.value
    if not isinstance(entries, list):
        return 'the JSON object has no list "operations", or there are several'
    operations, refused = list[Operation](), list[Refused]()
    for entry in entries:
        try:
            operations.append(_operation(entry, names))
        except ConfigurationError as error:
            refused.append(Refused(abridge(json.dumps(entry, ensure_ascii=False), _SHOWN), str(error)))
    return Proposals(tuple(operations), tuple(refused))


def _operation(entry: object, names: Mapping[str, str]) -> Operation:
    """An entry of the list as an operation; raises :class:`ConfigurationError` where it is none."""
    read = checked(_Proposed, entry)
    if strangers := [one for one in read.ids if one not in names]:
        raise ConfigurationError(f"there is no lesson {', '.join(strangers)} among these")
    return Operation(read.op, tuple(names[one] for one in read.ids), read.reason or "")


def _harms(lift: Lift) -> bool:
    """Whether the whole interval of a lift lies below zero."""
    return lift.high is not None and lift.high < 0


def _told(lift: Lift) -> str:
    interval = f"{lift.value:+.2f} [{lift.low:+.2f}, {lift.high:+.2f}]"
    return f"lift {interval} from {lift.n_with} with and {lift.n_without} without"
