"""Evaluators: they judge an attempt and say why."""

from jeeves_reflexion.evaluators.checks import FunctionCheck
from jeeves_reflexion.evaluators.compare import Compared, Comparison
from jeeves_reflexion.evaluators.criteria import (
    CRITERIA_SETS,
    DESCRIPTIONS,
    GENERAL_CRITERIA,
    QualityCriterion,
    as_criteria,
    criteria_for,
)
from jeeves_reflexion.evaluators.criteria_evaluator import CriteriaEvaluator
from jeeves_reflexion.evaluators.function import as_evaluator
from jeeves_reflexion.evaluators.judge import Judge
from jeeves_reflexion.evaluators.panel import Panel
from jeeves_reflexion.evaluators.regex import RegexCheck
from jeeves_reflexion.evaluators.reward import RewardEvaluator
from jeeves_reflexion.evaluators.scores import ParsedScore, parse_score

__all__ = [
    "CRITERIA_SETS",
    "DESCRIPTIONS",
    "GENERAL_CRITERIA",
    "Compared",
    "Comparison",
    "CriteriaEvaluator",
    "FunctionCheck",
    "Judge",
    "Panel",
    "ParsedScore",
    "QualityCriterion",
    "RegexCheck",
    "RewardEvaluator",
    "as_criteria",
    "as_evaluator",
    "criteria_for",
    "parse_score",
]
