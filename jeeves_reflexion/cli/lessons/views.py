"""Lessons and what is known of them, in words for a person and in columns for a pipe."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Final

from jeeves_reflexion.cli.plain import as_json
from jeeves_reflexion.cli.service import with_values
from jeeves_reflexion.lessons.history import PUT_BACK, Entry
from jeeves_reflexion.lessons.quarantine import Held
from jeeves_reflexion.lessons.records import MERGED_INTO, VOTES
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON, Lesson, Lift

SHORT_ID: Final = 8
_TASK_EXCERPT: Final = 60


def short(lesson_id: str) -> str:
    """Return as much of an id as people need."""
    return lesson_id[:SHORT_ID]


def row(lesson: Lesson, *more: tuple[str, str]) -> dict[str, str]:
    """Return a lesson as one item of a list, with further columns before its task."""
    score = lesson.provenance.score
    return {
        "id": short(lesson.id),
        "date": when(lesson.provenance.created_at, "%Y-%m-%d"),
        "score": "-" if score is None else f"{score:.2f}",
        **dict(more),
        "task": task_excerpt(lesson),
        "lesson": lesson.text,
    }


def details(lesson: Lesson, tasks: Sequence[str] = ()) -> dict[str, str]:
    """Return everything about a lesson, by name; ``tasks`` are all that it is recalled for."""
    source = lesson.provenance
    score = "none" if source.score is None else f"{source.score:.2f}"
    merged, votes = lesson.metadata.get(MERGED_INTO), lesson.metadata.get(VOTES)
    return with_values(
        {
            "id": lesson.id,
            "lesson": lesson.text,
            "task": lesson.task_excerpt,
            "also for": "; ".join(abridge(each, _TASK_EXCERPT) for each in tasks[1:]),
            "kind": lesson.task_kind or "",
            "tools": ", ".join(lesson.tools),
            "state": lesson.state,
            "reason": lesson.state_reason,
            "merged into": str(merged) if merged else "",
            "trust": lesson.trust,
            "learned": times(lesson.support),
            "votes": f"{votes:+d}" if isinstance(votes, int) and votes else "",
            "contradicts": ", ".join(map(short, lesson.contradicts)),
            "from": f"attempt {source.attempt} ({lesson.outcome}, score {score}) of run {source.run_id}",
            "steps": ", ".join(map(str, lesson.evidence)),
            "by": " with ".join(part for part in (source.agent, source.model) if part),
            "written": when(source.created_at, "%Y-%m-%d %H:%M:%S %z"),
        }
    )


def held_details(held: Held) -> dict[str, str]:
    """Return everything about a text in quarantine, by name."""
    of_lesson = details(held.lesson)
    del of_lesson["state"]
    first = {"id": held.id, "state": "in quarantine", "kind of order": held.kind, "why": held.why}
    return {**first, **of_lesson, "held since": when(held.at, "%Y-%m-%d %H:%M:%S %z")}


def held_row(held: Held) -> dict[str, str]:
    """Return a text in quarantine as one item of a list."""
    return {
        "id": short(held.id),
        "date": when(held.at, "%Y-%m-%d"),
        "state": "quarantine",
        "trust": held.lesson.trust,
        "why": f"{held.kind}: {held.why}",
        "task": task_excerpt(held.lesson),
        "lesson": held.lesson.text,
    }


def held_as_json(held: Held) -> dict[str, JSON]:
    """Return a text in quarantine as JSON."""
    return {"kind": held.kind, "why": held.why, "at": held.at, "lesson": as_json(held.lesson)}


def change_of(before: Lesson | None, after: Lesson, *, told: str = "") -> str:
    """Say in words what became of a lesson; empty if nothing did. A reason that was ``told`` is not said again."""
    if before is None:
        return after.text
    parts = []
    if before.text != after.text:
        parts.append(f"{before.text} -> {after.text}")
    if (before.state, before.state_reason) != (after.state, after.state_reason):
        reason = f": {after.state_reason}" if after.state_reason not in ("", told) else ""
        moved = f"{before.state} -> {after.state}" if before.state != after.state else "reason"
        parts.append(moved + reason)
    if before.trust != after.trust:
        parts.append(f"trust {before.trust} -> {after.trust}")
    if before.support != after.support:
        parts.append(f"support {before.support} -> {after.support}")
    if before.contradicts != after.contradicts:
        parts.append(f"contradicts {', '.join(map(short, after.contradicts)) or 'none'}")
    votes = (before.metadata.get(VOTES, 0), after.metadata.get(VOTES, 0))
    if votes[0] != votes[1]:
        parts.append(f"votes {votes[0]} -> {votes[1]}")
    if before != after and not parts:
        parts.append("what is noted beside it")
    return "; ".join(parts)


def lift_words(lift: Lift | None) -> str:
    """Say a lift in points of score, with its interval and numbers."""
    if lift is None:
        return "unknown"
    of = f"{lift.n_with} with, {lift.n_without} without"
    if lift.value is None or lift.low is None or lift.high is None:
        return f"not enough data ({of})"
    return f"{points(lift.value)} points ({points(lift.low)} to {points(lift.high)}; {of})"


def points(value: float) -> str:
    """Return a share as points, with its sign."""
    return f"{100 * value:+.0f}"


def task_excerpt(lesson: Lesson) -> str:
    """Return a task's beginning and end."""
    return abridge(lesson.task_excerpt, _TASK_EXCERPT)


def times(number: int) -> str:
    """Say how often."""
    return "once" if number == 1 else f"{number} times"


def tallied(counts: Mapping[str, int]) -> str:
    """Return counts by name on one line, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number} {name}" for name, number in ordered)


def when(at: float, form: str) -> str:
    """Return a time of day here; "-" for one that is not known."""
    if not at:
        return "-"
    return datetime.datetime.fromtimestamp(at, tz=datetime.UTC).astimezone().strftime(form)


def entry_row(entry: Entry) -> dict[str, str]:
    """Return a change of a lesson as one item of a list."""
    before = entry.before
    text = change_of(before, entry.after, told=entry.reason)
    if entry.operation == PUT_BACK and before is not None:
        text = f"{before.state} -> quarantine"
    elif (
        entry.operation == "merge" and entry.others and not all(each in entry.reason for each in entry.others)
    ):
        text += f"; takes in {', '.join(map(short, entry.others))}"
    reworded = before is not None and before.text != entry.after.text
    return {
        "number": str(entry.number),
        "date": when(entry.at, "%Y-%m-%d %H:%M"),
        "operation": entry.operation,
        "by": f"by {entry.by}" if entry.by else "-",
        "reason": entry.reason or "-",
        "was": before.text if before is not None and reworded else "-",
        "text": entry.after.text if reworded else text,
    }
