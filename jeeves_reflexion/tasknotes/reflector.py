"""The step after acceptance: reads a task's notes before a run, and writes better ones after it.

Nothing here fails a task: whatever goes wrong, in a store, a strategy or a model, costs a warning and no more.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from typing import Final, TypeAlias, TypeVar

import anyio

from jeeves_reflexion.callables import run as run_callable
from jeeves_reflexion.errors import ConfigurationError, described
from jeeves_reflexion.events import NotesApplied, NotesRolledBack, TaskReflectedEvent, Warned
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.tasknotes.evolution import NoteHistory
from jeeves_reflexion.tasknotes.injection import admit
from jeeves_reflexion.tasknotes.store import PlainStore, VersionedReflectionStore
from jeeves_reflexion.tasknotes.strategy import ReflectionConfig, failed_reflection, strategy_of
from jeeves_reflexion.tasknotes.values import (
    AnyTask,
    ReflectionInput,
    ReflectionStore,
    ReflectionStrategy,
    TaskReflection,
    description_of,
    task_identity,
)
from jeeves_reflexion.types import Attempt, Evaluation, Task

T = TypeVar("T")
AnyStore: TypeAlias = VersionedReflectionStore | PlainStore

STORE_SECONDS: Final = 30.0
REFLECTION_SECONDS: Final = 300.0
_REFUSED: Final = "what gives orders was left out of the notes on a task"
_NOT_TAKEN: Final = "what it says or was made of was taken back, or another one was there first"


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
    of this process, so that no run count is lost within it; such a store gets neither scores nor rollbacks.
    A call of the store may take 30 s, one of the strategy 300 s.
    """

    def __init__(self, store: ReflectionStore | None) -> None:
        if store is not None and (isinstance(store, type) or not isinstance(store, ReflectionStore)):
            given = f"the class {store.__name__}" if isinstance(store, type) else type(store).__name__
            raise ConfigurationError(
                f"reflection_store must be an object with the methods store and retrieve, not {given}"
            )
        self.store = store
        self._notes = PlainStore(store) if store is not None and self.versioned is None else self.versioned

    @property
    def versioned(self) -> VersionedReflectionStore | None:
        """The store, if it keeps versions."""
        return self.store if isinstance(self.store, VersionedReflectionStore) else None

    async def recall(self, task: AnyTask, session: Session) -> Notes:
        """Return the task's notes for a run; none, and a warning, where the store fails."""
        identity = task_identity(task)
        notes = Notes(identity, version=None if self.versioned is None else 0)
        if self._notes is None:
            return notes
        try:
            history = await self._history(self._notes, identity)
            reflection, refused = admit(history.reflection)
        except Exception as error:  # noqa: BLE001 - a run without notes is better than no run
            problem = await self.warn(session, "the notes of a task could not be read", error)
            return replace(notes, version=None, problem=problem)
        problem = await self.warn(session, _REFUSED, refused) if refused else ""
        if reflection is None or not reflection.complete:
            return replace(notes, reflection=reflection, problem=problem)
        version = None if self.versioned is None else history.current
        await session.emit(
            NotesApplied(run_id=session.id, attempt=session.attempt, identity=identity, version=version or 0)
        )
        return Notes(identity, reflection, version, problem)

    async def score(self, notes: Notes, score: float | None, session: Session) -> str:
        """Note what a run under these notes scored; take back, and tell, what proved worse. Returns a problem."""
        store, version = self.versioned, notes.version
        if store is None or version is None or score is None:
            return ""
        try:
            taken = await self._asked(lambda: store.score(notes.identity, version, score))
            if taken is None:
                return ""
            change = f"from version {taken.old} to {taken.new}: {taken.reason}"
            logger.warning("notes of task %s rolled back %s", notes.identity, change)
        except Exception as error:  # noqa: BLE001 - as above
            return await self.warn(session, "the score of a run could not be noted", error)
        event = NotesRolledBack(
            run_id=session.id, attempt=session.attempt, identity=notes.identity, **asdict(taken)
        )
        await session.emit(event)
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
        if config is None or self._notes is None:
            return None, ""
        try:
            strategy = strategy_of(config, model)
            history = await self._history(self._notes, task_identity(task))
            prior, _ = admit(history.reflection)
            public = None if evaluation is None else evaluation.public(task.reference)
            given = ReflectionInput(task.public(), output, prior, public, attempt)
            reflection, refused = await self._reflection(strategy, given, session)
            problem = await self.warn(session, _REFUSED, refused) if refused else ""
            stored, other = await self._stored(self._notes, task, history.current, reflection, session)
        except Exception as error:  # noqa: BLE001 - the task was accepted, and stays so
            return None, await self.warn(session, "a task could not be reflected on", error)
        return stored, other or problem

    async def warn(self, session: Session, what: str, error: BaseException | str) -> str:
        """Log and tell a problem that fails nothing, and return it in words."""
        said = described(error) if isinstance(error, BaseException) else error
        problem = redact(f"{what}: {said}")
        logger.warning(problem)
        await session.emit(Warned(run_id=session.id, attempt=session.attempt, message=problem))
        return problem

    async def _history(self, store: AnyStore, identity: str) -> NoteHistory:
        found = await self._asked(lambda: store.history(identity))
        return NoteHistory(identity) if found is None else found

    async def _asked(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call of the store in time."""
        # As a session's, which makes an error of a cancellation that nobody asked for; it would else end the run.
        return await _within(STORE_SECONDS, lambda: Session().spending("reflector", call))

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
            found = await _within(REFLECTION_SECONDS, lambda: session.spending("reflector", reflect))
        except Exception as error:  # noqa: BLE001 - told by the record, and by a warning
            logger.warning("a reflection strategy failed: %s", redact(described(error)))
            return failed_reflection(given, described(error)), ""
        reflection, refused = admit(found)
        if reflection is None:
            return failed_reflection(given, f"{_REFUSED}, and that was all: {refused}"), ""
        return reflection, refused

    async def _stored(
        self, store: AnyStore, task: Task, base: int, reflection: TaskReflection, session: Session
    ) -> tuple[TaskReflection | None, str]:
        """Store a reflection; return what is in force if it is this one, and a problem if there is one."""
        description, failure = description_of(task), reflection.failure
        problem = await self.warn(session, "there is no new reflection on a task", failure) if failure else ""
        commit = functools.partial(
            store.commit, task_identity(task), reflection, base=base, description=description
        )
        stored = (await self._asked(commit)).reflection
        if not reflection.complete:
            kept = self.versioned is not None and stored is not None and not stored.complete
            return stored if kept else None, problem
        if stored is None or stored.texts != reflection.texts:
            return None, await self.warn(session, "a reflection was counted and not taken", _NOT_TAKEN)
        event = TaskReflectedEvent(
            run_id=session.id,
            attempt=session.attempt,
            task_description=description,
            reflection=stored,
            is_first_reflection=stored.run_count == 1,
        )
        await session.emit(event)
        return stored, ""


async def _within(seconds: float, call: Callable[[], Awaitable[T]]) -> T:
    with anyio.move_on_after(seconds):
        return await call()
    raise TimeoutError(f"no answer within {seconds:g} s")
