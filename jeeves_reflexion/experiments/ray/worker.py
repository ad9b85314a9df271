"""A worker process of an experiment on Ray: it holds open what a setup opens, and makes the tries that it is given.

Its event loop has a thread of its own, so that it says how its tries stand also while an agent blocks the loop.
"""

from __future__ import annotations

import os
import pickle
import queue
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.from_thread

from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError, ReflexionError
from jeeves_reflexion.experiments.arms import arm_of, as_arm, reading_only
from jeeves_reflexion.experiments.executors import (
    Job,
    RunBudget,
    RunSpend,
    Tools,
    WorkerSetup,
    make_try,
)
from jeeves_reflexion.experiments.ray.messages import (
    Asked,
    Failed,
    Finished,
    ModelFacts,
    OverLimit,
    Reply,
    Said,
    failed,
    unpacked_job,
)
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.models.cassette import RecordedError
from jeeves_reflexion.protocols import ChatModel, Completion, Evaluator, Message, Sampling, ToolSpec
from jeeves_reflexion.session import Budget
from jeeves_reflexion.types import JSON, NO_USAGE

_HINT: Final = (
    ": what an experiment names must be importable on every node (--ray-working-dir sends a folder there)"
)
_NO_LIMIT: Final = RunBudget(None, NO_USAGE)
_talk: Final[ContextVar[Talk | None]] = ContextVar("jeeves_reflexion_talk", default=None)


class Talk:
    """What one try and the experiment's process say to each other."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self.spend = RunSpend(Budget(), _NO_LIMIT)
        self._waiting: dict[int, anyio.Event] = {}
        self._replies: dict[int, Reply] = {}
        self._asked = 0

    async def ask(
        self,
        model: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        schema: Mapping[str, JSON] | None,
        sampling: Sampling | None,
    ) -> Reply:
        """Have a model asked, and wait for what comes of it."""
        self._asked += 1
        number = self._asked
        self._waiting[number] = anyio.Event()
        self.said.put(Asked(number, model, list(messages), list(tools), schema, sampling, self.spend.own))
        try:
            await self._waiting[number].wait()
        finally:
            del self._waiting[number]
        return self._replies.pop(number)

    def answered(self, number: int, reply: Reply) -> None:
        """Hand a reply to who waits for it, if anybody does still; called in the event loop."""
        if number in self._waiting:
            self._replies[number] = reply
            self._waiting[number].set()


class FarModel:
    """A model that is asked by the experiment's own process, on behalf of the try at hand."""

    def __init__(self, key: str, facts: ModelFacts) -> None:
        self._key = key
        self.name = facts.name
        self.supports_tools = facts.native

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
        reply = await talk.ask(self._key, messages, tools, schema, sampling)
        self.supports_tools = reply.native
        match reply.answer:
            case Completion() as completion:
                return completion
            case RecordedError() as error:
                raise error.raised()
            case OverLimit(message):
                talk.spend.stopped = True
                raise BudgetExceededError("experiment", message)
            case Failed() as failure:
                raise failure.raised()


class StartedAnewError(Exception):
    """A process knows nothing of a try: Ray started it in the place of the one that did."""


class Worker:
    """The worker process as Ray sees it; each method is called in a thread of its own and returns soon.

    None of them, private ones included, may be a coroutine: Ray would then call all of them in one event loop, one
    after the other, and a try that waits for an answer would never hear it.
    """

    def __init__(self, setup: bytes, models: Mapping[str, ModelFacts], paths: Sequence[str]) -> None:
        self._setup = setup
        self._models = models
        self._paths = paths
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._tools: Tools | None = None
        self._loops: dict[tuple[str, int], Reflexion] = {}
        self._talks: dict[int, Talk] = {}
        self._trying: dict[int, Future[None]] = {}
        self._where = f" (in the worker process {os.getpid()} on {socket.gethostname()})"

    def open(self) -> Failed | None:
        """Open what the setup holds, unless that is done; called before each try."""
        with self._lock:
            if self._tools is not None:
                return None
            sys.path.extend(path for path in self._paths if path not in sys.path and Path(path).exists())
            try:
                setup: WorkerSetup = pickle.loads(self._setup)  # noqa: S301 - sent by the experiment itself
                self._portal = self._open.enter_context(anyio.from_thread.start_blocking_portal())
                opened = self._portal.wrap_async_context_manager(setup.open(self._model))
                self._tools = self._open.enter_context(opened)
            except BaseException as error:  # noqa: BLE001 - told to the experiment, which ends
                told = failed(error, self._where)
                lacking = [each for each in (error, error.__cause__) if isinstance(each, ImportError)]
                if not lacking or isinstance(lacking[0], ReflexionError):
                    return told
                if lacking[0] is error:
                    told = replace(told, name="ConfigurationError", message=f"{told.name}: {told.message}")
                return replace(told, where=self._where + _HINT)
            return None

    def begin(self, number: int, job: bytes) -> None:
        """Begin a try; what it says is heard by :meth:`listen`. Raises :class:`StartedAnewError`."""
        if self._tools is None:
            raise StartedAnewError
        self._talks[number] = talk = Talk()
        coroutine = partial(_make, job, talk, self._loop, self._where)
        self._trying[number] = self._portal.start_task_soon(coroutine)

    def listen(self, number: int, wait: float) -> Said | None:
        """Return what a try says in ``wait`` seconds, None if nothing. Raises :class:`StartedAnewError`."""
        talk = self._talks.get(number)
        if talk is None:
            raise StartedAnewError
        try:
            said = talk.said.get(timeout=wait)
        except queue.Empty:
            return None
        if isinstance(said, Finished | Failed):
            self._talks.pop(number, None)
            self._trying.pop(number, None)
        return said

    def answer(self, number: int, asked: int, reply: Reply) -> None:
        """Answer what a try asked."""
        talk = self._talks.get(number)
        if talk is not None:
            self._portal.start_task_soon(talk.answered, asked, reply)

    def drop(self, number: int) -> None:
        """Give up a try that nobody listens to any more; it is made again elsewhere."""
        self._talks.pop(number, None)
        trying = self._trying.pop(number, None)
        if trying is not None:
            trying.cancel()

    def stop(self) -> None:
        """Give up what is under way, and close what the setup opened."""
        for trying in list(self._trying.values()):
            trying.cancel()
        self._open.close()

    def _model(self, key: str) -> ChatModel:
        if key not in self._models:
            raise ConfigurationError(f"the experiment has no model {key!r} for its worker processes")
        return FarModel(key, self._models[key])

    def _loop(self, job: Job) -> tuple[Reflexion, Evaluator | None]:
        """Return the loop of a try, and who scores it."""
        assert self._tools is not None  # noqa: S101 - opened before the try is begun
        arm, seed = arm_of(job.position.arm), job.position.seed
        if (arm.name, seed) not in self._loops:
            self._loops[arm.name, seed] = as_arm(self._tools.make_loop(arm.name, seed), arm)
        loop = self._loops[arm.name, seed]
        return reading_only(loop) if job.position.split == "held-out" else loop, self._tools.scorer


async def _make(
    data: bytes, talk: Talk, loop_of: Callable[[Job], tuple[Reflexion, Evaluator | None]], where: str
) -> None:
    """Make a try; what comes of it, an error too, is said."""
    token = _talk.set(talk)
    try:
        job = unpacked_job(data)
        loop, scorer = loop_of(job)
        talk.spend = RunSpend(loop.options.budget or Budget(), _NO_LIMIT)
        talk.said.put(Finished.of(await make_try(job, loop, scorer, talk.spend)))
    except BaseException as error:
        talk.said.put(failed(error, where))
        if isinstance(error, anyio.get_cancelled_exc_class()):
            raise  # an exit that an agent asks for ends the experiment, and not the other tries' event loop
    finally:
        _talk.reset(token)
