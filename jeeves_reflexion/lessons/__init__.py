"""Lessons: what may become one, where they are kept, which are recalled, and whether they helped."""

from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.curator import Curator
from jeeves_reflexion.lessons.gate import shape_problem
from jeeves_reflexion.lessons.memory import FileMemory, TransientMemory
from jeeves_reflexion.lessons.merging import MergeSettings
from jeeves_reflexion.lessons.recalling import Picking
from jeeves_reflexion.lessons.screening.detecting import Finding, screen
from jeeves_reflexion.lessons.screening.screens import ModelScreen, Screen
from jeeves_reflexion.lessons.settings import Credit, LessonSettings
from jeeves_reflexion.lessons.shelf import LessonPage
from jeeves_reflexion.lessons.store import VectorLessonStore

__all__ = [
    "Credit",
    "Curator",
    "FileMemory",
    "Finding",
    "LessonPage",
    "LessonSettings",
    "MergeSettings",
    "ModelScreen",
    "Picking",
    "Screen",
    "TransientMemory",
    "VectorLessonStore",
    "Withholding",
    "screen",
    "shape_problem",
]
