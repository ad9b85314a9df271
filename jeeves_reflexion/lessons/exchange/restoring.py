"""What taking a lesson back from a backup would undo: the store's history tells whether it has moved on since."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

from jeeves_reflexion.lessons.history import Entry
from jeeves_reflexion.types import Lesson

_SHOWN: Final = 3


def undone(backup: Lesson, entries: Sequence[Entry]) -> str:
    """Say which changes of a lesson came after the state that a backup holds; empty if it was never in that state.

    ``entries`` is the lesson's history in the store, oldest first. A state that the history doesn't know is no older
    one: the backup was made elsewhere, or edited by hand. Where words of a forgotten lesson were struck from the
    history, any state that it doesn't know may have these words.
    """
    states = [entry.before for entry in entries[:1] if entry.before is not None]
    states += [entry.after for entry in entries]
    if backup not in states:
        return ", ".join(_said(entry) for entry in entries if entry.operation == "forget")
    if states[-1] == backup:
        return ""
    newest = len(states) - 1 - states[::-1].index(backup)
    later = entries[len(entries) - (len(states) - 1 - newest) :]
    shown = ", ".join(map(_said, later[-_SHOWN:]))
    return f"{shown} and {len(later) - _SHOWN} more" if len(later) > _SHOWN else shown


def _said(entry: Entry) -> str:
    day = datetime.datetime.fromtimestamp(entry.at, datetime.UTC).date()
    by = f" by {entry.by}" if entry.by else ""
    reason = f" ({entry.reason})" if entry.reason else ""
    return f"{entry.operation} of {day}{by}{reason}"
