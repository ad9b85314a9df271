"""Reflectors write down what to do differently: ``LessonReflector(model)`` or ``as_reflector(function)``."""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
