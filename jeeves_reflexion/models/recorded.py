"""A model that records what passes between a program and a real model, and plays it back offline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias, get_args

import anyio
import anyio.lowlevel
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, ModelAuthError, ModelError
from jeeves_reflexion.models.ask import metered
from jeeves_reflexion.models.cassette import Exchange, RecordedError, key_of, recorded_error, request_of
from jeeves_reflexion.models.tape import Match, Source, Take, Tape
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON, NO_USAGE, Usage

Mode: TypeAlias = Literal["record", "replay", "auto"]

_place: Final[ContextVar[str]] = ContextVar("jeeves_reflexion_recording_place", default="")


class UnknownRequestError(ConfigurationError):
    """A request that is not in the recording; the message shows the nearest one that is, and how they differ."""


@contextmanager
def recording_at(place: str) -> Iterator[None]:
    """Have exchanges within the block recorded at, and played from, a place of the run.

    A place is any text that names where in an experiment a call is made, such as ``"reflexion/seed 0/task 7/trial 2"``.
    Equal requests at different places have completions of their own, whichever of them comes first.
    """
    token = _place.set(redact(place))
    try:
        yield
    finally:
        _place.reset(token)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a :class:`RecordedModel` did so far: exchanges played from the recording, and calls of the real model.

    ``asked_usage`` is what was paid for now, ``played_usage`` what was paid for when it was recorded. ``changed``
    counts the exchanges played by position whose request was not the recorded one.
    """

    played: int = 0
    asked: int = 0
    played_usage: Usage = NO_USAGE
    asked_usage: Usage = NO_USAGE
    changed: int = 0


class RecordedModel:
    """Records every exchange of a real model, and replays it offline.

    ``tape`` is the path of a cassette, or exchanges to play. ``mode`` is

    - ``"record"``: asks the real ``model`` each time and appends what came of it, failed calls included;
    - ``"replay"`` (the default without a model): plays what was recorded and asks nobody. A recorded error is raised
      again;
    - ``"auto"`` (the default with one): plays what is there and asks for the rest, so that what is in the log is never
      paid for again. Failed calls are neither recorded nor played: they were not answered, and are made again.

    ``match="request"`` plays what was recorded for the same request (messages, tools, schema, sampling, and the name
    of the model) at the same place (:func:`recording_at`): the n-th time what came the n-th time. A request that was
    not recorded, or not so often, raises :class:`UnknownRequestError`, which ends a run. ``match="position"`` plays the
    exchanges of a place in order, whatever is asked.

    Secrets never reach the file, and requests are compared without them; a completion is played as it stands in the
    file. A refused key (:class:`~jeeves_reflexion.errors.ModelAuthError`) is never recorded. ``name`` chooses among
    the models of a recording when there is no ``model``. The file is read here, once: what other processes append
    later is not played. Raises :class:`~jeeves_reflexion.errors.ConfigurationError` for what can't work.
    """

    def __init__(
        self,
        tape: Source,
        model: ChatModel | None = None,
        *,
        mode: Mode | None = None,
        match: Match = "request",
        name: str | None = None,
    ) -> None:
        self.mode: Mode = mode or ("auto" if model else "replay")
        self._model = model
        self._tape = Tape(tape, match)
        self._check(name)
        if self.mode == "record":
            self._tape.model = model.name if model else ""
        else:
            self._tape.load(model.name if model else name, errors=self.mode == "replay")
        self._native = self._tape.native
        self._lock = threading.Lock()
        self._counts = Counts()

    @property
    def name(self) -> str:
        """The real model's name, also when it is played."""
        return self._tape.model

    @property
    def supports_tools(self) -> bool:
        """Whether the real model takes native tools, or did when it was recorded."""
        return self._native if self._model is None or self.mode == "replay" else self._model.supports_tools

    @property
    def counts(self) -> Counts:
        """What was played and what was asked for so far."""
        return self._counts

    @property
    def torn(self) -> bool:
        """Whether the cassette's last line was found unfinished, and was ignored."""
        return self._tape.cassette is not None and self._tape.cassette.torn

    @metered
    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Play the recorded answer, or ask the real model and record its answer."""
        at = _place.get()
        compared = self.mode != "replay" or self._tape.has_requests
        request = request_of(self.name, messages, tools, schema, sampling) if compared else {}
        key = key_of(request)
        found = None if self.mode == "record" else self._tape.next(at, key)
        if found is not None:
            # As a real model would: cancellation and other tasks get their turn.
            await anyio.lowlevel.checkpoint()
            return self._played(found, key)
        if self._model is None or self.mode == "replay":
            raise UnknownRequestError(await anyio.to_thread.run_sync(self._tape.unknown, at, request))
        exchange = Exchange(self.name, Completion(""), request, at, self._model.supports_tools)
        started = time.monotonic()
        try:
            completion = await self._model.complete(messages, tools=tools, schema=schema, sampling=sampling)
        except ModelError as error:
            if self.mode == "record" and not isinstance(error, ModelAuthError):
                failed = recorded_error(error, native=self._model.supports_tools)
                await self._keep(replace(exchange, answer=failed, seconds=time.monotonic() - started))
            raise
        with self._lock:
            now = self._counts
            usage = now.asked_usage + completion.usage
            self._counts = replace(now, asked=now.asked + 1, asked_usage=usage)
        await self._keep(replace(exchange, answer=completion, seconds=time.monotonic() - started))
        return completion

    async def aclose(self) -> None:
        """Close the connections of the real model, where it has any."""
        close = getattr(self._model, "aclose", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _check(self, name: str | None) -> None:
        cassette, match = self._tape.cassette, self._tape.match
        for label, value, known in (("mode", self.mode, get_args(Mode)), ("match", match, get_args(Match))):
            if value not in known:
                raise ConfigurationError(f"{label} must be one of {', '.join(known)}, not {value!r}")
        if self._model is None and self.mode != "replay":
            raise ConfigurationError(f"mode={self.mode!r} needs the real model: pass model=")
        if self._model is not None and name is not None:
            raise ConfigurationError("name chooses among recorded models: pass it without a model")
        if self.mode != "replay" and cassette is None:
            raise ConfigurationError(f"mode={self.mode!r} needs the path of a cassette to write to")
        if self.mode == "replay" and cassette is not None and not cassette.path.exists():
            raise ConfigurationError(f"there is no cassette {cassette.path} to replay")

    def _played(self, take: Take, key: str) -> Completion:
        answer = take.answer
        usage = answer.usage if isinstance(answer, Completion) else NO_USAGE
        with self._lock:
            now = self._counts
            changed = now.changed + (take.key not in ("", key))
            self._counts = replace(
                now, played=now.played + 1, played_usage=now.played_usage + usage, changed=changed
            )
        if isinstance(answer, RecordedError):
            # A model may find out at its first call that its server has no tools.
            self._native = self._native and answer.native
            raise answer.raised()
        return answer

    async def _keep(self, exchange: Exchange) -> None:
        """Write down what was paid for, also when the caller is being cancelled."""
        cassette = self._tape.cassette
        assert cassette is not None  # noqa: S101 - checked when this was made
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(cassette.append, [replace(exchange, recorded=time.time())])
