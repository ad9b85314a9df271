"""The errors of workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jeeves_reflexion.errors import ConfigurationError, ReflexionError
from jeeves_reflexion.types import JSON


class WorkflowFileError(ConfigurationError):
    """A workflow file is wrong; the message says where and what to do."""


class WorkflowError(ReflexionError):
    """A step failed while the workflow ran; the message names the node, ``__cause__`` is the step's error."""


class TemplateError(WorkflowError):
    """A template could not be filled in; the message names the place, the line and the reason."""


class ReflectionFailedError(ReflexionError):
    """No output of a loop was valid, and ``on_failure`` is ``raise``.

    ``history`` holds the attempts, oldest first: ``{"iteration", "output", "score", "valid", "errors"}``.
    """

    def __init__(self, message: str, history: Sequence[Mapping[str, JSON]] = ()) -> None:
        super().__init__(message)
        self.history: tuple[Mapping[str, JSON], ...] = tuple(history)
