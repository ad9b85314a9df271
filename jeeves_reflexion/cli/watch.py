"""The trace of a run on a person's screen, with the store that its lessons are kept in."""

from __future__ import annotations

from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.events import Event, RunFinished
from jeeves_reflexion.loop.trace import Trace
from jeeves_reflexion.summary import counted


class Watch(Trace):
    """A trace on stderr; ``place`` is where lessons are kept, if anywhere."""

    def __init__(self, screen: Screen, place: str | None) -> None:
        super().__init__(screen)
        self._place = place

    def opened(self, n_lessons: int) -> None:
        """Say which store is in use."""
        self.display.note(f"lessons: {self._place} ({n_lessons} so far)", "dim")
        self.display.waiting_for("opening the lessons")

    def farewell(self) -> str:
        """Say what an interrupt leaves behind."""
        if self._place is None:
            return "the run was stopped; it kept no lessons, as asked"
        if not self.kept:
            return "the run was stopped before it had learned anything; earlier lessons are as they were"
        kept = f"{counted(self.kept, 'lesson')} in {self._place}"
        return f"the run was stopped; what was learned up to then is kept ({kept})"

    def __call__(self, event: Event) -> None:
        """Show an event."""
        super().__call__(event)
        if isinstance(event, RunFinished) and self._place is not None:
            # It is what "lessons outcome" takes, by somebody who knows better later.
            self.display.note(f"run: {event.run_id}", "dim")
