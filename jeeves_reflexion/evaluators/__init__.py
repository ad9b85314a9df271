"""Evaluators: they judge an attempt and say why."""

from jeeves_reflexion.evaluators.function import as_evaluator
from jeeves_reflexion.evaluators.judge import Judge
from jeeves_reflexion.evaluators.reward import RewardEvaluator
from jeeves_reflexion.evaluators.scores import ParsedScore, parse_score

__all__ = ["Judge", "ParsedScore", "RewardEvaluator", "as_evaluator", "parse_score"]
