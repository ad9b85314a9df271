"""What passes between the process that runs an experiment and its worker processes on Ray.

Trials travel as the JSON that the journal keeps of them, so that a try made elsewhere is what a resumed run would read;
the rest is pickled. What can't be pickled is said in words before anything is tried.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from jeeves_reflexion import errors
from jeeves_reflexion.errors import ConfigurationError, ExperimentError, MissingDependencyError
from jeeves_reflexion.experiments.executors import Job, Output
from jeeves_reflexion.experiments.journal import Entry, plain, rebuilt
from jeeves_reflexion.models.cassette import RecordedError
from jeeves_reflexion.models.recorded import UnknownRequestError
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON, Trial, Usage

_ERRORS: Final = {
    each.__name__: each
    for each in (
        ConfigurationError,
        UnknownRequestError,
        errors.ModelAuthError,
        errors.ModelError,
        errors.ModelRequestError,
        errors.SandboxUnavailableError,
        errors.LessonStoreError,
        ExperimentError,
        MissingDependencyError,
    )
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A try wants an answer of a model; ``spent`` is what it has used before, ``number`` its name within the try."""

    number: int
    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    schema: Mapping[str, JSON] | None
    sampling: Sampling | None
    spent: Usage


@dataclass(frozen=True, slots=True)
class OverLimit:
    """The experiment has spent what it may: the model is not asked."""

    message: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An error that ends the experiment, or a call of a model, as text: not every error survives pickling."""

    name: str
    message: str
    where: str = ""
    trace: str = ""
    extra: str = ""

    def raised(self) -> Exception:
        """Return the error to raise: of its own class where that is one of ours, with the traceback as a note."""
        message = f"{self.message}{self.where}"
        kind = _ERRORS.get(self.name)
        if kind is None:
            error: Exception = ExperimentError(f"{self.name}: {message}")
        elif kind is MissingDependencyError:  # makes its message of a feature and an extra
            missing = MissingDependencyError("", self.extra)
            missing.msg, missing.args = message, (message,)
            error = missing
        else:
            error = kind(message)  # type: ignore[call-arg]
        if self.trace:
            error.add_note(self.trace)
        return error


@dataclass(frozen=True, slots=True)
class Finished:
    """A try is made; ``entry`` is its line of the journal, None where the spending limit cut it short."""

    entry: dict[str, JSON] | None
    events: Sequence[dict[str, JSON]] = ()

    @classmethod
    def of(cls, made: Output | None) -> Finished:
        """Return what is said of a try."""
        return cls(None) if made is None else cls(made.entry.as_json(), made.events)

    def output(self) -> Output | None:
        """Return the try."""
        return None if self.entry is None else Output(Entry.of(self.entry), self.events)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a call of a model; ``native`` says whether the model offers native tools now."""

    answer: Completion | RecordedError | OverLimit | Failed
    native: bool


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a worker process knows of a model that it asks through the experiment's own process."""

    name: str
    native: bool


Said: TypeAlias = Asked | Finished | Failed


def failed(error: BaseException, where: str = "") -> Failed:
    """Return an error as text, without secrets."""
    # The nearest class that is known says as much as the error's own.
    name = next(
        (each.__name__ for each in type(error).__mro__ if each.__name__ in _ERRORS), type(error).__name__
    )
    trace = redact("".join(traceback.format_exception(error)))
    try:
        message = redact(str(error))
    except Exception as unsaid:  # noqa: BLE001 - said in its place; an error that is not said is waited for forever
        message = f"(its own text can't be had: {type(unsaid).__name__})"
    return Failed(name, message, where, trace, str(getattr(error, "extra", "")))


def load_ray() -> Any:  # noqa: ANN401 - a module without types
    """Return Ray, which reports no usage unless told to; raises :class:`MissingDependencyError` with the extra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415 - optional dependency
        import ray.cloudpickle  # noqa: PLC0415
        import ray.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("running an experiment on Ray", "ray") from error
    return ray


def packed(value: object, what: str) -> bytes:
    """Pickle a value; raises :class:`ConfigurationError` that says what to do where it can't be."""
    cloudpickle = load_ray().cloudpickle  # also sends what stands in the program's main file
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:  # what a value's own pickling raises may be anything
        raise ConfigurationError(
            f"{what} can't be sent to worker processes: {type(error).__name__}: {error}. Name what is in it instead"
            " (an agent as module:name, a store by its address), and open files, connections and models in its open()"
        ) from error
    return data


def packed_job(job: Job) -> bytes:
    """Pickle a job; raises :class:`ConfigurationError`."""
    history = [plain(trial) for trial in job.history]
    return packed((job.position, job.task, history, job.session_id), f"task {job.task.id!r}")


def unpacked_job(data: bytes) -> Job:
    """Return the job of :func:`packed_job`."""
    position, task, history, session_id = pickle.loads(data)  # noqa: S301 - sent by the experiment itself
    return Job(position, task, [rebuilt(Trial, each) for each in history], session_id)
