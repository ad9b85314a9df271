"""What a lesson is made of: whatever is read as one, from a store or a file, fits this or is an error that names where.

The loop's own metadata is part of it, since it is relied on wherever lessons are merged, shown or forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import pydantic

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import Lesson, LessonState, Outcome, Provenance, Trust

# JSON has lists where the values have tuples; what lies in them stays strict.
Texts: TypeAlias = Annotated[tuple[str, ...], pydantic.Strict(strict=False)]
Count: TypeAlias = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
Moment: TypeAlias = Annotated[float, pydantic.Field(ge=-62_135_596_800, lt=253_402_214_400)]
"""Seconds since 1970, in the years that a date can have (1 to 9999, less a day for time zones)."""
_Said: TypeAlias = Annotated[str, pydantic.Field(pattern=r"\S")]

# Keys of a lesson's metadata that the loop writes itself.
COPIES: Final = "copies"
"""Notes of the last attempts that taught the lesson again, and of lessons merged into it, each a JSON object."""
COPIES_TOTAL: Final = "copies_total"
WORDINGS: Final = "wordings"
"""Other ways to say it, of copies that an earlier version merged; nothing is added any more."""
TASKS: Final = "tasks"
"""Ids of the other tasks that it is found by, its own left out."""
MERGED_INTO: Final = "merged_into"
"""Of a retired lesson: the id of the lesson that speaks for it."""
VOTES: Final = "votes"
"""Upvotes less downvotes of consolidations."""
DRAWN_FROM: Final = "drawn_from"
"""Ids of the lessons that a consolidation drew it from."""
_STRICT: Final = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_Model = TypeVar("_Model", bound=pydantic.BaseModel)
_OPEN: Final = pydantic.ConfigDict(strict=True, extra="allow")


class Source(pydantic.BaseModel):
    """:class:`~jeeves_reflexion.types.Provenance`."""

    model_config = _STRICT

    run_id: str
    attempt: Count
    score: Annotated[float, pydantic.Field(ge=0, le=1)] | None
    model: str | None
    agent: str | None
    created_at: Moment


class Note(pydantic.BaseModel):
    """What a lesson keeps of a copy that was merged into it."""

    model_config = _OPEN

    text: str
    run_id: str
    attempt: Count
    task_id: str


class OwnMetadata(pydantic.BaseModel):
    """The metadata that the loop writes and reads itself; the rest is the user's."""

    model_config = _OPEN

    copies: Annotated[tuple[Note, ...], pydantic.Strict(strict=False)] = ()
    copies_total: Count = 0
    wordings: Texts = ()
    tasks: Texts = ()
    merged_into: str = ""
    support_elsewhere: Count = 0
    votes: Annotated[int, pydantic.Field(gt=-(2**63), lt=2**63)] = 0
    drawn_from: Texts = ()


class LessonFields(pydantic.BaseModel):
    """:class:`~jeeves_reflexion.types.Lesson`."""

    model_config = _STRICT

    id: _Said
    text: _Said
    task_id: str
    task_excerpt: str
    provenance: Source
    task_kind: str | None
    tools: Texts
    outcome: Outcome
    metadata: OwnMetadata
    state: LessonState
    state_reason: str
    trust: Trust
    support: Count
    contradicts: Texts
    evidence: Annotated[tuple[int, ...], pydantic.Strict(strict=False)]


class Retold(pydantic.BaseModel):
    """The texts of tasks by which a lesson is recalled from a change on, and no more."""

    model_config = _OPEN

    added: Texts = ()
    removed: Texts = ()


class EntryFields(pydantic.BaseModel):
    """One entry of a lesson's history; the lessons in it are checked as lessons."""

    model_config = _OPEN

    number: Count
    at: Moment
    operation: str
    by: str
    reason: str
    others: Texts = ()
    tasks: Retold = Retold()


class HeldFields(pydantic.BaseModel):
    """A text in quarantine; its lesson is checked as one."""

    model_config = _OPEN

    tasks: Texts
    kind: str
    why: str
    at: Moment


def checked_lesson(fields: Mapping[str, Any]) -> Lesson:
    """Return the lesson of such fields; raises :class:`ConfigurationError` that names each one that does not fit."""
    found = checked(LessonFields, fields)
    # Its metadata as it came: checking fills in what is not there.
    whole = {
        **dict(found),
        "provenance": Provenance(**dict(found.provenance)),
        "metadata": fields["metadata"],
    }
    return Lesson(**whole)


def checked(model: type[_Model], fields: object) -> _Model:
    """Return the fields as the model that they fit; raises :class:`ConfigurationError` otherwise."""
    try:
        return model.model_validate(fields)
    except pydantic.ValidationError as error:
        raise ConfigurationError("; ".join(map(_told, error.errors(include_url=False)))) from None


def _told(error: Any) -> str:  # noqa: ANN401 - pydantic's own record
    where = ".".join(map(str, error["loc"])) or "it"
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] == "extra_forbidden":
        return f"there is no field {where:.200}"
    if error["type"] == "string_pattern_mismatch":
        return f"{where} is empty"
    return f"{where} {error['msg'].replace('Input should', 'must')}, not {error['input']!r:.80}"
