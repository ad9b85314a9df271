"""Task notes as JSON, as every store keeps them, and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.tasknotes.evolution import ChangeKind, NoteChange, NoteHistory, NoteVersion
from jeeves_reflexion.tasknotes.values import ReflectionStoreError, TaskReflection
from jeeves_reflexion.types import JSON

FORMAT: Final = 1


def document_of(history: NoteHistory) -> JSON:
    """Return a history as a JSON object."""
    return {
        "format": FORMAT,
        "identity": history.identity,
        "description": history.description,
        "current": history.current,
        "run_count": history.run_count,
        "baseline": list(history.baseline),
        "versions": [_version(each) for each in history.versions],
        "changes": [
            {
                "at": each.at.isoformat(),
                "kind": each.kind,
                "old": each.old,
                "new": each.new,
                "reason": each.reason,
            }
            for each in history.changes
        ],
        "failed": None if history.failed is None else reflection_document(history.failed),
    }


def _version(version: NoteVersion) -> JSON:
    return {
        "number": version.number,
        "base": version.base,
        "scores": list(version.scores),
        "withdrawn": version.withdrawn,
        "reflection": reflection_document(version.reflection),
    }


def reflection_document(reflection: TaskReflection) -> dict[str, JSON]:
    """Return a reflection as a JSON object."""
    return {
        "refined_description": reflection.refined_description,
        "refined_expected_output": reflection.refined_expected_output,
        "observations": list(reflection.observations),
        "suggestions": list(reflection.suggestions),
        "reflected_at": reflection.reflected_at.isoformat(),
        "run_count": reflection.run_count,
        "failure": reflection.failure,
    }


def history_of(identity: str, document: JSON) -> NoteHistory:
    """Read a history back. Raises :class:`ReflectionStoreError` for what is none, or of a newer format."""
    try:
        return _read(identity, cast("Mapping[str, Any]", document))
    except (KeyError, TypeError, ValueError, AttributeError, ConfigurationError) as error:
        raise ReflectionStoreError(
            f"the notes on task {identity} can't be read ({type(error).__name__}: {error}): forget them, or "
            "restore them"
        ) from error


def _read(identity: str, document: Mapping[str, Any]) -> NoteHistory:
    if document["format"] != FORMAT:
        raise ReflectionStoreError(
            f"the notes on task {identity} are of format {document['format']!r}, and this version reads {FORMAT}: "
            "update jeeves-reflexion"
        )
    return NoteHistory(
        identity=identity,
        description=str(document["description"]),
        current=int(document["current"]),
        run_count=int(document["run_count"]),
        baseline=_scores(document["baseline"]),
        versions=tuple(
            NoteVersion(
                int(each["number"]),
                _reflection(each["reflection"]),
                int(each["base"]),
                _scores(each["scores"]),
                withdrawn=bool(each["withdrawn"]),
            )
            for each in document["versions"]
        ),
        changes=tuple(
            NoteChange(
                datetime.fromisoformat(each["at"]),
                cast("ChangeKind", each["kind"]),
                int(each["old"]),
                int(each["new"]),
                str(each["reason"]),
            )
            for each in document["changes"]
        ),
        failed=None if document.get("failed") is None else _reflection(document["failed"]),
    )


def _scores(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(map(float, values))


def _reflection(document: Mapping[str, Any]) -> TaskReflection:
    return TaskReflection(
        document["refined_description"],
        document["refined_expected_output"],
        tuple(document["observations"]),
        tuple(document["suggestions"]),
        datetime.fromisoformat(document["reflected_at"]),
        document["run_count"],
        document["failure"],
    )
