"""Which task is which, across runs."""

from __future__ import annotations

import hashlib
from typing import Protocol, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import Task


class Described(Protocol):
    """Something with a description, such as an :class:`EnsembleTask`."""

    @property
    def description(self) -> str:
        """What is asked, before substitution."""
        ...


AnyTask: TypeAlias = Task | Described | str


def description_of(task: AnyTask) -> str:
    """Return what a task asks, before substitution, so that a parametrised task stays one task."""
    if isinstance(task, str):
        return task
    if isinstance(task, Task):
        return task.prompt if task.template is None else task.template
    return task.description


def task_identity(task: AnyTask) -> str:
    """Return the key of a task's notes: the SHA-256 of its description, 64 hexadecimal digits.

    It is the same in every process, whatever the task's other fields are: two tasks of one description share their
    notes. A description with placeholders counts before substitution.
    """
    return hashlib.sha256(description_of(task).encode("utf-8", "surrogatepass")).hexdigest()


def checked_identity(identity: object) -> str:
    """Return a key of notes, or raise :class:`ConfigurationError` for one that is no text or blank."""
    if not isinstance(identity, str) or not identity.strip():
        raise ConfigurationError(f"task_identity must be a text that is not blank, not {identity!r}")
    return identity
