"""Task notes: tasks that improve their own instructions from run to run.

:class:`Ensemble` runs tasks (``ensemble``, ``execution``). After an accepted run, :class:`TaskReflector` asks a
strategy for better instructions, which become a version in a store (``evolution``, ``store``). The next run gets them
before its own prompt (``reflector``).
"""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
