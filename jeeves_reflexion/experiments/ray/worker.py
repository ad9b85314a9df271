"""The worker process of an experiment on Ray: it opens a setup and makes the tries that it is sent.

Messages are pickled; a finished try is sent as its line of the journal. The experiment's own process asks the models.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jeeves_reflexion import errors
from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError, ExperimentError, ReflexionError
from jeeves_reflexion.experiments.arms import arm_of, as_arm, reading_only
from jeeves_reflexion.experiments.executors import Job, RunBudget, RunSpend, WorkerSetup, make_try
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.models.ask import metered
from jeeves_reflexion.models.cassette import RecordedError
from jeeves_reflexion.models.recorded import UnknownRequestError
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Budget
from jeeves_reflexion.types import JSON, NO_USAGE

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
    )
} | {"MissingDependencyError": ConfigurationError}  # its constructor would make another message
_HINT: Final = (
    ": what an experiment names must be importable on every node (--ray-working-dir sends a folder there)"
)
_NO_LIMIT: Final = RunBudget(None, NO_USAGE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A try asks a model; ``number`` names the question within the process."""

    number: int
    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    schema: Mapping[str, JSON] | None
    sampling: Sampling | None


@dataclass(frozen=True, slots=True)
class Failed:
    """An error that ends the experiment or a model call, as text, because not every error survives pickling."""

    name: str
    message: str
    trace: str = ""

    @classmethod
    def of(cls, error: BaseException, where: str = "") -> Failed:
        """Return an error as text without secrets, with the nearest class of ``_ERRORS``."""
        name = next((each.__name__ for each in type(error).__mro__ if each.__name__ in _ERRORS), "")
        try:
            message = redact(str(error))
        except Exception as problem:  # noqa: BLE001 - an error that is not sent would be waited for forever
            message = f"(the error's text can't be read: {type(problem).__name__})"
        message = message if name else f"{type(error).__name__}: {message}"
        trace = redact("".join(traceback.format_exception(error)))
        return cls(name or "ExperimentError", message + where, trace)

    def raised(self) -> Exception:
        """Return the error to raise, with its traceback as a note."""
        error: Exception = _ERRORS[self.name](self.message)
        error.add_note(self.trace)
        return error


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a model call; ``native`` says whether the model now offers native tools."""

    answer: Completion | RecordedError | Failed
    native: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished try; ``entry`` is its line of the journal, None if the spending limit cut it short."""

    entry: dict[str, JSON] | None
    events: Sequence[dict[str, JSON]] = ()


@dataclass(slots=True)
class Talk:
    """The messages of one try, and its spending."""

    said: asyncio.Queue[Asked | Finished | Failed] = field(default_factory=asyncio.Queue)
    spend: RunSpend = field(default_factory=lambda: RunSpend(Budget(), _NO_LIMIT))


_talk: Final[ContextVar[Talk | None]] = ContextVar("jeeves_reflexion_talk", default=None)


@dataclass(eq=False)
class FarModel:
    """A model that the experiment's own process asks on behalf of the current try."""

    key: str
    name: str
    supports_tools: bool
    worker: Worker

    @metered
    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Ask the model. Raises what it raised in the experiment's process."""
        talk = _talk.get()
        if talk is None:
            raise ConfigurationError(
                f"the model {self.name} was asked outside of a try: ask it within the agent"
            )
        number = next(self.worker.numbers)
        reply = self.worker.replies[number] = asyncio.get_running_loop().create_future()
        talk.said.put_nowait(Asked(number, self.key, list(messages), list(tools), schema, sampling))
        try:
            said = await reply
        finally:
            del self.worker.replies[number]
        self.supports_tools = said.native
        match said.answer:
            case Completion() as completion:
                return completion
            case Failed("BudgetExceededError", message):
                talk.spend.stopped = True
                raise BudgetExceededError("experiment", message)
            case failure:
                raise failure.raised()


class Worker:
    """The Ray actor of a worker process; its coroutines share one event loop."""

    def __init__(self, setup: bytes, models: Mapping[str, tuple[str, bool]], paths: Sequence[str]) -> None:
        sys.path.extend(path for path in paths if path not in sys.path and Path(path).exists())
        self.numbers = itertools.count()
        self.replies: dict[int, asyncio.Future[Reply]] = {}
        self._setup = setup
        self._models = models
        self._loops: dict[tuple[str, int], Reflexion] = {}
        self._trying: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._where = f" (in the worker process {os.getpid()} on {socket.gethostname()})"

    async def open(self) -> Failed | None:
        """Open the setup; called once, before the first try."""
        opened: asyncio.Future[Failed | None] = asyncio.get_running_loop().create_future()
        # One task opens and closes it: cancel scopes must be closed in the task that opened them.
        self._open = asyncio.create_task(self._held_open(opened))
        return await opened

    async def _held_open(self, opened: asyncio.Future[Failed | None]) -> None:
        try:
            setup: WorkerSetup = pickle.loads(self._setup)  # noqa: S301 - sent by the experiment itself
            async with setup.open(self._model) as self._tools:
                opened.set_result(None)
                await self._stopped.wait()
        except BaseException as error:  # sent to the experiment, which ends
            if opened.done():
                raise
            failure = Failed.of(error, self._where)
            if isinstance(error, ImportError) and not isinstance(error, ReflexionError):
                failure = Failed("ConfigurationError", failure.message + _HINT, failure.trace)
            elif isinstance(error.__cause__, ImportError):
                failure = Failed(failure.name, failure.message + _HINT, failure.trace)
            opened.set_result(failure)

    async def make(self, data: bytes) -> AsyncIterator[Asked | Finished | Failed]:
        """Make a try. Yields its messages; the last one says that it finished or failed."""
        talk = Talk()
        trying = asyncio.create_task(self._try(data, talk))
        self._trying.add(trying)
        trying.add_done_callback(self._trying.discard)
        message: Asked | Finished | Failed | None = None
        while not isinstance(message, Finished | Failed):
            message = await talk.said.get()
            yield message

    async def answer(self, number: int, reply: Reply) -> None:
        """Hand a reply to the try that waits for it, if it still does."""
        waiting = self.replies.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    async def stop(self) -> None:
        """Cancel the current tries, and close the setup."""
        for trying in self._trying:
            trying.cancel()
        await asyncio.gather(*self._trying, return_exceptions=True)
        self._stopped.set()
        await self._open

    async def _try(self, data: bytes, talk: Talk) -> None:
        """Make a try and send its outcome, which may be an error."""
        _talk.set(talk)
        try:
            job: Job = pickle.loads(data)  # noqa: S301 - sent by the experiment itself
            arm, seed = arm_of(job.position.arm), job.position.seed
            if (arm.name, seed) not in self._loops:
                self._loops[arm.name, seed] = as_arm(self._tools.make_loop(arm.name, seed), arm)
            loop = self._loops[arm.name, seed]
            if job.position.split == "held-out":
                loop = reading_only(loop)
            talk.spend = RunSpend(loop.options.budget or Budget(), _NO_LIMIT)
            made = await make_try(job, loop, self._tools.scorer, talk.spend)
            talk.said.put_nowait(Finished(made.entry.as_json(), made.events) if made else Finished(None))
        except BaseException as error:
            talk.said.put_nowait(Failed.of(error, self._where))
            if isinstance(error, asyncio.CancelledError):
                raise  # not SystemExit: an agent's exit must not end the event loop of the other tries

    def _model(self, key: str) -> ChatModel:
        if key not in self._models:
            raise ConfigurationError(f"the experiment has no model {key!r} for its worker processes")
        return FarModel(key, *self._models[key], self)
