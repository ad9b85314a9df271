"""How verdicts are written into the ledger and read back, in today's format and in the first one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons.credit.effects import NO_DRAW, Draw
from jeeves_reflexion.types import JSON
from vectorstores.base import Record

RECALLS: Final = "recalls"
OUTCOMES: Final = "outcomes"
_SAID: Final = ("kind", "at", "by", "reason", "before", "counts")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said of one attempt: by the evaluator, or later by someone (``by``, ``reason``).

    ``score`` is what it says. ``counts`` is the score that counts for the attempt from here on, ``before`` the one that
    did until then; None: none does. ``had`` are the lessons that the attempt was offered, ``lacked`` those that the
    draw withheld from it, ``stake`` how many there were of both when it was recalled, at ``recalled_at`` (since 1970).
    """

    kind: Literal["evaluator", "feedback"]
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

    @classmethod
    def read(cls, record: Record, recall: Record | None = None) -> Verdict:
        """Read a verdict; one of the first format is the evaluator's, and its ``recall`` says what it counts for."""
        entry = _fields(record)
        if needs_recall(record):
            counting = counting_of({} if recall is None else _fields(recall))
            entry = {**entry, **counting, "recalled_at": entry.get("at", 0.0)}
        score, passed = entry.get("score"), entry.get("passed")
        known = {name: entry[name] for name in _SAID if name in entry}
        try:
            value = float(bool(passed)) if score is None else float(score)
            counts = None if score is passed is None else value
            known |= {
                name: float(known[name]) for name in ("before", "counts") if known.get(name) is not None
            }
            return cls(
                **{"kind": "evaluator", "counts": counts, **known, "score": value, "passed": passed},
                had=tuple(entry["with"]),
                lacked=tuple(entry["without"]),
                draw=_draw(entry),
                stake=entry.get("stake", 0),
                recalled_at=entry["recalled_at"] or 0.0,
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
    if "format" not in recall:
        # Of the first format: what it calls withheld did not fit into the budget, no draw decided it.
        had = _ids(recall.get("offered"))
        return {"with": had, "without": [], "stake": 0, "recalled_at": 0.0, "draw": None}
    had, lacked = _ids(recall.get("offered")), _ids(recall.get("withheld"))
    return {
        "with": had,
        "without": lacked,
        "exempt": recall.get("exempt", []),
        "stake": len(had) + len(lacked),
        "recalled_at": recall.get("at"),
        "draw": recall.get("draw"),
        **{name: recall[name] for name in ("shares",) if name in recall},
    }


def entry_of(verdict: Verdict, counting: Mapping[str, JSON]) -> JSON:
    """Return the record of a verdict; an evaluator's names nobody and gives no reason."""
    said = {name: getattr(verdict, name) for name in ("score", "passed", *_SAID)}
    if verdict.kind == "evaluator":
        del said["by"], said["reason"]
    return {**said, **counting}


def needs_recall(record: Record) -> bool:
    """Whether a verdict is of the first format, which does not say what it counts for."""
    return "with" not in _fields(record)


def written_at(record: Record) -> float:
    """Return when a verdict was noted, by its writer's clock; 0 where it doesn't say."""
    at = _fields(record).get("at")
    return float(at) if isinstance(at, int | float) else 0.0


def _fields(record: Record) -> Mapping[str, Any]:
    if isinstance(record.value, Mapping):
        return record.value
    raise LessonStoreError(f"the record {record.collection}/{record.key} is no entry of the ledger")


def _ids(items: Any) -> list[JSON]:  # noqa: ANN401 - JSON
    return [item["lesson_id"] for item in items or ()]


def _draw(entry: Mapping[str, Any]) -> Draw:
    value = entry["draw"]
    if not isinstance(value, Mapping):
        return NO_DRAW
    return Draw(
        value["share"],
        value["whole_share"],
        bool(value["whole"]),
        exempt=frozenset(entry.get("exempt", ())),
        shares={each["lesson_id"]: each["share"] for each in entry.get("shares", ())},
    )
