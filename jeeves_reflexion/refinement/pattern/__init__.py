"""The reflection pattern: the inner loop under the pattern's own names and numbers. ``ReflectionPattern()``."""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
