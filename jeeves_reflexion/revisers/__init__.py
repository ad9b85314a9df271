"""Revisers: they make a better text of a draft that was judged. ``ModelReviser(model)``."""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
