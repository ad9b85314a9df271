"""Task notes as JSON, as every store keeps them, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from pydantic import TypeAdapter, ValidationError

from jeeves_reflexion.tasknotes.evolution import NoteHistory
from jeeves_reflexion.tasknotes.values import ReflectionStoreError, TaskReflection
from jeeves_reflexion.types import JSON

FORMAT: Final = 1
_HISTORY: Final = TypeAdapter(NoteHistory)
_REFLECTION: Final = TypeAdapter(TaskReflection)
_REQUIRED: Final = {"format", *(field.name for field in fields(NoteHistory))} - {"identity", "failed"}


def document_of(history: NoteHistory) -> JSON:
    """Return a history as a JSON object."""
    return {"format": FORMAT, **_HISTORY.dump_python(history, mode="json")}


def reflection_document(reflection: TaskReflection) -> JSON:
    """Return a reflection as a JSON object."""
    document: JSON = _REFLECTION.dump_python(reflection, mode="json")
    return document


def history_of(identity: str, document: JSON) -> NoteHistory:
    """Read a history back. Raises :class:`ReflectionStoreError` for what is none, or of a newer format."""
    given = document if isinstance(document, Mapping) else {}
    found = given.get("format", FORMAT)
    if found != FORMAT:
        raise ReflectionStoreError(
            f"the notes on task {identity} are of format {found!r}, and this version reads {FORMAT}: "
            "update jeeves-reflexion"
        )
    missing = _REQUIRED - given.keys()
    if missing:
        raise _unreadable(identity, f"{', '.join(sorted(missing))} missing")
    try:
        return _HISTORY.validate_python({**given, "identity": identity})
    except ValidationError as error:
        first = error.errors()[0]
        raise _unreadable(identity, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _unreadable(identity: str, problem: str) -> ReflectionStoreError:
    return ReflectionStoreError(
        f"the notes on task {identity} can't be read ({problem}): forget them, or restore them"
    )
