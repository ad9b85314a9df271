"""Texts for people: a result of the loop as lines or a table, and numbers, times and lifts in words."""

from __future__ import annotations

import contextlib
import datetime
from typing import TYPE_CHECKING, Any, Final

from jeeves_reflexion.text import one_line, visible

if TYPE_CHECKING:
    from jeeves_reflexion.types import Lift, RunResult, Usage

ENDS: Final = {
    "passed": "passed",
    "max_attempts": "not passed: the attempts are used up",
    "unscorable": "stopped: attempts could not be scored",
    "budget": "stopped: the budget is used up",
    "reflection_missing": "stopped: the reflection that a retry waits for was not written",
    "not_retry_safe": "stopped: the agent can't be run again",
}
"""Why a run stopped, by its stop reason."""

_WIDTH: Final = 200
_COLUMNS: Final = ("attempt", "score", "verdict", "recalled", "tokens", "seconds", "learned")
_NUMBERS: Final = {"attempt", "score", "recalled", "tokens", "seconds"}


def lines(result: RunResult[Any]) -> str:
    """Return how a run ended, its answer and what it learned, one per line."""
    facts = [
        counted(len(result.trials), "attempt"),
        "no score" if result.score is None else f"best score {result.score:.2f}",
        tokens_of(result.total_usage),
        f"{result.seconds:.1f} s",
    ]
    found = [f"{ENDS[result.stop_reason]} ({', '.join(facts)})"]
    if result.text.strip():
        found.append(f"answer: {shortened(result.text)}")
    texts = [trial.lesson.text for trial in result.trials if trial.lesson]
    found += [f"learned: {shortened(text)}" for text in texts if text]
    found += [f"problem: {shortened(problem)}" for problem in result.problems]
    return "\n".join(found)


def table(result: RunResult[Any]) -> str:
    """Return one row for each attempt, below a row of headings; empty if there was no attempt."""
    if not result.trials:
        return ""
    rows = [_COLUMNS]
    for trial in result.trials:
        score, tokens = trial.evaluation.score, sum(each.tokens for each in trial.usage.values())
        used = f"{tokens:,}"
        if any(each.unreported for each in trial.usage.values()):
            used = f"{used}+" if tokens else "unknown"  # a lower bound
        row = (
            str(trial.number),
            "-" if score is None else f"{score:.2f}",
            "passed" if trial.passed else "not passed" if trial.evaluation.scored else "not judged",
            "-" if trial.recall is None else str(len(trial.recall.offered)),
            used,
            f"{trial.seconds:.1f}",
            shortened(trial.lesson.text if trial.lesson else "") or "-",
        )
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    found = []
    for row in rows:
        cells = [
            cell.rjust(width) if name in _NUMBERS else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ]
        found.append("  ".join(cells).rstrip())
    return "\n".join(found)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``no lessons``, ``1 lesson``, ``2 lessons``."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def when(at: float, form: str = "%Y-%m-%d") -> str:
    """Return the local time, given in seconds since 1970; empty if it is 0 (unknown) or out of range."""
    with contextlib.suppress(OverflowError, ValueError, OSError):
        return datetime.datetime.fromtimestamp(at, datetime.UTC).astimezone().strftime(form) if at else ""
    return ""


def lift_words(lift: Lift | None, counts: str = "{} with, {} without") -> str:
    """Return a lift in points of score, with its interval and the numbers of attempts."""
    if lift is None:
        return "unknown"
    of = counts.format(lift.n_with, lift.n_without)
    if lift.value is None or lift.low is None or lift.high is None:
        return f"not enough data ({of})"
    value, low, high = (f"{100 * each:+.0f}" for each in (lift.value, lift.low, lift.high))
    return f"{value} points ({low} to {high}; {of})"


def tokens_of(usage: Usage) -> str:
    """Return the tokens of a usage; calls that reported none are mentioned, and never shown as 0."""
    if usage.unreported and not usage.tokens:
        return "tokens unknown"
    unknown = f" and {counted(usage.unreported, 'call')} without a count" if usage.unreported else ""
    return f"{usage.tokens:,} tokens{unknown}"


def shortened(text: str) -> str:
    """Return a text on one line of bounded length, without characters that move a terminal's cursor."""
    line = one_line(visible(text))
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
