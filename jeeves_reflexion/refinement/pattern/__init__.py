"""The reflection pattern: the inner loop under the pattern's own names and numbers."""

from jeeves_reflexion.drafts import ConvergenceReason
from jeeves_reflexion.evaluators.criteria import QualityCriterion
from jeeves_reflexion.refinement.pattern.core import PatternAgent, ReflectionPattern
from jeeves_reflexion.refinement.pattern.values import (
    ReflectionCallbacks,
    ReflectionDecision,
    ReflectionEvaluation,
    ReflectionHistory,
    ReflectionResult,
    ReflectionVersion,
)

__all__ = [
    "ConvergenceReason",
    "PatternAgent",
    "QualityCriterion",
    "ReflectionCallbacks",
    "ReflectionDecision",
    "ReflectionEvaluation",
    "ReflectionHistory",
    "ReflectionPattern",
    "ReflectionResult",
    "ReflectionVersion",
]
