"""What a newcomer finds the lessons of its words by: records under the digest of words and scope, numbered from 1.

There is no gap in the numbers, for who records the same goes through them up to the first that is free.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Final

from jeeves_reflexion.lessons.credit.records import each_record, swap
from jeeves_reflexion.lessons.duplicates import EQUAL, claim_of
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import RecordStore, RecordWrite

_MOST_LOOKED_AT: Final = 30


async def claims(records: RecordStore, lesson: Lesson) -> list[RecordWrite]:
    """Return what a lesson is to be found by: a record of the first free number, none where it has one.

    Of very many equals, as they are stored with ``keep_copies``, the later ones have none.
    """
    for number in range(1, _MOST_LOOKED_AT + 1):
        claim = claim_of(lesson, number)
        held = await records.get(EQUAL, claim.key)
        if held is None:
            return [claim]
        if held.value == claim.value:
            break
    return []


async def unclaim(records: RecordStore, lesson_id: str) -> None:
    """Take away what a lesson is found by; the last of its equals takes its number, so that none is left out."""
    held = [each.key async for each in each_record(records, EQUAL) if each.value == {"lesson_id": lesson_id}]
    for key in sorted(held, key=_number, reverse=True):
        digest, last = key.rpartition(":")[0], None
        for later in itertools.count(_number(key) + 1):
            found = await records.get(EQUAL, f"{digest}:{later}")
            if found is None:
                break
            last = found
        if last is None:
            await records.delete_records(EQUAL, [key])
        else:
            await swap(records, EQUAL, key, partial(_replaced, by=last.value))
            await records.delete_records(EQUAL, [last.key])


def _number(key: str) -> int:
    return int(key.rpartition(":")[2])


def _replaced(_: JSON, *, by: JSON) -> JSON:
    return by
