"""jeeves-reflexion: makes any agent learn from its own attempts.

The names below are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jeeves_reflexion.agents import FunctionAgent, ReAct, Tool, as_agent, as_tool
    from jeeves_reflexion.drafts import ConvergenceReason, Draft, Refined, Revision, RevisionRequest
    from jeeves_reflexion.errors import (
        BudgetExceededError,
        CodeError,
        CodeLimitError,
        ConfigurationError,
        ExperimentError,
        LessonRefusedError,
        LessonStoreError,
        MissingDependencyError,
        ModelAuthError,
        ModelConnectionError,
        ModelError,
        ModelResponseError,
        ModelTimeoutError,
        ReflexionError,
        SandboxError,
        SandboxUnavailableError,
        SessionError,
        ToolError,
        UnknownLessonError,
        UnreadableReplyError,
    )
    from jeeves_reflexion.evaluators import (
        Comparison,
        CriteriaEvaluator,
        Judge,
        Panel,
        RewardEvaluator,
        as_evaluator,
        parse_score,
    )
    from jeeves_reflexion.lessons import (
        Credit,
        Curator,
        FileMemory,
        LessonSettings,
        MergeSettings,
        Picking,
        TransientMemory,
        VectorLessonStore,
        Withholding,
    )
    from jeeves_reflexion.loop.factory import DEFAULT_EVALUATOR_PROMPT, DEFAULT_REFLECTOR_PROMPT
    from jeeves_reflexion.loop.lesson_address import default_place, open_lessons
    from jeeves_reflexion.loop.note_address import PostgresReflectionStore, default_notes_place, open_notes
    from jeeves_reflexion.loop.reflexion import LoopOptions, Reflexion
    from jeeves_reflexion.models import OpenAIModel, RecordedModel, ScriptedModel, recording_at
    from jeeves_reflexion.protocols import (
        Agent,
        ChatModel,
        Completion,
        Evaluator,
        LessonStore,
        Memory,
        Message,
        Reflector,
        Reviser,
        Sampling,
        ToolCall,
        ToolSpec,
    )
    from jeeves_reflexion.redaction import redact
    from jeeves_reflexion.refinement.convergence import Convergence
    from jeeves_reflexion.refinement.critics import ModelStepCritic, Triggers
    from jeeves_reflexion.refinement.loop import Refinement
    from jeeves_reflexion.refinement.options import Decision, RefinementOptions
    from jeeves_reflexion.refinement.pattern import (
        PatternAgent,
        QualityCriterion,
        ReflectionCallbacks,
        ReflectionDecision,
        ReflectionEvaluation,
        ReflectionHistory,
        ReflectionPattern,
        ReflectionResult,
        ReflectionVersion,
    )
    from jeeves_reflexion.reflections.reflector import StructuredReflector
    from jeeves_reflexion.reflectors import LessonReflector, as_reflector
    from jeeves_reflexion.revisers import AgentReviser, ModelReviser, as_reviser
    from jeeves_reflexion.sandbox import Guarantees, Ran, Sandbox, SandboxLimits, probe
    from jeeves_reflexion.session import Budget, Session, Spend
    from jeeves_reflexion.tasknotes import (
        Ensemble,
        EnsembleTask,
        FileReflectionStore,
        InMemoryReflectionStore,
        LlmReflectionStrategy,
        ReflectionConfig,
        ReflectionInput,
        ReflectionStore,
        ReflectionStoreError,
        ReflectionStrategy,
        SqliteReflectionStore,
        TaskReflectedEvent,
        TaskReflection,
        VersionedReflectionStore,
        task_identity,
    )
    from jeeves_reflexion.types import (
        Attempt,
        Evaluation,
        EvaluationError,
        Lesson,
        Lift,
        Provenance,
        Recall,
        RecalledLesson,
        Reflection,
        RunResult,
        Step,
        Task,
        Trial,
        Usage,
    )
    from jeeves_reflexion.workflows import (
        ReflectionFailedError,
        Workflow,
        WorkflowError,
        reflection_correct,
        reflection_evaluate,
        reflection_loop,
    )
    from vectorstores import InMemoryVectorStore, PostgresVectorStore, VectorStore

__version__ = "0.1.0"

_ROOMS = {
    "agents": "FunctionAgent ReAct Tool as_agent as_tool",
    "refinement.critics": "ModelStepCritic Triggers",
    "refinement.convergence": "Convergence",
    "drafts": "ConvergenceReason Draft Refined Revision RevisionRequest",
    "errors": (
        "BudgetExceededError CodeError CodeLimitError ConfigurationError ExperimentError"
        " LessonRefusedError LessonStoreError"
        " MissingDependencyError ModelAuthError ModelConnectionError ModelError ModelResponseError"
        " ModelTimeoutError ReflexionError SandboxError SandboxUnavailableError SessionError ToolError"
        " UnknownLessonError UnreadableReplyError"
    ),
    "evaluators": "Comparison CriteriaEvaluator Judge Panel RewardEvaluator as_evaluator parse_score",
    "lessons": (
        "Credit Curator FileMemory LessonSettings MergeSettings Picking TransientMemory VectorLessonStore Withholding"
    ),
    "models": "OpenAIModel RecordedModel ScriptedModel recording_at",
    "loop.note_address": "PostgresReflectionStore default_notes_place open_notes",
    "refinement.pattern": (
        "PatternAgent QualityCriterion ReflectionCallbacks ReflectionDecision ReflectionEvaluation"
        " ReflectionHistory ReflectionPattern ReflectionResult ReflectionVersion"
    ),
    "loop.lesson_address": "default_place open_lessons",
    "protocols": (
        "Agent ChatModel Completion Evaluator LessonStore Memory Message Reflector Reviser Sampling"
        " ToolCall ToolSpec"
    ),
    "redaction": "redact",
    "refinement.loop": "Refinement",
    "refinement.options": "Decision RefinementOptions",
    "reflections.reflector": "StructuredReflector",
    "reflectors": "LessonReflector as_reflector",
    "loop.reflexion": "LoopOptions Reflexion",
    "revisers": "AgentReviser ModelReviser as_reviser",
    "sandbox": "Guarantees Ran Sandbox SandboxLimits probe",
    "session": "Budget Session Spend",
    "tasknotes": (
        "Ensemble EnsembleTask FileReflectionStore InMemoryReflectionStore LlmReflectionStrategy"
        " ReflectionConfig ReflectionInput ReflectionStore ReflectionStoreError ReflectionStrategy"
        " SqliteReflectionStore TaskReflectedEvent TaskReflection VersionedReflectionStore task_identity"
    ),
    "types": (
        "Attempt Evaluation EvaluationError Lesson Lift Provenance Recall RecalledLesson Reflection RunResult"
        " Step Task Trial Usage"
    ),
    "loop.factory": "DEFAULT_EVALUATOR_PROMPT DEFAULT_REFLECTOR_PROMPT",
    "workflows": (
        "ReflectionFailedError Workflow WorkflowError reflection_correct reflection_evaluate reflection_loop"
    ),
}
_HOME = {name: f"{__name__}.{room}" for room, names in _ROOMS.items() for name in names.split()}
_HOME |= dict.fromkeys(("InMemoryVectorStore", "PostgresVectorStore", "VectorStore"), "vectorstores")

__all__ = [
    "DEFAULT_EVALUATOR_PROMPT",
    "DEFAULT_REFLECTOR_PROMPT",
    "Agent",
    "AgentReviser",
    "Attempt",
    "Budget",
    "BudgetExceededError",
    "ChatModel",
    "CodeError",
    "CodeLimitError",
    "Comparison",
    "Completion",
    "ConfigurationError",
    "Convergence",
    "ConvergenceReason",
    "Credit",
    "CriteriaEvaluator",
    "Curator",
    "Decision",
    "Draft",
    "Ensemble",
    "EnsembleTask",
    "Evaluation",
    "EvaluationError",
    "Evaluator",
    "ExperimentError",
    "FileMemory",
    "FileReflectionStore",
    "FunctionAgent",
    "Guarantees",
    "InMemoryReflectionStore",
    "InMemoryVectorStore",
    "Judge",
    "Lesson",
    "LessonReflector",
    "LessonRefusedError",
    "LessonSettings",
    "LessonStore",
    "LessonStoreError",
    "Lift",
    "LlmReflectionStrategy",
    "LoopOptions",
    "Memory",
    "MergeSettings",
    "Message",
    "MissingDependencyError",
    "ModelAuthError",
    "ModelConnectionError",
    "ModelError",
    "ModelResponseError",
    "ModelReviser",
    "ModelStepCritic",
    "ModelTimeoutError",
    "OpenAIModel",
    "Panel",
    "PatternAgent",
    "Picking",
    "PostgresReflectionStore",
    "PostgresVectorStore",
    "Provenance",
    "QualityCriterion",
    "Ran",
    "ReAct",
    "Recall",
    "RecalledLesson",
    "RecordedModel",
    "Refined",
    "Refinement",
    "RefinementOptions",
    "Reflection",
    "ReflectionCallbacks",
    "ReflectionConfig",
    "ReflectionDecision",
    "ReflectionEvaluation",
    "ReflectionFailedError",
    "ReflectionHistory",
    "ReflectionInput",
    "ReflectionPattern",
    "ReflectionResult",
    "ReflectionStore",
    "ReflectionStoreError",
    "ReflectionStrategy",
    "ReflectionVersion",
    "Reflector",
    "Reflexion",
    "ReflexionError",
    "Reviser",
    "Revision",
    "RevisionRequest",
    "RewardEvaluator",
    "RunResult",
    "Sampling",
    "Sandbox",
    "SandboxError",
    "SandboxLimits",
    "SandboxUnavailableError",
    "ScriptedModel",
    "Session",
    "SessionError",
    "Spend",
    "SqliteReflectionStore",
    "Step",
    "StructuredReflector",
    "Task",
    "TaskReflectedEvent",
    "TaskReflection",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolSpec",
    "TransientMemory",
    "Trial",
    "Triggers",
    "UnknownLessonError",
    "UnreadableReplyError",
    "Usage",
    "VectorLessonStore",
    "VectorStore",
    "VersionedReflectionStore",
    "Withholding",
    "Workflow",
    "WorkflowError",
    "__version__",
    "as_agent",
    "as_evaluator",
    "as_reflector",
    "as_reviser",
    "as_tool",
    "default_notes_place",
    "default_place",
    "open_lessons",
    "open_notes",
    "parse_score",
    "probe",
    "recording_at",
    "redact",
    "reflection_correct",
    "reflection_evaluate",
    "reflection_loop",
    "task_identity",
]


if not TYPE_CHECKING:  # a type checker that saw this would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
