"""Who owes a reflection: an agent whose task failed, or went half right, takes no other before it has written it.

An orchestrator tells the policy how tasks ended and asks it before it hands out the next::

    policy = ReflectionPolicy(journal)
    await policy.finished("researcher", task, "failed", run_id=run_id)
    await policy.require("researcher")          # ReflectionOwedError, until the reflection is in the journal

What is owed is kept beside the agent's reflections, so that a restart forgives nothing, and is paid by the reflection
itself: there is nothing to tick off. A file that a person wrote, which names no run, pays for the task in its title.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from anyio.to_thread import run_sync
from pydantic import TypeAdapter

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, UnreadableReplyError
from jeeves_reflexion.files import not_written, read_regular, replace_file
from jeeves_reflexion.protocols import Reflector
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.blocks import flaw_of
from jeeves_reflexion.reflections.folder import Malformed, agent_slug, locked
from jeeves_reflexion.reflections.forms import FORMS, PARTIAL_FROM, ReflectionFormError, fills, outcome_of
from jeeves_reflexion.reflections.journal import ReflectionJournal, Stored
from jeeves_reflexion.reflections.markdown import entry_of, plain_id, summary_of
from jeeves_reflexion.session import logger
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import NO_USAGE, Outcome, Provenance, Reflection, RunResult, Task, Trial

OWED: Final = ".owed.json"
MOST_BYTES: Final = 10_000_000


class RequiredForm:
    """Asks ``reflector`` for a reflection, once more with what is wrong where its form refuses it.

    With ``mandatory`` a failed or partial trial needs the form of its outcome, and one that commands its readers, which
    could not be stored, is refused too. ``partial_from`` divides failed and partial as the reflector does, if it says
    so. Raises :class:`UnreadableReplyError`, which says what is wrong, and whatever the reflector raises.
    """

    def __init__(self, reflector: Reflector, *, mandatory: bool = True) -> None:
        self.reflector = reflector
        self.mandatory = mandatory
        self.partial_from: float = getattr(reflector, "partial_from", PARTIAL_FROM)

    async def __call__(
        self, task: Task, trials: Sequence[Trial], *, problem: str | None = None
    ) -> Reflection:
        """Return a reflection that its form takes, and that may be stored."""
        usage = NO_USAGE
        for _ in range(1 if problem else 2):
            made = await self.reflector(task, trials, problem=problem)
            usage += made.usage
            structured = self.mandatory or made.fields
            problem = await run_sync(self._problem, task, trials[-1], made) if structured else None
            if problem is None:
                return replace(made, usage=usage)
        raise UnreadableReplyError(f"the reflection was refused: {problem}")

    def _problem(self, task: Task, last: Trial, made: Reflection) -> str | None:
        due = outcome_of(last.evaluation, passed=last.passed, partial_from=self.partial_from)
        owed = self.mandatory and FORMS[due].policy == "mandatory"
        if owed and not fills(made.outcome, due):
            headings = ", ".join(field.heading for field in FORMS[due].fields)
            return f"it is a {made.outcome} reflection, and a {due} one is due ({headings})"
        try:
            entry = entry_of(task, made, Provenance("", 0, None), id="")
        except ReflectionFormError as error:
            return str(error) if owed or made.fields else None
        # The task's own words are none of what the reflection says.
        flaw = flaw_of(replace(entry, summary="")) if self.mandatory else ""
        return f"it {flaw}: describe it generically" if flaw else None


@dataclass(frozen=True, slots=True)
class Duty:
    """A reflection that is due; ``since`` is when its task ended, in seconds since 1970.

    ``seen`` holds the digests of the files by hand that were there before, and don't pay it.
    """

    agent: str
    task_id: str
    outcome: Outcome
    summary: str
    run_id: str = ""
    attempt: int = 0
    since: float = 0.0
    seen: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether the agent may not go on without it; else it is only recommended."""
        return FORMS[self.outcome].policy == "mandatory"

    def describe(self) -> str:
        """Say what is due, in a line."""
        headings = ", ".join(field.heading for field in FORMS[self.outcome].fields)
        return f"a {self.outcome} reflection on {self.summary!r} ({headings})"


_DUTIES: Final = TypeAdapter(list[Duty])


class ReflectionOwedError(LessonStoreError):
    """An agent may not take its next task yet; ``owed`` says which reflections are missing.

    ``folder`` is where the files go; ``malformed`` are those there that can't be read: one may be meant to pay.
    """

    def __init__(
        self, agent: str, owed: tuple[Duty, ...], folder: Path, malformed: Sequence[Malformed] = ()
    ) -> None:
        listed = "; ".join(duty.describe() for duty in owed)
        unread = "".join(f"; {bad.path.name} can't be read: {bad.problem}" for bad in malformed)
        super().__init__(
            f"agent {agent!r} takes no other task before it has written, in {folder}, {listed}{unread}"
        )
        self.owed = owed


class ReflectionPolicy:
    """What an orchestrator asks before it hands out a task. Safe to share between processes, as the journal is.

    A failed task asks for the full form, a partial one for the short form or the full one, a success for nothing, and
    a decision without its reflection is a warning in the log. ``partial_from`` is the score that divides failed and
    partial, as in :class:`~jeeves_reflexion.reflections.reflector.StructuredReflector`.
    """

    def __init__(self, journal: ReflectionJournal, *, partial_from: float = PARTIAL_FROM) -> None:
        self.journal = journal
        self.partial_from = partial_from

    async def finished(
        self, agent: str, task: Task, outcome: Outcome, *, run_id: str = "", attempt: int = 0
    ) -> Duty | None:
        """Note how a task ended; return what is due of it, if anything is.

        The reflection that pays it is one on the same task, of the same run and attempt where they are given.
        """
        if outcome not in FORMS:
            raise ConfigurationError(f"outcome must be one of {', '.join(FORMS)}, not {outcome!r}")
        if FORMS[outcome].policy == "optional":
            return None
        duty = _duty(agent_slug(agent), task, outcome, run_id, attempt)
        await run_sync(self._note, duty.agent, [duty])
        return duty

    async def after(self, result: RunResult, agent: str) -> tuple[Duty, ...]:
        """Note how the attempts of a run ended, and return what the agent still owes.

        An attempt without a verdict asks for nothing: nobody knows how it went.
        """
        name = agent_slug(agent)
        duties = []
        for trial in result.trials:
            outcome = outcome_of(trial.evaluation, passed=trial.passed, partial_from=self.partial_from)
            if trial.evaluation.scored and FORMS[outcome].policy == "mandatory":
                duties.append(_duty(name, result.task, outcome, result.run_id, trial.number))
        if duties:
            await run_sync(self._note, name, duties)
        return await self.owed(name)

    async def owed(self, agent: str) -> tuple[Duty, ...]:
        """Return the reflections that the agent must write before it goes on."""
        return tuple(duty for duty in await run_sync(self._due, agent_slug(agent)) if duty.required)

    async def may_take_next(self, agent: str) -> bool:
        """Say whether the agent owes nothing.

        A recommended reflection that is missing is a warning in the log, once.
        """
        name = agent_slug(agent)
        due = await run_sync(self._due, name)
        advised = [duty for duty in due if not duty.required]
        for duty in advised:
            logger.warning("agent %s went on without %s: it is recommended", duty.agent, duty.describe())
        if advised:
            keep: Callable[[list[Duty]], list[Duty]] = lambda noted: [d for d in noted if d not in advised]  # noqa: E731
            await run_sync(self._change, name, keep)
        return len(advised) == len(due)

    async def require(self, agent: str) -> None:
        """Raise :class:`ReflectionOwedError`, which says what is missing, unless the agent may take its next task."""
        if not await self.may_take_next(agent):
            name, malformed = agent_slug(agent), (await self.journal.list(agent)).malformed
            raise ReflectionOwedError(name, await self.owed(agent), self.journal.folder / name, malformed)

    # -- blocking --------------------------------------------------------------------------------------------------

    def _due(self, agent: str) -> list[Duty]:
        """Return what is due and not written; forget what has been."""

        def unpaid(noted: list[Duty]) -> list[Duty]:
            left = noted
            for one in self._stored(agent):
                paid = [duty for duty in left if _pays(one, duty)]
                # A file by hand pays what one run left, and nothing of the others.
                others = [] if one.entry.id else [each for each in paid if each.run_id != paid[0].run_id]
                left = [
                    replace(duty, seen=(*duty.seen, one.digest)) if duty in others else duty
                    for duty in left
                    if duty in others or duty not in paid
                ]
            return left

        return self._change(agent, unpaid) if _read(self.journal.folder / agent / OWED) else []

    def _note(self, agent: str, duties: Iterable[Duty]) -> None:
        def more(noted: list[Duty]) -> list[Duty]:
            same = {(duty.task_id, duty.run_id, duty.attempt) for duty in noted if duty.run_id}
            seen = tuple(one.digest for one in self._stored(agent) if not one.entry.id)
            new = [duty for duty in duties if (duty.task_id, duty.run_id, duty.attempt) not in same]
            return [*noted, *(replace(duty, seen=seen) for duty in new)]

        self._change(agent, more)

    def _change(self, agent: str, change: Callable[[list[Duty]], list[Duty]]) -> list[Duty]:
        """Change what an agent owes under the lock of its folder, and return it."""
        folder = self.journal.folder / agent
        with locked(folder):
            noted = _read(folder / OWED)
            left = change(noted)
            if left != noted:
                try:
                    replace_file(folder / OWED, _DUTIES.dump_json(left, indent=1).decode() + "\n")
                except OSError as error:
                    raise LessonStoreError(not_written(folder / OWED, error)) from error
        return left

    def _stored(self, agent: str) -> tuple[Stored, ...]:
        return (*self.journal.read(agent).stored, *self.journal.read(agent, archived=True).stored)


def _duty(agent: str, task: Task, outcome: Outcome, run_id: str, attempt: int) -> Duty:
    """Return a duty as it is written: its texts and ids without secrets, as those of the reflection that pays it."""
    summary = summary_of(redact(task.prompt))
    return Duty(agent, plain_id(task.id), outcome, summary, plain_id(run_id), attempt, time.time())


def _pays(stored: Stored, duty: Duty) -> bool:
    entry = stored.entry
    if not fills(entry.reflection.outcome, duty.outcome):
        return False
    if not entry.id:  # by hand: its title names the task
        return stored.digest not in duty.seen and entry.summary.casefold() == duty.summary.casefold()
    if duty.run_id:
        source = (entry.task_id, entry.source.run_id, entry.source.attempt)
        return source == (duty.task_id, duty.run_id, duty.attempt)
    return entry.task_id == duty.task_id and entry.created_at >= duty.since


def _read(path: Path) -> list[Duty]:
    try:
        return _DUTIES.validate_json(read_regular(path, MOST_BYTES))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise LessonStoreError(
            f"{path}, which says what reflections are owed, can't be read ({type(error).__name__}: "
            f"{abridge(str(error), 200)}): mend it, or delete it to forgive them"
        ) from error
