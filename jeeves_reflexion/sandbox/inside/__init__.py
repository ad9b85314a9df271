"""The part of the sandbox that runs in the new processes.

It uses the standard library only and is imported there as the package ``inside``, without ``jeeves_reflexion``, so that
nothing of the host is loaded where the code runs. ``supervisor`` starts, watches and ends the code's process; ``walls``
and ``seccomp`` isolate it.
"""
