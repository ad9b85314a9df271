"""Reflectors: they write down what to do differently."""

from jeeves_reflexion.reflectors.function import as_reflector
from jeeves_reflexion.reflectors.lesson import LessonReflector

__all__ = ["LessonReflector", "as_reflector"]
