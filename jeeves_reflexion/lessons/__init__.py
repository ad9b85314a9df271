"""Lessons: what is let in, how it is kept, which are recalled, and whether they helped.

The way in is ``gate.py`` (a ``CleanLesson``) and ``store.py`` (``record``), the way out ``store.py`` (``recall``) with
``retrieval.py``. ``repository.py`` keeps lessons and their history; ``curation.py`` and ``consolidation/`` change them.
"""

from jeeves_reflexion.lessons.checks import Check, ModelCheck, Opinion
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.gate import shape_problem
from jeeves_reflexion.lessons.memory import FileMemory, TransientMemory
from jeeves_reflexion.lessons.records import LessonPage
from jeeves_reflexion.lessons.screening.rules import Finding, screen
from jeeves_reflexion.lessons.screening.screens import ModelScreen, Screen
from jeeves_reflexion.lessons.settings import Credit, LessonSettings, Picking
from jeeves_reflexion.lessons.store import VectorLessonStore

__all__ = [
    "Check",
    "Credit",
    "Curator",
    "FileMemory",
    "Finding",
    "LessonPage",
    "LessonSettings",
    "ModelCheck",
    "ModelScreen",
    "Opinion",
    "Picking",
    "Screen",
    "TransientMemory",
    "VectorLessonStore",
    "Withholding",
    "screen",
    "shape_problem",
]
