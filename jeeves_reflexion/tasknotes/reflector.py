"""The step after acceptance: reads a task's notes before a run, and writes better ones after it.

Nothing here fails a task: whatever goes wrong, in a store, a strategy or a model, costs a warning and no more.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

import anyio

from jeeves_reflexion.callables import run as run_callable
from jeeves_reflexion.errors import ConfigurationError, described
from jeeves_reflexion.events import NotesApplied, NotesRolledBack, TaskReflectedEvent, Warned
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.tasknotes.calls import answer
from jeeves_reflexion.tasknotes.config import ReflectionConfig
from jeeves_reflexion.tasknotes.evolution import NoteHistory, says
from jeeves_reflexion.tasknotes.identity import AnyTask, description_of, task_identity
from jeeves_reflexion.tasknotes.note_gate import admit
from jeeves_reflexion.tasknotes.strategy import LlmReflectionStrategy, failed_reflection
from jeeves_reflexion.tasknotes.values import (
    ReflectionInput,
    ReflectionStore,
    ReflectionStrategy,
    TaskReflection,
)
from jeeves_reflexion.tasknotes.versioned import VersionedReflectionStore
from jeeves_reflexion.types import Attempt, Evaluation, Task

T = TypeVar("T")

STORE_SECONDS: Final = 30.0
REFLECTION_SECONDS: Final = 300.0
_REFUSED: Final = "what gives orders was left out of the notes on a task"


@dataclass(frozen=True, slots=True)
class Notes:
    """A task's notes as one run finds them: version 0 is none, None is that of a store without versions."""

    identity: str
    reflection: TaskReflection | None = None
    version: int | None = None
    problem: str = ""


class TaskReflector:
    """Reads and writes the notes of tasks in one store; ``store=None`` does nothing.

    Serves many runs at once. A store with the two methods of :class:`ReflectionStore` alone is written under a lock
    of this object, so that no run count is lost within it; such a store gets neither scores nor rollbacks.
    ``store_seconds`` and ``reflection_seconds`` bound each call of the store and of the strategy.
    """

    def __init__(
        self,
        store: ReflectionStore | None,
        *,
        store_seconds: float = STORE_SECONDS,
        reflection_seconds: float = REFLECTION_SECONDS,
    ) -> None:
        if isinstance(store, type):
            raise ConfigurationError(
                f"reflection_store must be a store: {store.__name__} is a class, call it"
            )
        if store is not None and not isinstance(store, ReflectionStore):
            raise ConfigurationError(
                f"reflection_store must have the methods store and retrieve; {type(store).__name__} hasn't"
            )
        self.store = store
        self._store_seconds = store_seconds
        self._reflection_seconds = reflection_seconds
        self._locks = _locks_of(store)

    async def recall(self, task: AnyTask, session: Session) -> Notes:
        """Return the task's notes for a run; none, and a warning, where the store fails."""
        identity = task_identity(task)
        versioned = self.versioned
        notes = Notes(identity, version=None if versioned is None else 0)
        if self.store is None:
            return notes
        try:
            found, version = await self._latest(identity)
            reflection, refused = admit(found)
        except Exception as error:  # noqa: BLE001 - a run without notes is better than no run
            problem = await self.warn(session, "the notes of a task could not be read", error)
            return replace(notes, version=None, problem=problem)
        problem = await self.warn(session, _REFUSED, refused) if refused else ""
        if reflection is None or not reflection.complete:
            return replace(notes, reflection=reflection, problem=problem)
        await session.emit(
            NotesApplied(run_id=session.id, attempt=session.attempt, identity=identity, version=version or 0)
        )
        return Notes(identity, reflection, version, problem)

    async def score(self, notes: Notes, score: float | None, session: Session) -> str:
        """Note what a run under these notes scored; take back, and tell, what proved worse. Returns a problem."""
        versioned = self.versioned
        if versioned is None or notes.version is None or score is None:
            return ""
        version = notes.version
        try:
            taken = await self._stored(lambda: versioned.score(notes.identity, version, score))
        except Exception as error:  # noqa: BLE001 - as above
            return await self.warn(session, "the score of a run could not be noted", error)
        if taken is not None:
            logger.warning(
                "notes of task %s rolled back from version %d to %d: %s",
                notes.identity,
                taken.old,
                taken.new,
                taken.reason,
            )
            await session.emit(
                NotesRolledBack(
                    run_id=session.id,
                    attempt=session.attempt,
                    identity=notes.identity,
                    old=taken.old,
                    new=taken.new,
                    reason=taken.reason,
                )
            )
        return ""

    async def reflect(
        self,
        task: Task,
        output: str,
        *,
        config: ReflectionConfig | None,
        model: ChatModel | None = None,
        session: Session | None = None,
        evaluation: Evaluation | None = None,
        attempt: Attempt | None = None,
    ) -> tuple[TaskReflection | None, str]:
        """Reflect on an accepted output; return what was stored, if anything, and a problem, if there was one.

        ``config=None`` does nothing. What is stored is announced by :class:`TaskReflectedEvent`. That there could be
        no reflection is stored, unannounced, where the store keeps versions and has nothing better.
        """
        session = session or Session()
        if config is None or self.store is None:
            return None, ""
        try:
            strategy = strategy_of(config, model)
            given, base = await self._given(task, output, evaluation, attempt)
            reflection, refused = await self._reflection(strategy, given, session)
            problem = await self.warn(session, _REFUSED, refused) if refused else ""
            stored, other = await self._keep(task, base, reflection, session)
        except Exception as error:  # noqa: BLE001 - the task was accepted, and stays so
            return None, await self.warn(session, "a task could not be reflected on", error)
        return stored, other or problem

    @property
    def versioned(self) -> VersionedReflectionStore | None:
        """The store, if it keeps versions."""
        return self.store if isinstance(self.store, VersionedReflectionStore) else None

    async def warn(self, session: Session, what: str, error: BaseException | str) -> str:
        """Log and tell a problem that fails nothing, and return it in words."""
        said = described(error) if isinstance(error, BaseException) else error
        problem = redact(f"{what}: {said}")
        logger.warning(problem)
        await session.emit(Warned(run_id=session.id, attempt=session.attempt, message=problem))
        return problem

    async def _given(
        self, task: Task, output: str, evaluation: Evaluation | None, attempt: Attempt | None
    ) -> tuple[ReflectionInput, int | None]:
        found, version = await self._latest(task_identity(task))
        prior, _ = admit(found)
        public = None if evaluation is None else evaluation.public(task.reference)
        return ReflectionInput(task.public(), output, prior, public, attempt), version

    async def _reflection(
        self, strategy: ReflectionStrategy, given: ReflectionInput, session: Session
    ) -> tuple[TaskReflection, str]:
        """Return the reflection as it may be stored, and what of it was refused."""
        call = functools.partial(strategy.reflect, given)

        async def reflect() -> TaskReflection:
            found = await run_callable(strategy.reflect, call)
            if not isinstance(found, TaskReflection):
                raise TypeError(f"the strategy returned {type(found).__name__}, no TaskReflection")
            return found

        try:
            found = await answer(self._reflection_seconds, lambda: session.spending("reflector", reflect))
        except Exception as error:  # noqa: BLE001 - told by the record, and by a warning
            logger.warning("a reflection strategy failed: %s", redact(described(error)))
            return failed_reflection(given, described(error)), ""
        reflection, refused = admit(found)
        if reflection is None:
            return failed_reflection(given, f"{_REFUSED}, and that was all: {refused}"), ""
        return reflection, refused

    async def _keep(
        self,
        task: Task,
        base: int | None,
        reflection: TaskReflection,
        session: Session,
    ) -> tuple[TaskReflection | None, str]:
        if not reflection.complete:
            problem = await self.warn(
                session, "there is no new reflection on a task", reflection.failure or ""
            )
            return await self._store_failure(task, reflection), problem
        stored = await self._store(task, reflection, base)
        if stored is None:
            return None, await self.warn(
                session,
                "a reflection was counted and not taken",
                "what it says or was made of was taken back, or another one was there first",
            )
        await session.emit(
            TaskReflectedEvent(
                run_id=session.id,
                attempt=session.attempt,
                task_description=description_of(task),
                reflection=stored,
                is_first_reflection=stored.run_count == 1,
            )
        )
        return stored, ""

    async def _store_failure(self, task: Task, reflection: TaskReflection) -> TaskReflection | None:
        """Store that there is no reflection where there is nothing better; a store of two methods never gets it."""
        history = await self._commit(task, reflection, None)
        kept = None if history is None else history.reflection
        return kept if kept is not None and not kept.complete else None

    async def _store(self, task: Task, reflection: TaskReflection, base: int | None) -> TaskReflection | None:
        """Store a reflection and return it as stored; None if it was not taken."""
        history = await self._commit(task, reflection, base)
        if history is not None:
            current = history.reflection
            return current if current is not None and says(current) == says(reflection) else None
        identity = task_identity(task)
        async with _held(self._locks, identity):
            latest, _ = await self._latest(identity)
            counted = replace(reflection, run_count=1 if latest is None else latest.run_count + 1)
            await self._call("store", identity, counted)
            return counted

    async def _commit(self, task: Task, reflection: TaskReflection, base: int | None) -> NoteHistory | None:
        versioned = self.versioned
        if versioned is None:
            return None
        identity, description = task_identity(task), description_of(task)
        return await self._stored(
            lambda: versioned.commit(identity, reflection, base=base, description=description)
        )

    async def _latest(self, identity: str) -> tuple[TaskReflection | None, int | None]:
        versioned = self.versioned
        if versioned is not None:
            history = await self._stored(lambda: versioned.history(identity))
            return (None, 0) if history is None else (history.reflection, history.current)
        found = await self._call("retrieve", identity)
        if found is not None and not isinstance(found, TaskReflection):
            raise ConfigurationError(
                f"the reflection store returned {type(found).__name__}, no TaskReflection"
            )
        # What such a store keeps of a failure was not written by us, and is nothing to go on from.
        return found if found is not None and found.complete else None, None

    async def _call(self, name: str, *arguments: object) -> object:
        method: Callable[..., Awaitable[object] | object] = getattr(self.store, name)
        return await self._stored(lambda: run_callable(method, functools.partial(method, *arguments)))

    async def _stored(self, call: Callable[[], Awaitable[T]]) -> T:
        return await answer(self._store_seconds, call)


_Locks: TypeAlias = dict[str, threading.Lock]
_LOCKS: weakref.WeakKeyDictionary[object, _Locks] = weakref.WeakKeyDictionary()


def _locks_of(store: object) -> _Locks:
    """Return the locks of a store, the same for everyone in this process who uses it."""
    try:
        return _LOCKS.setdefault(store, {})
    except TypeError:  # it can't be referred to weakly, or has no hash: each reflector then has its own
        return {}


@contextlib.asynccontextmanager
async def _held(locks: _Locks, identity: str) -> AsyncIterator[None]:
    """Hold the lock of one task's notes, among threads and event loops."""
    lock = locks.setdefault(identity, threading.Lock())
    while not lock.acquire(blocking=False):  # noqa: ASYNC110 - it is held in other threads and loops too
        await anyio.sleep(0.005)
    try:
        yield
    finally:
        lock.release()


def strategy_of(config: ReflectionConfig, model: ChatModel | None) -> ReflectionStrategy:
    """Return what reflects: the configured strategy, else a model asked by :class:`LlmReflectionStrategy`.

    Raises :class:`ConfigurationError` where there is neither a strategy nor a model.
    """
    if config.strategy is not None:
        return config.strategy
    chosen = config.model or model
    if chosen is None:
        raise ConfigurationError(
            "a task is to be reflected on, and there is no model for it: pass ReflectionConfig(model=...) or "
            "(strategy=...), or give the ensemble a model"
        )
    return LlmReflectionStrategy(chosen, prompt=config.prompt)
