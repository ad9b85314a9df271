"""Who owes a reflection: an agent whose task failed, or went half right, takes no other before it has written it.

Seed 002, section 2. An orchestrator tells the policy how tasks ended and asks it before it hands out the next::

    policy = ReflectionPolicy(journal)
    await policy.finished("researcher", task, "failed", run_id=run_id)
    await policy.require("researcher")          # ReflectionOwedError, until the reflection is in the journal

What is owed is kept beside the agent's reflections, so that a restart forgives nothing, and is paid by the reflection
itself: there is nothing to tick off. A file that a person wrote, which names no run, pays for one task.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.files import not_written, read_regular, replace_file
from jeeves_reflexion.forms import FORMS, PARTIAL_FROM, fills, outcome_of
from jeeves_reflexion.redaction import redact, redact_id
from jeeves_reflexion.reflections.folder import Malformed, Stored, locked, read_folder
from jeeves_reflexion.reflections.journal import ReflectionJournal
from jeeves_reflexion.reflections.markdown import summary_of
from jeeves_reflexion.reflections.naming import agent_slug
from jeeves_reflexion.session import logger
from jeeves_reflexion.types import Outcome, RunResult, Task

OWED: Final = ".owed.json"
MOST_BYTES: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Duty:
    """A reflection that is due; ``since`` is when its task ended, in seconds since 1970.

    ``seen`` holds the digests of the files by hand that do not pay it: they were there before, or paid another.
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
    partial, as in :class:`~jeeves_reflexion.reflectors.StructuredReflector`.
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
        await anyio.to_thread.run_sync(partial(self._note, duty.agent, [duty]))
        return duty

    async def after(self, result: RunResult, agent: str) -> tuple[Duty, ...]:
        """Note how the attempts of a run ended, and return what the agent still owes.

        An attempt without a verdict asks for nothing: nobody knows how it went.
        """
        name = agent_slug(agent)
        duties: list[Duty] = []
        for trial in result.trials:
            if not trial.evaluation.scored:
                continue
            outcome = outcome_of(trial.evaluation, passed=trial.passed, partial_from=self.partial_from)
            if FORMS[outcome].policy == "mandatory":
                duties.append(_duty(name, result.task, outcome, result.run_id, trial.number))
        if duties:
            await anyio.to_thread.run_sync(partial(self._note, name, duties))
        return await self.owed(name)

    async def owed(self, agent: str) -> tuple[Duty, ...]:
        """Return the reflections that the agent must write before it goes on."""
        return tuple(duty for duty in await self._due(agent) if duty.required)

    async def may_take_next(self, agent: str) -> bool:
        """Say whether the agent owes nothing.

        A recommended reflection that is missing is a warning in the log, once.
        """
        due = await self._due(agent)
        advised = [duty for duty in due if not duty.required]
        for duty in advised:
            logger.warning("agent %s went on without %s: it is recommended", duty.agent, duty.describe())
        if advised:
            await anyio.to_thread.run_sync(partial(self._drop, agent_slug(agent), advised))
        return len(advised) == len(due)

    async def require(self, agent: str) -> None:
        """Raise :class:`ReflectionOwedError`, which says what is missing, unless the agent may take its next task."""
        if not await self.may_take_next(agent):
            name, malformed = agent_slug(agent), (await self.journal.list(agent)).malformed
            raise ReflectionOwedError(name, await self.owed(agent), self.journal.folder / name, malformed)

    async def _due(self, agent: str) -> tuple[Duty, ...]:
        return await anyio.to_thread.run_sync(partial(self._open, agent_slug(agent)))

    def _open(self, agent: str) -> tuple[Duty, ...]:
        """Return what is due and not written; forget what has been."""
        if not _read(self.journal.folder / agent / OWED):
            return ()
        with locked(self.journal.folder, agent) as folder:
            noted = _read(folder / OWED)
            stored = self._stored(agent)
            still = [duty for duty in noted if not any(_pays(one, duty) for one in stored)]
            for one in stored:
                if paid := _paid_by_hand(one, still):
                    still = [
                        replace(duty, seen=(*duty.seen, one.digest)) for duty in still if duty not in paid
                    ]
            if still != noted:
                _write(folder / OWED, still)
        return tuple(still)

    def _stored(self, agent: str) -> tuple[Stored, ...]:
        root = self.journal.folder
        return (*read_folder(root, agent).stored, *read_folder(root, agent, archived=True).stored)

    def _note(self, agent: str, duties: Iterable[Duty]) -> None:
        with locked(self.journal.folder, agent) as folder:
            noted = _read(folder / OWED)
            same = {(duty.task_id, duty.run_id, duty.attempt) for duty in noted if duty.run_id}
            seen = tuple(one.digest for one in self._stored(agent) if not one.entry.id)
            new = [
                replace(duty, seen=seen)
                for duty in duties
                if (duty.task_id, duty.run_id, duty.attempt) not in same
            ]
            _write(folder / OWED, [*noted, *new])

    def _drop(self, agent: str, duties: Sequence[Duty]) -> None:
        with locked(self.journal.folder, agent) as folder:
            _write(folder / OWED, [duty for duty in _read(folder / OWED) if duty not in duties])


def _duty(agent: str, task: Task, outcome: Outcome, run_id: str, attempt: int) -> Duty:
    """Return a duty as it is written: its texts and ids without secrets, as those of the reflection that pays it."""
    summary = summary_of(redact(task.prompt))
    return Duty(agent, redact_id(task.id), outcome, summary, redact_id(run_id), attempt, time.time())


def _pays(stored: Stored, duty: Duty) -> bool:
    entry = stored.entry
    if not fills(entry.reflection.outcome, duty.outcome) or entry.task_id != duty.task_id:
        return False
    if duty.run_id:
        return (entry.source.run_id, entry.source.attempt) == (duty.run_id, duty.attempt)
    return entry.created_at >= duty.since


def _paid_by_hand(stored: Stored, duties: Sequence[Duty]) -> list[Duty]:
    """Return what a file by hand pays, which says of no run or task: one task's duties.

    The task is the one that its title names, else the one that has waited longest.
    """
    if stored.entry.id:
        return []
    outcome = stored.entry.reflection.outcome
    fit = [duty for duty in duties if stored.digest not in duty.seen and fills(outcome, duty.outcome)]
    title = stored.entry.summary.casefold()
    task = next((duty for duty in fit if duty.summary.casefold() == title), fit[0] if fit else None)
    return [duty for duty in fit if task and (duty.task_id, duty.run_id) == (task.task_id, task.run_id)]


def _read(path: Path) -> list[Duty]:
    try:
        kept: list[dict[str, Any]] = json.loads(read_regular(path, MOST_BYTES).decode("utf-8"))
        return [Duty(**{**each, "seen": tuple(each.get("seen", ()))}) for each in kept]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise LessonStoreError(
            f"{path}, which says what reflections are owed, can't be read ({type(error).__name__}: {error}): "
            "mend it, or delete it to forgive them"
        ) from error


def _write(path: Path, duties: Sequence[Duty]) -> None:
    try:
        replace_file(path, json.dumps([asdict(duty) for duty in duties], indent=1) + "\n")
    except OSError as error:
        raise LessonStoreError(not_written(path, error)) from error
