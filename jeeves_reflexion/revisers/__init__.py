"""Revisers turn a draft and the verdict on it into a better text: ``ModelReviser(model)``."""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
