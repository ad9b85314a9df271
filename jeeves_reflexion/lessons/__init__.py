"""Lessons: what may become one, where they are kept, and which are recalled."""

from jeeves_reflexion.lessons.gate import shape_problem
from jeeves_reflexion.lessons.memory import FileMemory, TransientMemory
from jeeves_reflexion.lessons.shelf import LessonPage
from jeeves_reflexion.lessons.store import LessonSettings, VectorLessonStore

__all__ = [
    "FileMemory",
    "LessonPage",
    "LessonSettings",
    "TransientMemory",
    "VectorLessonStore",
    "shape_problem",
]
