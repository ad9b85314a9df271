"""A model that records the calls of a real model and plays them back offline."""

from __future__ import annotations

import difflib
import json
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import anyio
import anyio.lowlevel
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, ModelAuthError, ModelError
from jeeves_reflexion.models.ask import metered
from jeeves_reflexion.models.cassette import (
    Cassette,
    Exchange,
    RecordedError,
    Request,
    key_of,
    recorded_error,
    request_of,
)
from jeeves_reflexion.models.scripted import ScriptedModel
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.protocols import ChatModel, Completion, Message
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import NO_USAGE, Usage
from jeeves_reflexion.values import check_choice

Mode: TypeAlias = Literal["record", "replay", "auto"]

_LINES: Final = 12
_WIDTH: Final = 160
_place: Final[ContextVar[str]] = ContextVar("jeeves_reflexion_recording_place", default="")


class UnknownRequestError(ConfigurationError):
    """A request is not in the recording; the message shows how the most similar recorded one differs."""


@contextmanager
def recording_at(place: str) -> Iterator[None]:
    """Record and play the exchanges within the block under the name of a place in the run.

    A place is any text that says where in an experiment a call is made, such as ``"reflexion/seed 0/task 7/trial 2"``.
    Equal requests at different places have their own completions, in whatever order they are made.
    """
    token = _place.set(redact(place))
    try:
        yield
    finally:
        _place.reset(token)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a :class:`RecordedModel` has done so far: exchanges played from the recording, and calls of the real model.

    ``asked_usage`` is the usage of the calls, ``played_usage`` that of the played exchanges when they were recorded.
    """

    played: int = 0
    asked: int = 0
    played_usage: Usage = NO_USAGE
    asked_usage: Usage = NO_USAGE


class RecordedModel(WrappedModel):
    """Records every exchange of a real model, and replays it offline.

    ``tape`` is the path of a cassette. ``mode`` is

    - ``"record"``: asks the real ``model`` each time and appends the answer or the error;
    - ``"replay"`` (the default without a model): plays the recording and asks nobody. A recorded error is raised again;
    - ``"auto"`` (the default with a model): plays what is recorded and asks for the rest, so that no answer is paid for
      twice. Failed calls are neither recorded nor played: they are made again.

    It plays what was recorded for the same request (messages, tools, schema, sampling, and the name of the model) at
    the same place (:func:`recording_at`); its n-th call gets the n-th answer. A request that was not recorded, or not
    this often, raises :class:`UnknownRequestError`, which ends a run.

    Secrets never reach the file: requests are compared, and completions are played, without them. A refused key
    (:class:`~jeeves_reflexion.errors.ModelAuthError`) is never recorded. ``name`` chooses among the models of a
    recording if ``model`` is not given. The file is read once, at construction: what other processes append later is
    not played. Raises :class:`~jeeves_reflexion.errors.ConfigurationError` for settings that can't work.
    """

    def __init__(
        self,
        tape: str | os.PathLike[str],
        model: ChatModel | None = None,
        *,
        mode: Mode | None = None,
        name: str | None = None,
    ) -> None:
        self.mode: Mode = mode or ("auto" if model else "replay")
        check_choice("mode", self.mode, Mode)
        self._cassette = Cassette(tape)
        self._tape = f"the cassette {self._cassette.path}"
        if model is None and self.mode != "replay":
            raise ConfigurationError(f"mode={self.mode!r} needs the real model: pass model=")
        if model is not None and name is not None:
            raise ConfigurationError("name chooses among recorded models: pass it without a model")
        if self.mode == "replay" and not self._cassette.path.exists():
            raise ConfigurationError(f"there is no cassette {self._cassette.path} to replay")

        # Without the requests, which are most of a recording: they are read again to explain an unknown one.
        self._answers: defaultdict[tuple[str, str], deque[Completion | RecordedError]] = defaultdict(deque)
        self._lock = threading.Lock()
        self._counts = Counts()
        self._native = False
        name = model.name if model else name
        if self.mode != "record":
            name = self._load(name)
        # A recording that is only played needs no more of a model than its name: nothing asks it.
        super().__init__(ScriptedModel((), name=name or "") if model is None else model)

    @property
    def supports_tools(self) -> bool:
        """Whether the real model takes native tools, or took them when it was recorded."""
        return self._native if self.mode == "replay" else self._model.supports_tools

    @property
    def counts(self) -> Counts:
        """What was played and what was asked so far."""
        return self._counts

    @metered
    async def complete(self, /, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - of ``ChatModel``
        """Play the recorded answer, or ask the real model and record its answer."""
        at = _place.get()
        request = request_of(self.name, messages, **settings)
        with self._lock:
            answers = self._answers.get((at, key_of(request)))
            found = answers.popleft() if answers else None
        if found is not None:
            # Like a real call, this one lets cancellation and other tasks have their turn.
            await anyio.lowlevel.checkpoint()
            used = found.usage if isinstance(found, Completion) else NO_USAGE
            with self._lock:
                now = self._counts
                self._counts = replace(now, played=now.played + 1, played_usage=now.played_usage + used)
            if isinstance(found, RecordedError):
                # A model may learn from its first call that its server has no tools.
                self._native = self._native and found.native
                raise found.raised()
            return found
        if self.mode == "replay":
            raise UnknownRequestError(await anyio.to_thread.run_sync(self._unknown, at, request))
        exchange = Exchange(self.name, Completion(""), request, at, self._model.supports_tools)
        started = time.monotonic()
        try:
            completion = await self._model.complete(messages, **settings)
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

    def _load(self, name: str | None) -> str:
        """Read the exchanges of a model, by default of the only one, and return its name.

        Failures count for a replay only.
        """
        native: dict[str, bool] = {}
        replays = self.mode == "replay"
        for exchange in self._cassette.exchanges():
            native.setdefault(exchange.model, exchange.native)
            if name in (None, exchange.model) and (replays or isinstance(exchange.answer, Completion)):
                if exchange.request is None:
                    raise ConfigurationError(
                        f"{self._tape} holds answers without their requests: give a ScriptedModel the answers"
                    )
                self._answers[exchange.at, key_of(exchange.request)].append(exchange.answer)
        known = ", ".join(sorted(native)) or "it is empty"
        if name is None and len(native) != 1:
            problem = f"has models {known}: choose one by name=" if native else "is empty"
            raise ConfigurationError(f"{self._tape} {problem}")
        if replays and name is not None and name not in native:
            raise ConfigurationError(f"{self._tape} has no model {name!r}: {known}")
        name = next(iter(native)) if name is None else name
        self._native = native.get(name, False)
        return name

    async def _keep(self, exchange: Exchange) -> None:
        """Record an exchange even if the caller is being cancelled, since it was paid for."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._cassette.append, [replace(exchange, recorded=time.time())])

    def _unknown(self, at: str, request: Request) -> str:
        """Say that a request has no answer (any more), and which recorded request is most similar."""
        here = f"at {at!r}" if at else "without a place"
        recorded = [each for each in self._cassette.exchanges() if each.model == self.name]
        if not recorded:
            return f"{self._tape} has no request of {self.name!r}"
        asked, key = _lines(request), key_of(request)
        equal = [each.at for each in recorded if key_of(each.request or {}) == key]
        if equal:
            times, elsewhere = equal.count(at), sorted({place for place in equal if place != at})
            also = f", and at {', '.join(map(repr, elsewhere[:3]))}" if elsewhere else ""
            return f"{self._tape} has this request {here} only {times} times{also}. It ends with:\n{asked[-1][-200:]}"
        words = set(asked)
        near = max(recorded, key=lambda each: len(words.intersection(_lines(each.request or {}))))
        there = f"at {near.at!r}" if near.at else "without a place"
        compared = [*difflib.unified_diff(_lines(near.request or {}), asked, n=0, lineterm="")][2:]
        lines = [f"{line[0]} {line[1:]}" for line in compared if line[0] in "-+"]
        more = [f"... and {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
        shown = "\n".join((*lines[:_LINES], *more))
        return f"{self._tape} has no such request {here}. The nearest, {there}, differs (- recorded, + asked):\n{shown}"


def _lines(request: Mapping[str, Any]) -> list[str]:
    """Return a request as lines to read: its settings, then its messages, with long lines split."""
    settings = {name: value for name, value in request.items() if name != "messages"}
    texts = [json.dumps(settings, ensure_ascii=False, sort_keys=True)]
    for message in request.get("messages", ()):
        rest = {name: value for name, value in message.items() if name != "content"}
        texts += [json.dumps(rest, ensure_ascii=False, sort_keys=True), *str(message["content"]).split("\n")]
    return [text[at : at + _WIDTH] for text in texts for at in range(0, max(len(text), 1), _WIDTH)]
