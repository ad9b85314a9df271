"""How verdicts are written into the ledger and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic import TypeAdapter

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons.credit.effects import NO_DRAW, Draw
from jeeves_reflexion.text import one_line
from jeeves_reflexion.types import JSON
from vectorstores.base import Record

RECALLS: Final = "recalls"
OUTCOMES: Final = "outcomes"
_TASK: Final = ("task_id", "task_kind", "expected")
VerdictKind: TypeAlias = Literal["evaluator", "feedback"]
_GIVEN: Final = ("kind", "at", "by", "reason", "before", "counts")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on one attempt: the evaluator's, or later feedback; ``by`` and ``reason`` if given.

    ``score`` is the score given. ``counts`` is the score that counts for the attempt from now on, ``before`` the one
    that counted until now; None if there is none. ``had`` are the lessons that the attempt was offered, ``lacked``
    those that the draw withheld, ``stake`` the number of both at the recall, ``recalled_at`` its time (seconds since
    1970). ``expected`` is the score that was expected of the attempt at the recall. Earlier versions noted no expected
    score and no task.
    """

    kind: VerdictKind
    score: float
    passed: bool | None = None
    at: float = 0.0
    by: str = ""
    reason: str = ""
    before: float | None = None
    counts: float | None = None
    had: tuple[str, ...] = ()
    lacked: tuple[str, ...] = ()
    draw: Draw = NO_DRAW
    stake: int = 0
    recalled_at: float = 0.0
    task_id: str | None = None
    task_kind: str | None = None
    expected: float | None = None

    @classmethod
    def read(cls, record: Record) -> Verdict:
        """Read a verdict; raises :class:`LessonStoreError` if it can't be read."""
        try:
            entry: Mapping[str, Any] = record.value  # type: ignore[assignment] # other types raise below
            counted = {"had": entry["with"], "lacked": entry["without"], "draw": draw_of(entry)}
            return _VERDICT.validate_python({"kind": "evaluator", **entry, **counted})
        except (KeyError, TypeError, ValueError) as error:
            raise LessonStoreError(
                f"the verdict {record.key!r} can't be read ({type(error).__name__}: {one_line(str(error))}): it was"
                " written by a newer version of this package, or by another program"
            ) from error


_VERDICT: Final = TypeAdapter(Verdict)


def counting_of(recall: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the fields of a recall that a verdict's entry repeats, so that it can be counted by itself."""
    had, lacked = (
        [item["lesson_id"] for item in cast("Sequence[Mapping[str, JSON]]", recall[part])]
        for part in ("offered", "withheld")
    )
    return {
        "with": had,
        "without": lacked,
        "exempt": recall.get("exempt", []),
        "stake": len(had) + len(lacked),
        "recalled_at": recall["at"],
        "draw": recall["draw"],
        **{name: recall[name] for name in ("shares", *_TASK) if name in recall},
    }


def entry_of(verdict: Verdict, counting: Mapping[str, JSON]) -> JSON:
    """Return the record of a verdict; an evaluator's has ``by`` and ``reason`` only if they are given."""
    values = {name: getattr(verdict, name) for name in ("score", "passed", *_GIVEN)}
    optional = {"by", "reason"} if verdict.kind == "evaluator" else set()
    return {**{name: value for name, value in values.items() if value or name not in optional}, **counting}


def draw_of(entry: Mapping[str, Any]) -> Draw:
    """Return how a recall, or a verdict on its attempt, was drawn."""
    value = entry["draw"]
    if value is None:
        return NO_DRAW
    return Draw(
        value["share"],
        value["whole_share"],
        bool(value["whole"]),
        exempt=frozenset(entry.get("exempt", ())),
        shares={each["lesson_id"]: each["share"] for each in entry.get("shares", ())},
    )
