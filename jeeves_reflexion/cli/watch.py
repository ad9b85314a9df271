"""What a person sees of a run, and what a machine gets of its result."""

from __future__ import annotations

from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.events import Event, RunFinished
from jeeves_reflexion.loop.trace import Trace
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import RunResult


class Watch(Trace):
    """The trace of a run on a person's screen; ``address`` is where its lessons are kept, if anywhere."""

    def __init__(self, screen: Screen, address: str | None) -> None:
        super().__init__(screen)
        self._address = address

    def opened(self, n_lessons: int) -> None:
        """Say which store is in use."""
        self.display.note(f"lessons: {self._address} ({n_lessons} so far)", "dim")
        self.display.waiting_for("opening the lessons")

    def farewell(self) -> str:
        """Say what an interrupt leaves behind."""
        if self._address is None:
            return "the run was stopped; it kept no lessons, as asked"
        if not self.kept:
            return "the run was stopped before it had learned anything; earlier lessons are as they were"
        kept = f"{counted(self.kept, 'lesson')} in {self._address}"
        return f"the run was stopped; what was learned up to then is kept ({kept})"

    def __call__(self, event: Event) -> None:
        """Show an event."""
        super().__call__(event)
        if isinstance(event, RunFinished) and self._address is not None:
            # It is what "lessons outcome" takes, by somebody who knows better later.
            self.display.note(f"run: {event.run_id}", "dim")


def result_document(result: RunResult, address: str | None, namespace: str) -> dict[str, object]:
    """Return a run's result: what matters first, then every trial whole."""
    store = {"place": address, "address": address, "namespace": namespace}
    return {
        "run_id": result.run_id,
        "passed": result.passed,
        "stop_reason": result.stop_reason,
        "detail": result.detail,
        "escalated": result.escalated,
        "score": result.score,
        "output": result.text,
        "best_attempt": result.best.number if result.best else None,
        "attempts": len(result.trials),
        "seconds": result.seconds,
        "usage": {**{str(role): spent for role, spent in result.usage.items()}, "total": result.total_usage},
        "lessons": result.lessons,
        "store": None if address is None else store,
        "task": result.task.public(),
        "trials": result.trials,
    }
