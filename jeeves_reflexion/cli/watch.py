"""Shows a person what a run does while it does it."""

from __future__ import annotations

from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.events import (
    AttemptFinished,
    AttemptStarted,
    Evaluated,
    Event,
    LessonDropped,
    LessonPersisted,
    LessonProduced,
    LessonsRecalled,
    ModelCalled,
    RunFinished,
    Warned,
)
from jeeves_reflexion.types import StopReason, Usage

_EXCERPT = 160
_ENDS: dict[StopReason, str] = {
    "passed": "passed",
    "max_attempts": "not passed: the attempts are used up",
    "unscorable": "stopped: attempts could not be scored",
    "budget": "stopped: the budget is used up",
    "reflection_missing": "stopped: the reflection that a retry waits for was not written",
    "not_retry_safe": "stopped: the agent can't be run again",
}


class Watch:
    """A listener that turns events into lines on stderr; ``place`` is where lessons are kept, if anywhere."""

    def __init__(self, screen: Screen, place: str | None) -> None:
        self._screen = screen
        self._place = place
        self._kept = 0
        self._produced = ""
        self._warning = ""
        self._error = ""
        self._usage = Usage()

    def opened(self, n_lessons: int) -> None:
        """Say which store is in use."""
        self._screen.note(f"lessons: {self._place} ({n_lessons} so far)", "dim")
        self._screen.waiting_for("opening the lessons")

    def farewell(self) -> str:
        """Say what an interrupt leaves behind."""
        if self._place is None:
            return "the run was stopped; it kept no lessons, as asked"
        if not self._kept:
            return "the run was stopped before it had learned anything; earlier lessons are as they were"
        kept = f"{_count(self._kept)} in {self._place}"
        return f"the run was stopped; what was learned up to then is kept ({kept})"

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case AttemptStarted():
                self._screen.note(f"attempt {event.attempt} of {event.max_attempts}", "bold")
                self._screen.waiting_for("working" if self._place is None else "recalling lessons")
            case LessonsRecalled():
                self._recalled(event)
            case AttemptFinished():
                self._attempted(event)
            case Evaluated():
                self._judged(event)
            case LessonProduced() | LessonPersisted() | LessonDropped():
                self._learned(event)
            case Warned(message=message):
                self._warning = message
                # What the attempt failed of was shown when it ended.
                if not self._error or not message.endswith(self._error):
                    self._screen.note(f"warning: {message}", "yellow", indent=2)
            case ModelCalled(usage=usage):
                self._usage += usage
            case RunFinished():
                self._ended(event)
            case _:
                pass  # what an agent says of itself

    def _recalled(self, event: LessonsRecalled) -> None:
        withheld = f", {event.n_withheld} withheld by the draw" if event.n_withheld else ""
        self._screen.note(f"recalled {_count(event.n_recalled)}{withheld}", "dim", indent=2)
        for lesson in event.lessons:
            self._screen.note(f"- {lesson}", "dim", indent=4)
        self._screen.waiting_for("working")

    def _attempted(self, event: AttemptFinished) -> None:
        text = event.output.strip()
        if text:
            shown = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."
            self._screen.note(f"answer: {shown}", indent=2)
        self._error = event.error or ""
        if event.error:
            self._screen.note(f"the attempt failed: {event.error}", "yellow", indent=2)
        elif event.interrupted:
            self._screen.note(f"the attempt was cut short: {event.interrupted}", "yellow", indent=2)
        self._screen.waiting_for("judging")

    def _judged(self, event: Evaluated) -> None:
        score = "no score" if event.score is None else f"score {event.score:.2f}"
        verdict = "passed" if event.passed else "could not be judged" if event.score is None else "not passed"
        self._screen.note(f"{score}: {verdict}", "green" if event.passed else "yellow", indent=2)
        self._screen.waiting_for("reflecting")

    def _learned(self, event: LessonProduced | LessonPersisted | LessonDropped) -> None:
        match event:
            case LessonProduced(lesson=lesson):
                self._produced = lesson
                self._screen.waiting_for("storing the lesson")
            case LessonPersisted(lesson=stored):
                self._kept += stored is not None
                self._screen.note(f"learned: {stored.text if stored else self._produced}", "cyan", indent=2)
            case LessonDropped(reason=reason):
                # A warning has said it already.
                if reason != self._warning:
                    self._screen.note(f"no lesson: {reason}", "yellow", indent=2)

    def _ended(self, event: RunFinished) -> None:
        tokens = f"{self._usage.tokens:,} tokens"
        if self._usage.unreported:
            tokens += f" and {self._usage.unreported} calls without a count"
        parts = [
            f"{event.attempts} attempt{'' if event.attempts == 1 else 's'}",
            "no score" if event.score is None else f"best score {event.score:.2f}",
            f"{_count(self._kept)} kept",
            tokens,
            f"{event.seconds:.1f} s",
        ]
        style = "bold green" if event.passed else "bold yellow"
        self._screen.note(f"{_ENDS[event.stop_reason]} ({', '.join(parts)})", style)
        if self._place is not None:
            # It is what "lessons outcome" takes, by somebody who knows better later.
            self._screen.note(f"run: {event.run_id}", "dim")


def _count(number: int) -> str:
    return f"{number or 'no'} lesson{'' if number == 1 else 's'}"
