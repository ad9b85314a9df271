"""Task notes: tasks that improve their own instructions from run to run (seed 000)."""

from jeeves_reflexion.events import NotesApplied, NotesRolledBack, TaskReflectedEvent
from jeeves_reflexion.tasknotes.agent import NotedAgent
from jeeves_reflexion.tasknotes.config import DEFAULT_REFLECTION, ReflectionConfig
from jeeves_reflexion.tasknotes.ensemble import Ensemble, EnsembleListener
from jeeves_reflexion.tasknotes.evolution import NoteChange, NoteHistory, NoteVersion, Rollback
from jeeves_reflexion.tasknotes.execution import EnsembleOptions
from jeeves_reflexion.tasknotes.files import FileReflectionStore
from jeeves_reflexion.tasknotes.gates import ReviewDecision, ReviewGate
from jeeves_reflexion.tasknotes.identity import task_identity
from jeeves_reflexion.tasknotes.injection import notes_section, prompt_with
from jeeves_reflexion.tasknotes.memory import InMemoryReflectionStore
from jeeves_reflexion.tasknotes.reflector import Notes, TaskReflector
from jeeves_reflexion.tasknotes.sqlite import SqliteReflectionStore
from jeeves_reflexion.tasknotes.strategy import LlmReflectionStrategy
from jeeves_reflexion.tasknotes.tasks import EnsembleResult, EnsembleTask, Phase, TaskOutcome
from jeeves_reflexion.tasknotes.values import (
    ReflectionInput,
    ReflectionStore,
    ReflectionStoreError,
    ReflectionStrategy,
    TaskReflection,
)
from jeeves_reflexion.tasknotes.versioned import HistoryPage, VersionedReflectionStore

Task = EnsembleTask
"""The seed's name of :class:`EnsembleTask`; the package's own ``Task`` is what one run asks of an agent."""

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
