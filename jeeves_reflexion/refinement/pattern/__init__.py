"""The reflection pattern of seed 001 under its own names, over the inner loop."""

from jeeves_reflexion.drafts import ConvergenceReason
from jeeves_reflexion.evaluators.criteria import QualityCriterion
from jeeves_reflexion.refinement.pattern.agent import PatternAgent
from jeeves_reflexion.refinement.pattern.core import ReflectionPattern
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
