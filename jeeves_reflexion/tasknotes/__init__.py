"""Task notes: tasks that improve their own instructions from run to run.

:class:`Ensemble` runs tasks (``ensemble``, ``execution``); after an accepted run :class:`TaskReflector` has a strategy
write better instructions, which pass the ``gate`` and make a version in a store (``evolution``, ``store``). The next
run finds them before its own prompt (``injection``).
"""

from jeeves_reflexion.events import NotesApplied, NotesRolledBack, TaskReflectedEvent
from jeeves_reflexion.tasknotes.ensemble import Ensemble, EnsembleListener
from jeeves_reflexion.tasknotes.evolution import NoteChange, NoteHistory, NoteVersion, Rollback
from jeeves_reflexion.tasknotes.execution import EnsembleOptions
from jeeves_reflexion.tasknotes.guards import ReviewDecision, ReviewGate
from jeeves_reflexion.tasknotes.injection import notes_section, prompt_with
from jeeves_reflexion.tasknotes.reflector import NotedAgent, Notes, TaskReflector
from jeeves_reflexion.tasknotes.store import (
    FileReflectionStore,
    HistoryPage,
    InMemoryReflectionStore,
    SqliteReflectionStore,
    VersionedReflectionStore,
)
from jeeves_reflexion.tasknotes.strategy import DEFAULT_REFLECTION, LlmReflectionStrategy, ReflectionConfig
from jeeves_reflexion.tasknotes.tasks import EnsembleResult, EnsembleTask, Phase, TaskOutcome
from jeeves_reflexion.tasknotes.values import (
    ReflectionInput,
    ReflectionStore,
    ReflectionStoreError,
    ReflectionStrategy,
    TaskReflection,
    task_identity,
)

Task = EnsembleTask
"""The short name of :class:`EnsembleTask`; the package's own ``Task`` is what one run asks of an agent."""

__all__ = [
    "DEFAULT_REFLECTION",
    "Ensemble",
    "EnsembleListener",
    "EnsembleOptions",
    "EnsembleResult",
    "EnsembleTask",
    "FileReflectionStore",
    "HistoryPage",
    "InMemoryReflectionStore",
    "LlmReflectionStrategy",
    "NoteChange",
    "NoteHistory",
    "NoteVersion",
    "NotedAgent",
    "Notes",
    "NotesApplied",
    "NotesRolledBack",
    "Phase",
    "ReflectionConfig",
    "ReflectionInput",
    "ReflectionStore",
    "ReflectionStoreError",
    "ReflectionStrategy",
    "ReviewDecision",
    "ReviewGate",
    "Rollback",
    "SqliteReflectionStore",
    "Task",
    "TaskOutcome",
    "TaskReflectedEvent",
    "TaskReflection",
    "TaskReflector",
    "VersionedReflectionStore",
    "notes_section",
    "prompt_with",
    "task_identity",
]
