"""A reflector that has to fill in the form, where one is mandatory: asked again with what is wrong, then refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio.to_thread

from jeeves_reflexion.errors import UnreadableReplyError
from jeeves_reflexion.forms import FORMS, PARTIAL_FROM, fills, form_problem, outcome_of
from jeeves_reflexion.protocols import Reflector
from jeeves_reflexion.reflections.library import flaw_of
from jeeves_reflexion.reflections.markdown import entry_of
from jeeves_reflexion.types import NO_USAGE, Outcome, Provenance, Reflection, Task, Trial


class RequiredForm:
    """Asks ``reflector`` for a failed or partial trial's reflection, once more with what is missing of its form.

    So it is where a reflection commands its readers: it could not be stored. ``partial_from`` divides failed and
    partial as the reflector does, if it says so. Raises :class:`UnreadableReplyError`, which says what is wrong, and
    whatever the reflector raises.
    """

    def __init__(self, reflector: Reflector) -> None:
        self.reflector = reflector
        self.partial_from: float = getattr(reflector, "partial_from", PARTIAL_FROM)

    async def __call__(
        self, task: Task, trials: Sequence[Trial], *, problem: str | None = None
    ) -> Reflection:
        """Return a reflection that its form takes, and that may be stored."""
        last = trials[-1]
        due = outcome_of(last.evaluation, passed=last.passed, partial_from=self.partial_from)
        usage = NO_USAGE
        for _ in range(1 if problem else 2):
            made = await self.reflector(task, trials, problem=problem)
            usage += made.usage
            problem = _missing(made, due) or await anyio.to_thread.run_sync(_command, task, made)
            if problem is None:
                return replace(made, usage=usage)
        raise UnreadableReplyError(f"the reflection was refused: {problem}")


def _missing(reflection: Reflection, due: Outcome) -> str | None:
    form = FORMS[due]
    if form.policy != "mandatory":
        return None
    if not fills(reflection.outcome, due):
        headings = ", ".join(field.heading for field in form.fields)
        return f"it is a {reflection.outcome} reflection, and a {due} one is due ({headings})"
    return form_problem(reflection)


def _command(task: Task, reflection: Reflection) -> str | None:
    """Say how a reflection commands its readers; the task's own words are none of it."""
    if form_problem(reflection):
        return None  # of a form that need not be filled in
    entry = entry_of(task, reflection, Provenance("", 0, None), id="")
    flaw = flaw_of(replace(entry, summary=""))
    return f"it {flaw}: describe it generically" if flaw else None
