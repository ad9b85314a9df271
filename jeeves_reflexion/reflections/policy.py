"""Which agent owes a reflection: after a failed or partial task, an agent gets no other task before it has written one.

An orchestrator reports how tasks ended, and asks before it hands out the next::

    policy = ReflectionPolicy(journal)
    await policy.finished("researcher", task, "failed", run_id=run_id)
    await policy.require("researcher")          # ReflectionOwedError, until the reflection is in the journal

The policy keeps duties in memory. A duty is done as soon as its reflection is in the journal. A file that a person
wrote, which names no run, counts for the task in its title.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from anyio.to_thread import run_sync

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, UnreadableReplyError
from jeeves_reflexion.protocols import Reflector
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.forms import FORMS, ReflectionFormError, fills, outcome_of
from jeeves_reflexion.reflections.journal import Malformed, ReflectionJournal, Stored
from jeeves_reflexion.reflections.markdown import Entry, agent_slug, entry_of, plain_id, summary_of
from jeeves_reflexion.reflections.streams import flaw_of
from jeeves_reflexion.session import logger
from jeeves_reflexion.types import NO_USAGE, Outcome, Provenance, Reflection, RunResult, Task, Trial


def required_form(reflector: Reflector, *, mandatory: bool) -> Reflector:
    """Return a reflector that is asked once more, with the problem, if its reflection does not fit its form.

    With ``mandatory``, a failed or partial trial needs the form of its outcome, and a reflection that gives orders to
    its readers, which could not be stored, is refused too. Raises :class:`UnreadableReplyError`, which says what is
    wrong, and whatever ``reflector`` raises.
    """

    async def reflect(task: Task, trials: Sequence[Trial], *, problem: str | None = None) -> Reflection:
        usage = NO_USAGE
        for _ in range(1 if problem else 2):
            reflection = await reflector(task, trials, problem=problem)
            usage += reflection.usage
            if mandatory or reflection.fields:
                problem = await run_sync(_problem, task, trials[-1], reflection, mandatory)
            else:
                problem = None
            if problem is None:
                return replace(reflection, usage=usage)
        raise UnreadableReplyError(f"the reflection was refused: {problem}")

    return reflect


def _problem(task: Task, last: Trial, reflection: Reflection, mandatory: bool) -> str | None:  # noqa: FBT001
    due = outcome_of(last.evaluation, passed=last.passed)
    owed = mandatory and FORMS[due].policy == "mandatory"
    if owed and not fills(reflection.outcome, due):
        return f"it is a {reflection.outcome} reflection, and a {due} one is due ({FORMS[due].headings})"
    try:
        entry = entry_of(task, reflection, Provenance("", 0, None), id="")
    except ReflectionFormError as error:
        return str(error) if owed or reflection.fields else None
    # Without the summary, which has the words of the task, not of the reflection.
    flaw = flaw_of(replace(entry, summary="")) if mandatory else ""
    return f"it {flaw}: describe it generically" if flaw else None


@dataclass(frozen=True, slots=True)
class Duty:
    """A reflection that is due; ``seen`` has the digests of earlier files, which don't count as this reflection."""

    agent: str
    task_id: str
    outcome: Outcome
    summary: str
    run_id: str = ""
    attempt: int = 0
    seen: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def required(self) -> bool:
        """Whether the reflection is mandatory; otherwise it is only recommended."""
        return FORMS[self.outcome].policy == "mandatory"

    def __str__(self) -> str:
        return f"a {self.outcome} reflection on {self.summary!r} ({FORMS[self.outcome].headings})"

    def is_paid_by(self, stored: Stored) -> bool:
        """Return whether a file is the reflection that is due."""
        entry = stored.entry
        if stored.digest in self.seen or not fills(entry.reflection.outcome, self.outcome):
            return False
        if not entry.id:  # a person wrote it, and its title names the task
            return entry.summary.casefold() == self.summary.casefold()
        return self.is_named_by(entry) if self.run_id else entry.task_id == self.task_id

    def is_named_by(self, entry: Entry) -> bool:
        """Return whether an entry names this task, run and attempt."""
        names = (entry.task_id, entry.source.run_id, entry.source.attempt)
        return bool(self.run_id) and names == (self.task_id, self.run_id, self.attempt)


class ReflectionOwedError(LessonStoreError):
    """An agent may not take its next task yet; ``owed`` says which reflections are missing.

    ``folder`` is the folder of the agent's files; ``malformed`` are files there that can't be read, and may be the
    missing ones.
    """

    def __init__(
        self, agent: str, owed: tuple[Duty, ...], folder: Path, malformed: Sequence[Malformed] = ()
    ) -> None:
        missing = [*map(str, owed), *(f"{bad.path.name} can't be read: {bad.problem}" for bad in malformed)]
        super().__init__(
            f"agent {agent!r} may take no other task before it has written, in {folder}, {'; '.join(missing)}"
        )
        self.owed = owed


class ReflectionPolicy:
    """Tells an orchestrator whether an agent may take its next task.

    A failed task needs the full form, a partial one the short or the full form, and a success none. For a decision
    without a reflection, the policy logs a warning.
    """

    def __init__(self, journal: ReflectionJournal) -> None:
        self.journal = journal
        self._duties: list[Duty] = []

    async def finished(
        self, agent: str, task: Task, outcome: Outcome, *, run_id: str = "", attempt: int = 0
    ) -> Duty | None:
        """Report how a task ended; return the reflection that is due, if any.

        It must be on the same task, and of the same run and attempt if these are given.
        """
        if outcome not in FORMS:
            raise ConfigurationError(f"outcome must be one of {', '.join(FORMS)}, not {outcome!r}")
        if FORMS[outcome].policy == "optional":
            return None
        return self._noted(
            agent, task, outcome, run_id, attempt, await run_sync(self.journal.everything, agent)
        )

    async def after(self, result: RunResult, agent: str) -> tuple[Duty, ...]:
        """Report a run; return the reflections that the agent owes now. Attempts without a verdict need none."""
        stored = await run_sync(self.journal.everything, agent)
        for each in result.trials:
            outcome = outcome_of(each.evaluation, passed=each.passed)
            if each.evaluation.scored and FORMS[outcome].policy == "mandatory":
                self._noted(agent, result.task, outcome, result.run_id, each.number, stored)
        return await self.owed(agent)

    async def owed(self, agent: str) -> tuple[Duty, ...]:
        """Return the reflections that the agent must write before it goes on."""
        return tuple(duty for duty in await self._due(agent) if duty.required)

    async def require(self, agent: str) -> None:
        """Raise :class:`ReflectionOwedError`, which says what is missing, unless the agent may take its next task.

        A missing reflection that is only recommended is logged once, as a warning.
        """
        due = await self._due(agent)
        for duty in due:
            if not duty.required:
                logger.warning("agent %s went on without %s: it is recommended", duty.agent, duty)
                self._duties.remove(duty)
        if owed := tuple(duty for duty in due if duty.required):
            name, malformed = agent_slug(agent), (await run_sync(self.journal.list, agent)).malformed
            raise ReflectionOwedError(name, owed, self.journal.folder / name, malformed)

    def _noted(
        self, agent: str, task: Task, outcome: Outcome, run_id: str, attempt: int, stored: Sequence[Stored]
    ) -> Duty:
        """Note one duty for an attempt. Files that exist already don't count, unless they name this attempt."""
        # Redacted, as the summary of the reflection will be.
        summary = summary_of(redact(task.prompt))
        duty = Duty(agent_slug(agent), plain_id(task.id), outcome, summary, plain_id(run_id), attempt)
        if not run_id or duty not in self._duties:
            seen = frozenset(one.digest for one in stored if not duty.is_named_by(one.entry))
            self._duties.append(replace(duty, seen=seen))
        return duty

    async def _due(self, agent: str) -> list[Duty]:
        """Drop the duties of an agent that are done, and return the others."""
        name = agent_slug(agent)
        if any(duty.agent == name for duty in self._duties):
            stored = await run_sync(self.journal.everything, name)
            self._duties = [
                duty for duty in self._duties if duty.agent != name or not any(map(duty.is_paid_by, stored))
            ]
        return [duty for duty in self._duties if duty.agent == name]
