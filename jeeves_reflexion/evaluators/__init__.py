"""Evaluators: they score an attempt and say why. ``Judge(model)``, ``CriteriaEvaluator(criteria)``."""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
