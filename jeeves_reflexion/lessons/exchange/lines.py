"""One lesson as one line of JSON, and back: nothing of it is lost, and nothing else is taken for one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast, get_args

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON, Lesson, LessonState, Outcome, Provenance, Trust

FORMAT: Final = "jeeves-reflexion/lesson"
VERSION: Final = 1
MOST_CHARACTERS: Final = 1_000_000
"""A longer line is no lesson."""


def to_line(lesson: Lesson, tasks: Sequence[str]) -> str:
    """Write a lesson and the texts of its tasks as one line of ASCII, without its end.

    Raises :class:`ConfigurationError` for metadata that JSON can't hold, such as NaN.
    """
    source = lesson.provenance
    value = {
        "format": FORMAT,
        "version": VERSION,
        "id": lesson.id,
        "text": lesson.text,
        "tasks": list(tasks),
        "task_id": lesson.task_id,
        "task_excerpt": lesson.task_excerpt,
        "task_kind": lesson.task_kind,
        "tools": list(lesson.tools),
        "outcome": lesson.outcome,
        "state": lesson.state,
        "state_reason": lesson.state_reason,
        "trust": lesson.trust,
        "support": lesson.support,
        "contradicts": list(lesson.contradicts),
        "evidence": list(lesson.evidence),
        "provenance": {
            "run_id": source.run_id,
            "attempt": source.attempt,
            "score": source.score,
            "model": source.model,
            "agent": source.agent,
            "created_at": source.created_at,
        },
        "metadata": dict(lesson.metadata),
    }
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the lesson {lesson.id} can't be written as JSON: {error}") from error


def from_line(line: str) -> tuple[Lesson, tuple[str, ...]]:
    """Read what :func:`to_line` wrote: the lesson and the texts of its tasks, at least one.

    Raises :class:`ConfigurationError` that names the field for anything else: a missing or unknown field, a value of
    another kind, another format or version.
    """
    if len(line) > MOST_CHARACTERS:
        raise ConfigurationError(f"it is {len(line)} characters long; a lesson has at most {MOST_CHARACTERS}")
    try:
        value = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError("it is no JSON object")
    fields = _Fields(value, "")
    if fields.text("format") != FORMAT:
        raise ConfigurationError(f"its format is {value['format']!r:.80}, not {FORMAT!r}")
    version = fields.whole("version", least=1)
    if version != VERSION:
        raise ConfigurationError(f"its version is {version}; this program reads version {VERSION}: update it")
    lesson = _lesson(fields, _provenance(_Fields(fields.object("provenance"), "provenance.")))
    tasks = fields.texts("tasks")
    fields.nothing_else()
    if not tasks:
        raise ConfigurationError("tasks is empty: a lesson is recalled by the text of a task")
    return lesson, tasks


class _Fields:
    """Takes the fields of a JSON object one by one, each checked; what is left at the end is an error."""

    def __init__(self, value: Mapping[str, Any], prefix: str) -> None:
        self._left = dict(value)
        self._prefix = prefix

    def _take(self, name: str, wanted: str, fits: Callable[[Any], bool]) -> Any:  # noqa: ANN401
        if name not in self._left:
            raise ConfigurationError(f"{self._prefix}{name} is missing")
        value = self._left.pop(name)
        if not fits(value):
            raise ConfigurationError(f"{self._prefix}{name} must be {wanted}, not {value!r:.80}")
        return value

    def text(self, name: str) -> str:
        found: str = self._take(name, "text", lambda v: isinstance(v, str))
        return found

    def some_text(self, name: str) -> str:
        found: str = self._take(
            name, "text that is not empty", lambda v: isinstance(v, str) and bool(v.strip())
        )
        return found

    def text_or_none(self, name: str) -> str | None:
        found: str | None = self._take(name, "text or null", lambda v: v is None or isinstance(v, str))
        return found

    def one_of(self, name: str, choices: tuple[str, ...]) -> Any:  # noqa: ANN401
        return self._take(name, f"one of {', '.join(choices)}", lambda v: isinstance(v, str) and v in choices)

    def whole(self, name: str, *, least: int) -> int:
        found: int = self._take(name, f"a whole number from {least} on", lambda v: _whole(v) and v >= least)
        return found

    def number(self, name: str) -> float:
        found: float = self._take(name, "a number", _finite)
        return found

    def share_or_none(self, name: str) -> float | None:
        found: float | None = self._take(
            name, "a number from 0 to 1, or null", lambda v: v is None or (_finite(v) and 0 <= v <= 1)
        )
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        fits = lambda v: isinstance(v, list) and all(isinstance(i, str) for i in v)  # noqa: E731
        return tuple(self._take(name, "a list of texts", fits))

    def wholes(self, name: str) -> tuple[int, ...]:
        return tuple(
            self._take(name, "a list of whole numbers", lambda v: isinstance(v, list) and all(map(_whole, v)))
        )

    def object(self, name: str) -> dict[str, JSON]:
        found: dict[str, JSON] = self._take(name, "an object", lambda v: isinstance(v, dict))
        return found

    def nothing_else(self) -> None:
        if self._left:
            names = ", ".join(sorted(self._left))
            raise ConfigurationError(f"version {VERSION} has no field {self._prefix}{names:.200}")


def _lesson(fields: _Fields, provenance: Provenance) -> Lesson:
    return Lesson(
        id=fields.some_text("id"),
        text=fields.some_text("text"),
        task_id=fields.text("task_id"),
        task_excerpt=fields.text("task_excerpt"),
        provenance=provenance,
        task_kind=fields.text_or_none("task_kind"),
        tools=fields.texts("tools"),
        outcome=fields.one_of("outcome", get_args(Outcome)),
        metadata=fields.object("metadata"),
        state=fields.one_of("state", get_args(LessonState)),
        state_reason=fields.text("state_reason"),
        trust=fields.one_of("trust", get_args(Trust)),
        support=fields.whole("support", least=0),
        contradicts=fields.texts("contradicts"),
        evidence=fields.wholes("evidence"),
    )


def _provenance(fields: _Fields) -> Provenance:
    source = Provenance(
        run_id=fields.text("run_id"),
        attempt=fields.whole("attempt", least=0),
        score=fields.share_or_none("score"),
        model=fields.text_or_none("model"),
        agent=fields.text_or_none("agent"),
        created_at=fields.number("created_at"),
    )
    fields.nothing_else()
    return source


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: object) -> bool:
    if _whole(value):
        return abs(cast("int", value)) < 2**63
    return isinstance(value, float) and math.isfinite(value)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
