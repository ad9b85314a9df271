"""Reflectors: they write down what to do differently."""

from jeeves_reflexion.reflectors.function import as_reflector
from jeeves_reflexion.reflectors.lesson import LessonReflector
from jeeves_reflexion.reflectors.structured import StructuredReflector

__all__ = ["LessonReflector", "StructuredReflector", "as_reflector"]
