"""Experiments: tasks x trials x arms x seeds in a folder to resume from, progress, and the learning curve."""

from jeeves_reflexion.experiments.arms import (
    ARMS,
    Arm,
    ArmName,
    arm_lessons,
    arm_names,
    arm_of,
    check_kinds,
    early_share,
    recall_settings,
    withheld_share,
)
from jeeves_reflexion.experiments.costs import Estimate, Expected, estimate
from jeeves_reflexion.experiments.figures import cost_table, figures
from jeeves_reflexion.experiments.plan import JudgedBy, Plan
from jeeves_reflexion.experiments.progress import PlainProgress, RichProgress, progress_for
from jeeves_reflexion.experiments.results import Cost, Curve, Point, Results, Split, Story, Tried, together
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.experiments.runner import run_experiment
from jeeves_reflexion.experiments.splitting import split
from jeeves_reflexion.experiments.task_files import read_tasks
from jeeves_reflexion.experiments.watching import Watcher

__all__ = [
    "ARMS",
    "Arm",
    "ArmName",
    "Cost",
    "Curve",
    "Estimate",
    "Expected",
    "JudgedBy",
    "PlainProgress",
    "Plan",
    "Point",
    "Results",
    "RichProgress",
    "RunLog",
    "Split",
    "Story",
    "Tried",
    "Watcher",
    "arm_lessons",
    "arm_names",
    "arm_of",
    "check_kinds",
    "cost_table",
    "early_share",
    "estimate",
    "figures",
    "progress_for",
    "read_tasks",
    "recall_settings",
    "run_experiment",
    "split",
    "together",
    "withheld_share",
]
