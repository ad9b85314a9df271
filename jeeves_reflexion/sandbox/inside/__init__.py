"""The side of the sandbox that runs in the new process.

Standard library only, and imported there as a package of its own (without ``jeeves_reflexion``), so that nothing of
the host is loaded where the code runs. ``supervisor`` starts, watches and ends the process in
which the code runs; ``walls`` and ``seccomp`` shut it in.
"""
