"""Task notes: tasks that improve their own instructions from run to run.

:class:`Ensemble` runs tasks (``ensemble``, ``execution``); after an accepted run :class:`TaskReflector` has a strategy
write better instructions, which make a version in a store (``evolution``, ``store``). The next run finds them before
its own prompt (``injection``).
"""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
