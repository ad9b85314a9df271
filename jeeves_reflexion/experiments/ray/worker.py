"""The worker process of an experiment on Ray: it opens a setup, and makes the tries that it is sent.

What passes is pickled; trials travel as the JSON that the journal keeps of them, so that a try made elsewhere is what a
resumed run would read. Models are asked by the experiment's own process.
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
from jeeves_reflexion.experiments.journal import rebuilt
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.models.ask import metered
from jeeves_reflexion.models.cassette import RecordedError
from jeeves_reflexion.models.recorded import UnknownRequestError
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Budget
from jeeves_reflexion.types import JSON, NO_USAGE, Trial

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
} | {"MissingDependencyError": ConfigurationError}  # which makes its own message
_HINT: Final = (
    ": what an experiment names must be importable on every node (--ray-working-dir sends a folder there)"
)
_NO_LIMIT: Final = RunBudget(None, NO_USAGE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A try wants an answer of a model; ``number`` is its name within the process."""

    number: int
    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    schema: Mapping[str, JSON] | None
    sampling: Sampling | None


@dataclass(frozen=True, slots=True)
class Failed:
    """An error that ends the experiment, or a call of a model, as text: not every error survives pickling."""

    name: str
    message: str
    trace: str = ""

    @classmethod
    def of(cls, error: BaseException, where: str = "") -> Failed:
        """Return what is told of an error, without secrets; of the nearest class that is known here."""
        name = next((each.__name__ for each in type(error).__mro__ if each.__name__ in _ERRORS), "")
        try:
            message = redact(str(error))
        except Exception as unsaid:  # noqa: BLE001 - said in its place; an error that is not said is waited for forever
            message = f"(its own text can't be had: {type(unsaid).__name__})"
        told = message if name else f"{type(error).__name__}: {message}"
        return cls(
            name or "ExperimentError", told + where, redact("".join(traceback.format_exception(error)))
        )

    def raised(self) -> Exception:
        """Return the error to raise, with its traceback as a note."""
        error: Exception = _ERRORS[self.name](self.message)
        error.add_note(self.trace)
        return error


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a call of a model; ``native`` says whether the model offers native tools now."""

    answer: Completion | RecordedError | Failed
    native: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """A try is made; ``entry`` is its line of the journal, None where the spending limit cut it short."""

    entry: dict[str, JSON] | None
    events: Sequence[dict[str, JSON]] = ()


@dataclass(slots=True)
class Talk:
    """What one try says, and what it has spent."""

    said: asyncio.Queue[Asked | Finished | Failed] = field(default_factory=asyncio.Queue)
    spend: RunSpend = field(default_factory=lambda: RunSpend(Budget(), _NO_LIMIT))


_talk: Final[ContextVar[Talk | None]] = ContextVar("jeeves_reflexion_talk", default=None)


class FarModel:
    """A model that is asked by the experiment's own process, on behalf of the try at hand."""

    def __init__(self, key: str, name: str, native: bool, worker: Worker) -> None:  # noqa: FBT001 - made here alone
        self._key = key
        self._worker = worker
        self.name = name
        self.supports_tools = native

    @metered
    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Ask; raises what asking raised there."""
        talk = _talk.get()
        if talk is None:
            raise ConfigurationError(f"the model {self.name} was asked outside of a try: ask it in the agent")
        number = next(self._worker.numbers)
        reply = self._worker.replies[number] = asyncio.get_running_loop().create_future()
        talk.said.put_nowait(Asked(number, self._key, list(messages), list(tools), schema, sampling))
        try:
            said = await reply
        finally:
            del self._worker.replies[number]
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
    """The worker process as Ray sees it: an actor whose coroutines share one event loop."""

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
        """Open what the setup holds; called once, before the first try."""
        opened: asyncio.Future[Failed | None] = asyncio.get_running_loop().create_future()
        # In one task, since what is opened in a task is to be closed in it.
        self._open = asyncio.create_task(self._held_open(opened))
        return await opened

    async def _held_open(self, opened: asyncio.Future[Failed | None]) -> None:
        try:
            setup: WorkerSetup = pickle.loads(self._setup)  # noqa: S301 - sent by the experiment itself
            async with setup.open(self._model) as self._tools:
                opened.set_result(None)
                await self._stopped.wait()
        except BaseException as error:  # told to the experiment, which ends
            if opened.done():
                raise
            told = Failed.of(error, self._where)
            if isinstance(error, ImportError) and not isinstance(error, ReflexionError):
                told = Failed("ConfigurationError", told.message + _HINT, told.trace)
            elif isinstance(error.__cause__, ImportError):
                told = Failed(told.name, told.message + _HINT, told.trace)
            opened.set_result(told)

    async def make(self, data: bytes) -> AsyncIterator[Asked | Finished | Failed]:
        """Make a try; yields what it says, at last that it is finished or failed."""
        talk = Talk()
        trying = asyncio.create_task(self._try(data, talk))
        self._trying.add(trying)
        trying.add_done_callback(self._trying.discard)
        said: Asked | Finished | Failed | None = None
        while not isinstance(said, Finished | Failed):
            said = await talk.said.get()
            yield said

    async def answer(self, number: int, reply: Reply) -> None:
        """Hand a reply to who waits for it, if anybody does still."""
        waiting = self.replies.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    async def stop(self) -> None:
        """Give up what is under way, and close what the setup opened."""
        for trying in self._trying:
            trying.cancel()
        await asyncio.gather(*self._trying, return_exceptions=True)
        self._stopped.set()
        await self._open

    async def _try(self, data: bytes, talk: Talk) -> None:
        """Make a try; what comes of it, an error too, is said."""
        _talk.set(talk)
        try:
            position, task, history, session_id = pickle.loads(data)  # noqa: S301 - sent by the experiment itself
            job = Job(position, task, [rebuilt(Trial, each) for each in history], session_id)
            loop = self._loop(job)
            talk.spend = RunSpend(loop.options.budget or Budget(), _NO_LIMIT)
            made = await make_try(job, loop, self._tools.scorer, talk.spend)
            talk.said.put_nowait(Finished(made.entry.as_json(), made.events) if made else Finished(None))
        except BaseException as error:
            talk.said.put_nowait(Failed.of(error, self._where))
            if isinstance(error, asyncio.CancelledError):
                raise  # an exit that an agent asks for ends the experiment, and not the other tries' event loop

    def _model(self, key: str) -> ChatModel:
        if key not in self._models:
            raise ConfigurationError(f"the experiment has no model {key!r} for its worker processes")
        return FarModel(key, *self._models[key], self)

    def _loop(self, job: Job) -> Reflexion:
        arm, seed = arm_of(job.position.arm), job.position.seed
        if (arm.name, seed) not in self._loops:
            self._loops[arm.name, seed] = as_arm(self._tools.make_loop(arm.name, seed), arm)
        loop = self._loops[arm.name, seed]
        return reading_only(loop) if job.position.split == "held-out" else loop
