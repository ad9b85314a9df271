"""Which tasks are learned from, and which are held out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import Task


def split(tasks: Sequence[Task], share: float, *, seed: int = 0) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Return the learning tasks and the held-out tasks, each in the order given.

    The rule: tasks are ordered by the SHA-256 of ``"<seed>:<task id>"``, and the first ``round(share * n)`` of them
    are held out, at least one task on each side. So it depends on the seed and the ids alone, not on the order of the
    file. A share of 0 holds out none. Raises :class:`ConfigurationError` for a share outside of [0, 1) and for a
    single task.
    """
    if not 0.0 <= share < 1.0:
        raise ConfigurationError(f"the share of held-out tasks must lie in [0, 1), not {share}")
    if share == 0.0:
        return tuple(tasks), ()
    if len(tasks) < 2:
        raise ConfigurationError("holding out tasks needs at least two tasks")
    number = min(max(round(share * len(tasks)), 1), len(tasks) - 1)
    drawn = sorted((_digest(seed, task.id), task.id) for task in tasks)[:number]
    held = {task_id for _, task_id in drawn}
    return tuple(t for t in tasks if t.id not in held), tuple(t for t in tasks if t.id in held)


def rule(share: float, seed: int, learning: int, held_out: int) -> str:
    """Say in words how the tasks were split."""
    if not share:
        return "no task is held out"
    return (
        f"{held_out} of {learning + held_out} tasks are held out: the first {share:g} of them in the order of"
        f" SHA-256('{seed}:<task id>')"
    )


def _digest(seed: int, task_id: str) -> str:
    return hashlib.sha256(f"{seed}:{task_id}".encode("utf-8", "surrogatepass")).hexdigest()
