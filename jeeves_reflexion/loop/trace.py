"""Shows a person what a run is doing."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import zip_longest
from typing import Final

from jeeves_reflexion import events
from jeeves_reflexion.session import Session, relay
from jeeves_reflexion.summary import ENDS, counted, shortened, tokens_of
from jeeves_reflexion.text import visible
from jeeves_reflexion.types import Usage

_WIDTH: Final = 80
_STATED = re.compile(r"\A\s*score\W+[\d.]+\s*(?:\n|\Z)", re.IGNORECASE)


def print_line(text: str, style: str = "", *, indent: int = 0) -> None:
    """Write a line on stderr; the style is ignored."""
    print(" " * indent + visible(text), file=sys.stderr, flush=True)


class Trace:
    """A listener that turns the events of a run into lines, and passes each to ``note`` with its style and indent.

    Text that the agent's model streams is shown line by line. ``verbose`` adds the steps, the similarity of each
    lesson, the judge's reason and failed model calls.
    """

    def __init__(self, note: Callable[..., None] = print_line, *, verbose: bool = False) -> None:
        self.note = note
        self._verbose = verbose
        self.kept = 0
        self._produced = ""
        self._warning = ""
        self._error = ""
        self._usage = Usage()
        self._streamed = ""

    def __call__(self, event: events.Event) -> None:
        """Show an event."""
        # Streamed lines are shown when they are complete, or between words if they are long; any other event ends one.
        text = "\n"
        if isinstance(event, events.TextStreamed):
            text = event.text if event.role == "agent" else ""
        *lines, rest = (self._streamed + text).split("\n")
        while len(rest) > _WIDTH and (at := rest.rfind(" ", 0, _WIDTH)) > 0:
            lines, rest = [*lines, rest[:at]], rest[at + 1 :]
        self._streamed = rest
        for line in filter(str.strip, lines):
            self.note(f"> {line}", "dim", indent=2)

        match event:
            case (
                events.AttemptStarted()
                | events.LessonsRecalled()
                | events.AttemptFinished()
                | events.Evaluated()
            ):
                self._attempted(event)
            case (
                events.LessonChecked()
                | events.LessonProduced()
                | events.LessonPersisted()
                | events.LessonDropped()
                | events.Warned()
            ):
                self._learned(event)
            case events.StepTaken() | events.ModelFailed() if self._verbose:
                self._detailed(event)
            case events.ModelCalled(usage=usage):
                self._usage += usage
            case events.RunFinished():
                parts = [
                    counted(event.attempts, "attempt"),
                    "no score" if event.score is None else f"best score {event.score:.2f}",
                    f"{counted(self.kept, 'lesson')} kept",
                    # Tokens are unknown unless a model of this package was asked.
                    *([tokens_of(self._usage)] if self._usage.calls else []),
                    f"{event.seconds:.1f} s",
                ]
                style = "bold green" if event.passed else "bold yellow"
                self.note(f"{ENDS[event.stop_reason]} ({', '.join(parts)})", style)
            case _:
                pass  # other events are not shown

    def _attempted(
        self,
        event: events.AttemptStarted | events.LessonsRecalled | events.AttemptFinished | events.Evaluated,
    ) -> None:
        match event:
            case events.AttemptStarted():
                self.note(f"attempt {event.attempt} of {event.max_attempts}", "bold")
            case events.LessonsRecalled():
                withheld = f", {event.n_withheld} withheld by the draw" if event.n_withheld else ""
                self.note(f"recalled {counted(event.n_recalled, 'lesson')}{withheld}", "dim", indent=2)
                for lesson, similarity in zip_longest(event.lessons, event.similarities):
                    near = (
                        f"similarity {similarity:.2f}: " if self._verbose and similarity is not None else ""
                    )
                    self.note(f"- {near}{lesson}", "dim", indent=4)
            case events.AttemptFinished():
                if event.output.strip():
                    self.note(f"answer: {shortened(event.output)}", indent=2)
                self._error = event.error or ""
                if event.error:
                    self.note(f"the attempt failed: {event.error}", "yellow", indent=2)
                elif event.interrupted:
                    self.note(f"the attempt was cut short: {event.interrupted}", "yellow", indent=2)
            case events.Evaluated(score=score, passed=passed):
                verdict = "passed" if passed else "could not be judged" if score is None else "not passed"
                number = "no score" if score is None else f"score {score:.2f}"
                self.note(f"{number}: {verdict}", "green" if passed else "yellow", indent=2)
                reason = _STATED.sub("", event.rationale, count=1)  # the score was just shown
                if self._verbose and reason.strip():
                    self.note(f"reason: {shortened(reason)}", "dim", indent=4)

    def _learned(
        self,
        event: events.LessonChecked
        | events.LessonProduced
        | events.LessonPersisted
        | events.LessonDropped
        | events.Warned,
    ) -> None:
        match event:
            case events.LessonChecked(lesson=lesson, changes=False, reason=reason):
                refusal = f"turned down, it would not change an attempt: {lesson} ({reason})"
                self.note(refusal, "yellow", indent=2)
            case events.LessonChecked(changes=None, reason=reason):
                self.note(f"warning: the lesson is kept unchecked: {reason}", "yellow", indent=2)
            case events.LessonProduced(lesson=lesson):
                self._produced = lesson
            case events.LessonPersisted(lesson=stored):
                self.kept += stored is not None
                text = stored.text if stored else self._produced
                self.note(f"learned: {text}", "cyan", indent=2)
            case events.Warned(message=message):
                self._warning = message
                # The attempt's error was shown when it ended.
                if not self._error or not message.endswith(self._error):
                    self.note(f"warning: {message}", "yellow", indent=2)
            case events.LessonDropped(reason=reason) if (
                reason != self._warning
            ):  # else a warning has shown it
                self.note(f"no lesson: {reason}", "yellow", indent=2)

    def _detailed(self, event: events.StepTaken | events.ModelFailed) -> None:
        if isinstance(event, events.ModelFailed):
            failure = f"{event.model}, asked for the {event.role}, failed: {shortened(event.error)}"
            self.note(failure, "yellow", indent=2)
            return
        step = event.step
        action = step.action or "no action"
        self.note(f"step {event.number}: {shortened(action)}", indent=2)
        if step.thought.strip():
            self.note(f"thought: {shortened(step.thought)}", "dim", indent=4)
        if step.observation.strip():
            style = "yellow" if step.failed else "dim"
            self.note(f"observed: {shortened(step.observation)}", style, indent=4)


def traced(session: Session) -> Session:
    """Return a session whose events are also shown, line by line on stderr."""
    trace = Trace()

    async def both(event: events.Event) -> None:
        trace(event)
        await relay(session, event)

    return session.listening(both)
