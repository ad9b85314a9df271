"""Lessons and what is known of them, in words for a person and in columns for a pipe."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from jeeves_reflexion.text import abridge

if TYPE_CHECKING:
    from jeeves_reflexion.cli.lessons.library import Found
    from jeeves_reflexion.lessons.history import Entry
    from jeeves_reflexion.lessons.quarantine import Held
    from jeeves_reflexion.types import Lesson, Lift

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


def waiting_row(lesson: Lesson, at: float, state: str, why: str) -> dict[str, str]:
    """Return what waits for a decision since ``at`` as one item of a list."""
    about = {"state": state, "trust": lesson.trust, "why": why, "task": task_excerpt(lesson)}
    return {"id": short(lesson.id), "date": when(at, "%Y-%m-%d"), **about, "lesson": lesson.text}


def details(found: Found, tasks: Sequence[str] = ()) -> dict[str, str]:
    """Return everything about a lesson or a held text, by name; ``tasks`` are all that it is recalled for."""
    from jeeves_reflexion.lessons.schema import MERGED_INTO, VOTES

    lesson, held = found.lesson, found.held
    source, votes = lesson.provenance, lesson.metadata.get(VOTES)
    score = "none" if source.score is None else f"{source.score:.2f}"
    of_held = {} if held is None else {"kind of order": held.kind, "why": held.why}
    return {
        "id": lesson.id,
        "lesson": lesson.text,
        "task": lesson.task_excerpt,
        "also for": "; ".join(abridge(each, _TASK_EXCERPT) for each in tasks[1:]),
        "kind": lesson.task_kind or "",
        "tools": ", ".join(lesson.tools),
        "state": lesson.state if held is None else "in quarantine",
        **of_held,
        "reason": lesson.state_reason,
        "merged into": str(lesson.metadata.get(MERGED_INTO, "")),
        "trust": lesson.trust,
        "learned": "once" if lesson.support == 1 else f"{lesson.support} times",
        "votes": f"{votes:+d}" if isinstance(votes, int) and votes else "",
        "contradicts": ", ".join(map(short, lesson.contradicts)),
        "from": f"attempt {source.attempt} ({lesson.outcome}, score {score}) of run {source.run_id}",
        "steps": ", ".join(map(str, lesson.evidence)),
        "by": " with ".join(part for part in (source.agent, source.model) if part),
        "written": when(source.created_at, "%Y-%m-%d %H:%M:%S %z"),
        "held since": "" if held is None else when(held.at, "%Y-%m-%d %H:%M:%S %z"),
    }


def held_document(held: Held) -> dict[str, object]:
    """Return a text in quarantine for a machine."""
    return {"kind": held.kind, "why": held.why, "at": held.at, "lesson": held.lesson}


def change_of(before: Lesson | None, after: Lesson, *, told: str = "") -> str:
    """Say in words what became of a lesson; empty if nothing did. A reason that was ``told`` is not said again."""
    from jeeves_reflexion.lessons.schema import VOTES

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
    from jeeves_reflexion.lessons.history import PUT_BACK

    before, after = entry.before, entry.after
    reworded = before is not None and before.text != after.text
    if reworded:
        text = after.text
    elif entry.operation == PUT_BACK and before is not None:
        text = f"{before.state} -> quarantine"
    else:
        text = change_of(before, after, told=entry.reason)
        if entry.operation == "merge" and any(each not in entry.reason for each in entry.others):
            text += f"; takes in {', '.join(map(short, entry.others))}"
    return {
        "number": str(entry.number),
        "date": when(entry.at, "%Y-%m-%d %H:%M"),
        "operation": entry.operation,
        "by": f"by {entry.by}" if entry.by else "-",
        "reason": entry.reason or "-",
        "was": before.text if before is not None and reworded else "-",
        "text": text,
    }


def lift_words(lift: Lift | None) -> str:
    """Say a lift in points of score, with its interval and numbers."""
    if lift is None:
        return "unknown"
    of = f"{lift.n_with} with, {lift.n_without} without"
    if lift.value is None or lift.low is None or lift.high is None:
        return f"not enough data ({of})"
    value, low, high = (f"{100 * each:+.0f}" for each in (lift.value, lift.low, lift.high))
    return f"{value} points ({low} to {high}; {of})"


def task_excerpt(lesson: Lesson) -> str:
    """Return a task's beginning and end."""
    return abridge(lesson.task_excerpt, _TASK_EXCERPT)


def when(at: float, form: str) -> str:
    """Return a time of day here; "-" for one that is not known."""
    if not at:
        return "-"
    return datetime.datetime.fromtimestamp(at, tz=datetime.UTC).astimezone().strftime(form)
