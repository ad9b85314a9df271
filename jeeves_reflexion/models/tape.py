"""What a recording has to play: its exchanges, sorted by what they will be asked for, each played once and in order.

For a request that is not among them, a message says which recorded one comes nearest, and where the two differ.
"""

from __future__ import annotations

import difflib
import itertools
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models.cassette import Cassette, Exchange, RecordedError, Request, key_of
from jeeves_reflexion.protocols import Completion

Match: TypeAlias = Literal["request", "position"]
Source: TypeAlias = str | os.PathLike[str] | Sequence[Exchange]

_LINES: Final = 12
_WIDTH: Final = 160
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Take:
    """What is kept in memory of an exchange; ``key`` is empty where its request was never known."""

    answer: Completion | RecordedError
    key: str


class Tape:
    """The exchanges of one model in a recording.

    Requests are most of a cassette, and are read again where one is unknown. Takes are handed out under a lock, each
    once, to whichever thread comes first.
    """

    def __init__(self, source: Source, match: Match) -> None:
        given = isinstance(source, Sequence) and not isinstance(source, str)
        self.cassette = None if given else Cassette(source)  # type: ignore[arg-type] # mypy keeps no negation
        self.match: Match = match
        self.model = ""
        self.native = False
        self.has_requests = False
        self._given: Sequence[Exchange] = source if given else ()  # type: ignore[assignment] # as above
        self._takes: dict[tuple[str, str], list[Take]] = {}
        self._turns: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"the cassette {self.cassette.path}" if self.cassette else "the recording"

    def load(self, model: str | None, *, errors: bool) -> None:
        """Read the exchanges of a model, by default the only one that there is; with ``errors`` also its failures."""
        native: dict[str, bool] = {}
        for exchange in self._exchanges():
            native.setdefault(exchange.model, exchange.native)
            if model not in (None, exchange.model) or (
                isinstance(exchange.answer, RecordedError) and not errors
            ):
                continue
            key = "" if exchange.request is None else key_of(exchange.request)
            self.has_requests |= bool(key)
            if not key and self.match == "request":
                raise ConfigurationError(
                    f"{self} holds answers without their requests: play it with match='position'"
                )
            self._takes.setdefault(self._track(exchange.at, key), []).append(Take(exchange.answer, key))
        if model is None and len(native) != 1:
            said = f"has models {', '.join(sorted(native))}: choose one by name=" if native else "is empty"
            raise ConfigurationError(f"{self} {said}")
        self.model = next(iter(native)) if model is None else model
        if errors and self.model not in native:
            raise ConfigurationError(
                f"{self} has no model {model!r}: {', '.join(sorted(native)) or 'it is empty'}"
            )
        self.native = native.get(self.model, False)

    def next(self, at: str, key: str) -> Take | None:
        """Return what comes next for a request at a place, or None where there is no more."""
        track = self._track(at, key)
        with self._lock:
            turn = self._turns.get(track, 0)
            self._turns[track] = turn + 1
        takes = self._takes.get(track, ())
        return takes[turn] if turn < len(takes) else None

    def unknown(self, at: str, request: Mapping[str, Any]) -> str:
        """Say that a request has no answer (any more), and which recorded request comes nearest to it."""
        here = f" at {at!r}" if at else ""
        key = key_of(request)
        times = len(self._takes.get(self._track(at, key), ()))
        if self.match == "position":
            return f"{self} has {times} exchanges{here}, and one more was asked for"
        if times:
            return f"{self} has this request{here} only {times} times. It ends with:\n{_end(request)}"
        near = nearest(request, (each for each in self._exchanges() if each.model == self.model))
        if near is None or near.request is None:
            return f"{self} has no request of {self.model!r}. This one{here} ends with:\n{_end(request)}"
        there = f"at {near.at!r}" if near.at else "without a place"
        if key_of(near.request) == key:
            asked = here or " without a place"
            return f"{self} has this request {there}, and not{asked}. It ends with:\n{_end(request)}"
        shown = difference(near.request, request)
        return (
            f"{self} has no such request{here}. The nearest, {there}, differs (- recorded, + asked):\n{shown}"
        )

    def _exchanges(self) -> Iterable[Exchange]:
        return self._given if self.cassette is None else self.cassette.exchanges()

    def _track(self, at: str, key: str) -> tuple[str, str]:
        return (at, "") if self.match == "position" else (at, key)


def _end(request: Mapping[str, Any]) -> str:
    messages = request.get("messages") or [{}]
    return str(messages[-1].get("content", ""))[-200:]


def nearest(asked: Request, exchanges: Iterable[Exchange]) -> Exchange | None:
    """Return the recorded exchange whose request has most words in common with ``asked``; the first of equals."""
    words = _words(asked)
    best: tuple[float, Exchange] | None = None
    for exchange in exchanges:
        if exchange.request is None:
            continue
        other = _words(exchange.request)
        share = 2 * (words & other).total() / max(words.total() + other.total(), 1)
        if best is None or share > best[0]:
            best = share, exchange
    return best[1] if best else None


def difference(recorded: Request, asked: Request) -> str:
    """Return the lines that differ, 12 of them at most."""
    compared = difflib.unified_diff(_as_lines(recorded), _as_lines(asked), n=0, lineterm="")
    lines = [f"{line[0]} {line[1:]}" for line in itertools.islice(compared, 2, None) if line[0] in "-+"]
    more = len(lines) - _LINES
    return "\n".join([*lines[:_LINES], *([f"... and {more} more lines"] if more > 0 else [])])


def _words(request: Request) -> Counter[str]:
    return Counter(_WORD.findall("\n".join(_as_lines(request))))


def _as_lines(request: Request) -> list[str]:
    """A request as a person reads it: a line for each setting, then the messages line by line, long ones in parts."""
    texts = [f"{name}: {_shown(value)}" for name, value in sorted(request.items()) if name != "messages"]
    for number, message in enumerate(request.get("messages", ()), 1):
        label = f"[{number} {message.get('role', '?')}]"
        for line in str(message.get("content", "")).split("\n"):
            parts = range(0, max(len(line), 1), _WIDTH)
            texts += [f"{label} {line[start : start + _WIDTH]}" for start in parts]
        rest = {name: value for name, value in sorted(message.items()) if name not in {"role", "content"}}
        texts += [f"{label} {name}: {_shown(value)}" for name, value in rest.items()]
    return texts


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
