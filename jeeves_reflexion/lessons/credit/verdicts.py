"""How verdicts are written into the ledger and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons.credit.effects import NO_DRAW, Draw
from jeeves_reflexion.types import JSON
from vectorstores.base import Record

RECALLS: Final = "recalls"
OUTCOMES: Final = "outcomes"
_TASK: Final = ("task_id", "task_kind", "expected")
VerdictKind: TypeAlias = Literal["evaluator", "feedback"]
_SAID: Final = ("kind", "at", "by", "reason", "before", "counts")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said of one attempt: by the evaluator, or later by someone; ``by`` and ``reason`` if they are told.

    ``score`` is what it says. ``counts`` is the score that counts for the attempt from here on, ``before`` the one that
    did until then; None: none does. ``had`` are the lessons that the attempt was offered, ``lacked`` those that the
    draw withheld from it, ``stake`` how many there were of both when it was recalled, at ``recalled_at`` (since 1970).
    ``expected`` is the score that was expected of the attempt when it was recalled; earlier versions noted none, and
    no task.
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
        """Read a verdict; raises :class:`LessonStoreError` that names one that can't be read."""
        try:
            entry: Mapping[str, Any] = record.value  # type: ignore[assignment] # what it is not, is told
            known = {name: entry[name] for name in _SAID if name in entry}
            known |= {name: entry[name] for name in _TASK if name in entry}
            for name in ("before", "counts", "expected"):
                known[name] = None if known.get(name) is None else float(known[name])
            return cls(
                **{"kind": "evaluator", **known},
                score=float(entry["score"]),
                passed=entry["passed"],
                had=tuple(entry["with"]),
                lacked=tuple(entry["without"]),
                draw=draw_of(entry),
                stake=entry["stake"],
                recalled_at=float(entry["recalled_at"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LessonStoreError(
                f"the verdict {record.key!r} can't be read ({error} is missing or of another kind): it was written "
                "by a newer version of this package, or by another program"
            ) from error


def in_force(verdict: Verdict, before: float | None) -> Verdict:
    """Return the verdict as it counts after another: feedback replaces what was there, an evaluator doesn't."""
    replaces = before is None or verdict.kind == "feedback"
    return replace(verdict, before=before, counts=verdict.score if replaces else before)


def counting_of(recall: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return what a verdict's entry repeats of its recall, so that it can be counted by itself."""
    had, lacked = _ids(recall["offered"]), _ids(recall["withheld"])
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
    """Return the record of a verdict; an evaluator's says who and why only if somebody told it."""
    said = {name: getattr(verdict, name) for name in ("score", "passed", *_SAID)}
    silent = {"by", "reason"} if verdict.kind == "evaluator" else set()
    return {**{name: value for name, value in said.items() if value or name not in silent}, **counting}


def written_at(record: Record) -> float:
    """Return when a verdict was noted, by its writer's clock; 0 where it doesn't say."""
    at = record.value.get("at") if isinstance(record.value, Mapping) else None
    return float(at) if isinstance(at, int | float) else 0.0


def _ids(items: Any) -> list[JSON]:  # noqa: ANN401 - JSON
    return [item["lesson_id"] for item in items]


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
