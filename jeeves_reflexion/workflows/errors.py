"""What a workflow raises besides the package's other errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jeeves_reflexion.errors import ConfigurationError, ReflexionError
from jeeves_reflexion.types import JSON


class WorkflowFileError(ConfigurationError):
    """A workflow file, or a part of it, can't work; the message says where in the file and what to do."""


class WorkflowError(ReflexionError):
    """A step failed while the workflow ran; the message names the node, the cause is what it raised."""


class TemplateError(WorkflowError):
    """A template could not be filled in; the message names the place, the line and what is missing."""


class ReflectionFailedError(ReflexionError):
    """No output of a loop was valid, and its ``on_failure`` is ``raise``.

    ``history`` holds the attempts, oldest first: ``{"iteration", "output", "score", "valid", "errors"}``.
    """

    def __init__(self, message: str, history: Sequence[Mapping[str, JSON]] = ()) -> None:
        super().__init__(message)
        self.history: tuple[Mapping[str, JSON], ...] = tuple(history)
