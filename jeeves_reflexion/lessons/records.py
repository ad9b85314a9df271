"""How a lesson is written and read: as JSON, which is always checked, and as chunks that share the lesson's id.

Each chunk holds one key by which the lesson is found: the text of a task, or the lesson's own text. The metadata field
``use`` says what the chunk is for: ``recall``, ``twin`` (the own text of a lesson that is found by tasks alone), or
``off`` while the lesson is not active.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar, cast

import pydantic

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.filters import tool_marks
from jeeves_reflexion.session import logger
from jeeves_reflexion.types import JSON, Lesson, LessonState, Outcome, Provenance, Trust
from vectorstores.base import Chunk, Filter, SearchHit

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

Key: TypeAlias = Literal["task", "lesson", "both"]

INDEXED: Final = ("face", "holds", "use", "task_id", "task_kind", "agent", "state")
"""The metadata fields that filters use often; stores index them."""

FIRST_CHUNK: Final[Filter] = {"face": 0}
TEXT_CHUNKS: Final[Filter] = {"holds": "text"}
# Excludes by name, so that a foreign chunk is found and warned about.
RECALLED: Final[Filter] = {"use": {"$nin": ["twin", "off"]}}
# The keys by which a lesson would be recalled if it were active.
OFF: Final[Filter] = {
    "$and": [{"use": "off"}, {"$or": [{"holds": "task"}, {"key": {"$in": ["lesson", "both"]}}]}]
}
ANY: Final[Filter] = {"$or": [RECALLED, OFF]}

_NO_VECTORS: Final[Mapping[str, FloatArray]] = {}
MOST_TASKS: Final = 9
"""The most tasks by which one lesson is found."""
_MOST_CHUNKS: Final = MOST_TASKS + 1  # its tasks and its text

_SOURCE_NAMES: Final = tuple(each.name for each in dataclasses.fields(Provenance))
_NAMES: Final = tuple(each.name for each in dataclasses.fields(Lesson))

# JSON has lists where our values have tuples; their items are still checked strictly.
Texts: TypeAlias = Annotated[tuple[str, ...], pydantic.Strict(strict=False)]
Count: TypeAlias = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
Moment: TypeAlias = Annotated[float, pydantic.Field(ge=-62_135_596_800, lt=253_402_214_400)]
"""Seconds since 1970, in the years that a date can have (1 to 9999, less a day for time zones)."""
_Said: TypeAlias = Annotated[str, pydantic.Field(pattern=r"\S")]

# Keys of a lesson's metadata that this package writes.
COPIES: Final = "copies"
"""Notes, each a JSON object, on the last attempts that taught the lesson again and on lessons merged into it."""
WORDINGS: Final = "wordings"
"""Other wordings, from copies that an earlier version merged; read but no longer written."""
TASKS: Final = "tasks"
"""Ids of the tasks that it is found by, apart from its own."""
MERGED_INTO: Final = "merged_into"
"""In a retired lesson: the id of the lesson that it was merged into."""
DRAWN_FROM: Final = "drawn_from"
"""Ids of the lessons from which a consolidation made it."""
_STRICT: Final = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
T = TypeVar("T")
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
    """A note on one copy of a lesson that was merged into it."""

    model_config = _OPEN

    text: str
    run_id: str
    attempt: Count
    task_id: str


class OwnMetadata(pydantic.BaseModel):
    """The metadata that this package writes and reads; other keys are the user's."""

    model_config = _OPEN

    copies: Annotated[tuple[Note, ...], pydantic.Strict(strict=False)] = ()
    wordings: Texts = ()
    tasks: Texts = ()
    merged_into: str = ""
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
    state: LessonState = "active"
    state_reason: str = ""
    trust: Trust = "own"
    support: Count = 1
    contradicts: Texts = ()
    evidence: Annotated[tuple[int, ...], pydantic.Strict(strict=False)] = ()


class UnreadableLessonError(LessonStoreError):
    """A stored row that is not a lesson, or whose fields do not fit; the message and ``chunk_id`` name it."""

    def __init__(self, message: str, chunk_id: str) -> None:
        super().__init__(message)
        self.chunk_id = chunk_id


def chunk_ids(lesson_id: str) -> list[str]:
    """Return the ids of all chunks that a lesson may have."""
    return [f"{lesson_id}:{number}" for number in range(_MOST_CHUNKS)]


def chunks_of(
    lesson: Lesson,
    tasks: Sequence[str],
    key: Key,
    *,
    changes: int = 0,
    vectors: Mapping[str, FloatArray] = _NO_VECTORS,
    replaces: int = 0,
) -> list[Chunk]:
    """Return the chunks of a lesson; ``tasks`` are its tasks' texts, ``changes`` the number of its last change.

    A text that has a vector in ``vectors`` is not embedded again. If the chunks are fewer than those that they are to
    replace, placeholders follow, which no search or reader finds.
    Raises :class:`ConfigurationError` for a lesson that could not be read back.
    """
    fields = whole(lesson)
    from_whole(fields)
    del fields["text"]
    metadata = {**fields, **tool_marks(lesson.tools), "key": key, "changes": changes}
    text = ("text", lesson.text)
    found_by = [("task", task) for task in tasks[:MOST_TASKS]]
    keys = [text] if key == "lesson" else [*found_by[:1], text, *found_by[1:]]
    chunks = []
    for number, (holds, found_as) in enumerate(keys):
        twin = holds == "text" and key == "task"
        use = "off" if lesson.state != "active" else "twin" if twin else "recall"
        about = {**metadata, "face": number, "holds": holds, "use": use}
        chunks.append(
            Chunk(lesson.text, f"{lesson.id}:{number}", about, found_as, vector=vectors.get(found_as))
        )
    first = chunks[0]
    for number in range(len(chunks), replaces):
        nothing: dict[str, JSON] = {"lesson_id": lesson.id, "face": number, "holds": "nothing", "use": "twin"}
        # It has the text and vector of the first chunk, so nothing is embedded for it.
        chunks.append(
            Chunk("(no task)", f"{lesson.id}:{number}", nothing, first.embed_text, vector=first.vector)
        )
    return chunks


@dataclasses.dataclass(frozen=True, slots=True)
class LessonPage:
    """Part of a list of lessons, oldest first; pass ``next`` to the next call as ``after``."""

    lessons: tuple[Lesson, ...]
    next: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class StoredLesson:
    """A lesson as read: its tasks, the number of its last change, how many chunks it has, and its texts' vectors."""

    lesson: Lesson
    tasks: tuple[str, ...]
    key: Key
    changes: int
    chunks: int
    vectors: Mapping[str, FloatArray] = dataclasses.field(repr=False, compare=False)

    @classmethod
    def of(cls, there: Sequence[Chunk]) -> Self | None:
        """Read what :func:`chunks_of` wrote. Returns None for no chunks."""
        chunks = [chunk for chunk in there if chunk.metadata.get("holds") != "nothing"]
        if not chunks:
            return None
        about = chunks[0].metadata
        texts = [chunk.content if chunk.embed_text is None else chunk.embed_text for chunk in chunks]
        found_by = zip(texts, chunks, strict=True)
        return cls(
            lesson_of(chunks[0]),
            # The second chunk holds the lesson's own text.
            () if about.get("key") == "lesson" else (texts[0], *texts[2:]),
            cast("Key", about.get("key", "task")),
            cast("int", about.get("changes", 0)),
            len(there),
            {text: chunk.vector for text, chunk in found_by if chunk.vector is not None},
        )


def fields_of(lesson: Lesson) -> dict[str, Any]:
    """Return a lesson as JSON, which :func:`checked_lesson` reads."""
    fields = {name: getattr(lesson, name) for name in _NAMES}
    lists = {name: list(value) for name, value in fields.items() if isinstance(value, tuple)}
    source = {name: getattr(lesson.provenance, name) for name in _SOURCE_NAMES}
    return {**fields, **lists, "provenance": source, "metadata": dict(lesson.metadata)}


def whole(lesson: Lesson) -> dict[str, JSON]:
    """Return a lesson as JSON without nesting, as stores keep it."""
    fields = fields_of(lesson)
    renamed = {"lesson_id": fields.pop("id"), "extra": fields.pop("metadata")}
    return {**fields.pop("provenance"), **fields, **renamed}


def from_whole(data: JSON | Lesson) -> Lesson:
    """Read what :func:`whole` wrote; raises :class:`ConfigurationError` that names each wrong field."""
    if isinstance(data, Lesson):
        return data
    if not isinstance(data, Mapping):
        raise ConfigurationError("it is not a JSON object")
    fields = {name: data[name] for name in _NAMES if name in data}
    source = {name: data[name] for name in _SOURCE_NAMES if name in data}
    renamed = {to: data[name] for name, to in (("lesson_id", "id"), ("extra", "metadata")) if name in data}
    return checked_lesson({**fields, **renamed, "text": data.get("text"), "provenance": source})


# A lesson within a record, written by whole(). The validator keeps pydantic from building a schema for Lesson.
if TYPE_CHECKING:
    WholeLesson: TypeAlias = Lesson
else:
    WholeLesson = Annotated[Any, pydantic.PlainValidator(from_whole)]


def lesson_of(chunk: Chunk) -> Lesson:
    """Read a lesson from a chunk; raises :class:`UnreadableLessonError` if its fields are not a lesson's."""
    try:
        return from_whole({**chunk.metadata, "text": chunk.content})
    except ConfigurationError as error:
        raise UnreadableLessonError(
            f"chunk {chunk.id!r} is not a lesson ({error}): keep lessons in a namespace of their own; the lesson "
            "store's forget() removes a lesson that can't be read",
            chunk.id,
        ) from error


def readable(hits: Iterable[SearchHit]) -> Iterator[tuple[SearchHit, Lesson]]:
    """Yield the nearest hit of each lesson, with the lesson.

    A row that is not a lesson is logged and skipped, so that one bad row does not end the runs that recall others.
    """
    nearest: dict[str, SearchHit] = {}
    for hit in hits:
        nearest.setdefault(cast("str", hit.chunk.metadata.get("lesson_id", hit.chunk.id)), hit)
    for hit in nearest.values():
        try:
            yield hit, lesson_of(hit.chunk)
        except UnreadableLessonError as error:
            logger.warning("%s", error)


def checked_lesson(fields: Mapping[str, Any]) -> Lesson:
    """Return the lesson with these fields; raises :class:`ConfigurationError` that names each wrong field."""
    valid = checked(LessonFields, fields)
    # Keep the metadata as given: the model fills in defaults.
    source = Provenance(**vars(valid.provenance))
    return Lesson(**{**vars(valid), "provenance": source, "metadata": fields["metadata"]})


def checked(model: Callable[..., T], fields: object) -> T:
    """Return the fields as an instance of a pydantic model; raises :class:`ConfigurationError` if they don't fit."""
    if not isinstance(fields, Mapping):
        raise ConfigurationError(f"it must be a JSON object, not {fields!r:.80}")
    try:
        return model(**fields)
    except pydantic.ValidationError as error:
        raise ConfigurationError("; ".join(map(_problem, error.errors(include_url=False)))) from None


def _problem(error: Any) -> str:  # noqa: ANN401 - pydantic's own record
    where = ".".join(map(str, error["loc"])) or "it"
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] == "value_error":
        return f"{where}: {error['ctx']['error']}"
    if error["type"] == "extra_forbidden":
        return f"there is no field {where:.200}"
    if error["type"] == "model_type":  # pydantic's words name a class of ours
        return f"{where} must be a JSON object, not {error['input']!r:.80}"
    if error["type"] == "string_pattern_mismatch":
        return f"{where} is empty"
    return f"{where} {error['msg'].replace('Input should', 'must')}, not {error['input']!r:.80}"
