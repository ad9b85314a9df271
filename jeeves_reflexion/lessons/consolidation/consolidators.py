"""The consolidators: rules that need no model, and a language model whose every proposal is checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final

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


# A lambda as the default would keep the consolidators from being pickled for another process.
def nothing_known(_: Lesson) -> Lift:
    """Return an empty lift: nothing is known of any lesson's effect."""
    return Lift()


class RuleConsolidator:
    """Proposes what needs no judgement of language; the same lessons get the same proposals.

    Equal lessons of one scope are merged into the one with the most support, and of those into the oldest. Other near
    lessons are listed for a person or a model to review. A lesson is retired if the whole interval of its lift is below
    zero.
    """

    def __init__(self, *, known: Known = nothing_known) -> None:
        self._known = known

    async def __call__(self, cluster: Sequence[Lesson]) -> Proposals:
        """Return the merges and retirements for a cluster; a lesson gets one operation at most."""
        operations, left, review = list[Operation](), list[Lesson](), list[Lesson]()
        foremost = sorted(
            cluster, key=lambda lesson: (-lesson.support, lesson.provenance.created_at, lesson.id)
        )
        for lesson in foremost:
            lift = self._known(lesson)
            if lift.high is not None and lift.high < 0:
                why = f"attempts go worse with it: {_described(lift)}"
                operations.append(Operation("retire", (lesson.id,), why))
            else:
                left.append(lesson)
        while left:
            first, *others = left
            tasks, equal = {first.task_id, *listed(first, TASKS)}, list[Lesson]()
            for other in others:
                contradicting = first.id in other.contradicts or other.id in first.contradicts
                together = tasks | {other.task_id, *listed(other, TASKS)}
                if is_equal(first, other) and not contradicting and len(together) <= MOST_TASKS:
                    tasks = together
                    equal.append(other)
            if equal:
                why = f"{len(equal) + 1} lessons say the same"
                operations.append(Operation("merge", (first.id, *(each.id for each in equal)), why))
            review.append(first)
            left = [other for other in others if other not in equal]
        return Proposals(tuple(operations), review=tuple(review) if len(review) > 1 else ())


class LLMConsolidator:
    """Asks a language model, which sees the lessons of a cluster as data under short ids.

    A reply that is not a JSON object with a list of operations is asked for once more, with the problem shown; a second
    one raises :class:`UnreadableReplyError`. Entries that are not operations are refused one by one. So are those that
    a measured effect speaks against: retiring a lesson that helps, or merging others into one that harms. Raises
    ``ModelError`` if the model can't be reached.
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
        rows = []
        for name, lesson in lessons.items():
            row: dict[str, JSON] = {"id": name, "text": lesson.text, "support": lesson.support}
            lift = self._known(lesson)
            if lift.value is not None:
                row["lift"] = _described(lift)
            rows.append(json.dumps(row, ensure_ascii=False))
        names = {name: lesson.id for name, lesson in lessons.items()}

        def read(completion: Completion) -> tuple[Proposals | str, str]:
            proposals = parse(completion.text, names)
            return proposals, proposals if isinstance(proposals, str) else ""

        material = fence("lessons", inert("\n".join(rows)))
        messages = [Message("system", self._prompt), Message("user", material)]
        answer, _ = await ask_and_read(partial(ask, self.model), messages, read)
        if isinstance(answer, str):
            raise UnreadableReplyError(f"the consolidation's answer was refused twice: {answer}")
        by_id = {lesson.id: lesson for lesson in cluster}
        objections = [(each, self._objection(each, by_id)) for each in answer.operations]
        refused = [Refused(str(each), why) for each, why in objections if why]
        return Proposals(tuple(each for each, why in objections if not why), (*answer.refused, *refused))

    def _objection(self, operation: Operation, lessons: Mapping[str, Lesson]) -> str:
        """Return why the measured effect of a lesson speaks against an operation; empty if it doesn't."""
        for lesson_id in operation.ids[:1]:  # of a merge, the one that stays
            lift = self._known(lessons[lesson_id])
            if operation.kind == "retire" and lift.low is not None and lift.low > 0:
                return f"attempts go better with lesson {lesson_id}: {_described(lift)}"
            if operation.kind == "merge" and lift.high is not None and lift.high < 0:
                return f"attempts go worse with lesson {lesson_id}: {_described(lift)}"
        return ""


class _Proposed(pydantic.BaseModel):
    """An operation as a model writes it."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    op: Annotated[
        OperationKind, pydantic.BeforeValidator(lambda op: op.lower() if isinstance(op, str) else op)
    ]
    ids: list[str]
    reason: str | None = None


def parse(reply: str, names: Mapping[str, str]) -> Proposals | str:
    """Read a model's reply, or return what is wrong with it; ``names`` maps the ids that it saw to those of lessons."""
    objects = reading_of(reply).objects
    if not objects:
        return "it holds no JSON object"
    lists = [one.read_as(one.value["operations"]) for one in objects if "operations" in one.value]
    stated = agreed(lists, lambda entries: json.dumps(entries, sort_keys=True))
    entries = None if stated is None else stated.value
    if not isinstance(entries, list):
        return 'the JSON object has no list "operations", or there are several'
    operations, refused = list[Operation](), list[Refused]()
    for entry in entries:
        try:
            read = checked(_Proposed, entry)
            unknown = [one for one in read.ids if one not in names]
            problem = f"there is no lesson {', '.join(unknown)} among these" if unknown else ""
        except ConfigurationError as error:
            problem = str(error)
        if problem:
            refused.append(Refused(abridge(json.dumps(entry, ensure_ascii=False), _SHOWN), problem))
        else:
            ids = tuple(names[one] for one in read.ids)
            operations.append(Operation(read.op, ids, read.reason or ""))
    return Proposals(tuple(operations), tuple(refused))


def _described(lift: Lift) -> str:
    interval = f"{lift.value:+.2f} [{lift.low:+.2f}, {lift.high:+.2f}]"
    return f"lift {interval} from {lift.n_with} with and {lift.n_without} without"
