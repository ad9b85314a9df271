"""Experiments: tasks x trials x arms x seeds, kept in a folder from which a run can be resumed.

Start with :func:`run_experiment`. ``report`` shows the results, ``ray`` makes the tries on a cluster.
"""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
