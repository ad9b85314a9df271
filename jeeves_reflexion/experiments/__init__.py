"""Experiments: tasks x trials x arms x seeds in a folder to resume from, progress, and the learning curve.

The way in is :func:`run_experiment`; ``report`` shows what came of it, ``ray`` makes the tries on a cluster.
"""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
