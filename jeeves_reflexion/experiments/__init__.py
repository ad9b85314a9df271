"""Experiments: tasks x trials x arms x seeds, a run log, progress, and the learning curve."""

from jeeves_reflexion.experiments.arms import ARMS, ArmName, arm_lessons
from jeeves_reflexion.experiments.plan import Plan
from jeeves_reflexion.experiments.progress import PlainProgress, RichProgress, progress_for
from jeeves_reflexion.experiments.results import Curve, Point, Results, Story, Tried
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.experiments.runner import run_experiment

__all__ = [
    "ARMS",
    "ArmName",
    "Curve",
    "PlainProgress",
    "Plan",
    "Point",
    "Results",
    "RichProgress",
    "RunLog",
    "Story",
    "Tried",
    "arm_lessons",
    "progress_for",
    "run_experiment",
]
