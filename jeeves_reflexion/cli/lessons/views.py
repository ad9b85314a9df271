"""Lessons and what is known of them, in words for a person and in columns for a pipe."""

from __future__ import annotations

import datetime
from typing import Final

from jeeves_reflexion.lessons.history import PUT_BACK, Entry
from jeeves_reflexion.lessons.quarantine import Held
from jeeves_reflexion.lessons.schema import VOTES
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import Lesson

_TASK_EXCERPT: Final = 60


def short(lesson_id: str) -> str:
    """Return as much of an id as people need."""
    return lesson_id[:8]


def row(lesson: Lesson, **more: str) -> dict[str, str]:
    """Return a lesson as one item of a list, with further columns before its task."""
    score = lesson.provenance.score
    return {
        "id": short(lesson.id),
        "date": when(lesson.provenance.created_at, "%Y-%m-%d"),
        "score": "-" if score is None else f"{score:.2f}",
        **more,
        "task": task_excerpt(lesson),
        "lesson": lesson.text,
    }


def brief(lesson: Lesson, **about: str) -> dict[str, str]:
    """Return a lesson's id, something about it, and its text."""
    return {"id": short(lesson.id), **about, "lesson": lesson.text}


def held_document(held: Held) -> dict[str, object]:
    """Return a text in quarantine for a machine."""
    return {"kind": held.kind, "why": held.why, "at": held.at, "lesson": held.lesson}


def change_of(before: Lesson | None, after: Lesson, *, told: str = "") -> str:
    """Say in words what became of a lesson; empty if nothing did. A reason that was ``told`` is not said again."""
    if before is None:
        return after.text
    then, now = (
        {
            "": each.text,
            "trust": each.trust,
            "support": each.support,
            "contradicts": ", ".join(map(short, each.contradicts)) or "none",
            "votes": each.metadata.get(VOTES, 0),
        }
        for each in (before, after)
    )
    parts = [f"{name} {then[name]} -> {now[name]}".strip() for name in now if then[name] != now[name]]
    if (before.state, before.state_reason) != (after.state, after.state_reason):
        reason = f": {after.state_reason}" if after.state_reason not in ("", told) else ""
        moved = f"{before.state} -> {after.state}" if before.state != after.state else "reason"
        parts.append(moved + reason)
    if before != after and not parts:
        parts.append("what is noted beside it")
    return "; ".join(parts)


def entry_row(entry: Entry) -> dict[str, str]:
    """Return a change of a lesson as one item of a list."""
    before = entry.before
    text = change_of(before, entry.after, told=entry.reason)
    if entry.operation == PUT_BACK and before is not None:
        text = f"{before.state} -> quarantine"
    elif entry.operation == "merge" and any(each not in entry.reason for each in entry.others):
        text += f"; takes in {', '.join(map(short, entry.others))}"
    return {
        "number": str(entry.number),
        "date": when(entry.at, "%Y-%m-%d %H:%M"),
        "operation": entry.operation,
        "by": f"by {entry.by}" if entry.by else "-",
        "reason": entry.reason or "-",
        "text": text,
    }


def task_excerpt(lesson: Lesson) -> str:
    """Return a task's beginning and end."""
    return abridge(lesson.task_excerpt, _TASK_EXCERPT)


def when(at: float, form: str) -> str:
    """Return a time of day here; "-" for one that is not known."""
    if not at:
        return "-"
    return datetime.datetime.fromtimestamp(at, tz=datetime.UTC).astimezone().strftime(form)
