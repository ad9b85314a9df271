"""The two sides of a verdict, each in its own sandbox: one runs the candidate's code, the other judges it.

The text of this file runs in both, so it needs only the standard library: :class:`Candidate` with the candidate's code,
:func:`judge_hidden` and :func:`judge_own` with the tests. One line of JSON asks (load the program, call a function),
one line answers. Only data crosses: numbers, texts, lists, tuples, sets, dicts, ranges and bytes, of exactly these
classes. For any other value the judge has an :class:`Other`, which equals only itself.
"""

from __future__ import annotations

import builtins
import importlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

_READ, _WRITE = 6, 7
_LARGE: Final = 1 << 62


def source(call: str) -> str:
    """Return the program of one side: this file, and a call of one of its functions."""
    return f"{Path(__file__).read_text(encoding='utf-8')}\n{call}\n"


class Late(BaseException):
    """There was no value in time."""


class Broken(BaseException):
    """The candidate's process ended or stopped answering."""


class Other:
    """Stands for a value of the candidate that can't cross."""

    def __init__(self, shown: str, *, true: bool) -> None:
        self._shown = shown
        self._true = true

    def __bool__(self) -> bool:
        return self._true

    def __repr__(self) -> str:
        return self._shown


def encoded(value: Any) -> Any:  # noqa: ANN401
    """Return a value as JSON, with its class."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value) if -_LARGE < value < _LARGE else {"int": hex(value)}
    if isinstance(value, list):
        return [encoded(item) for item in value]
    for kind, parts in _PARTS.items():
        if isinstance(value, kind):
            return {kind.__name__: [encoded(part) for part in parts(value)]}
    try:
        return {"other": [repr(value)[:1000], bool(value)]}
    except Exception:  # noqa: BLE001  a class of the code's own
        return {"other": [f"<{type(value).__name__}>", True]}


def decoded(value: Any) -> Any:  # noqa: ANN401
    """Return the value of JSON from :func:`encoded`. Raises for other JSON, which a hostile candidate may send."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "other":
        return Other(str(inner[0]), true=bool(inner[1]))
    if kind == "int":
        return int(inner, 16)
    made = {one.__name__: one for one in _PARTS}[kind]
    parts = [decoded(part) for part in inner]
    return made(*parts) if made in {complex, range} else made(parts)


_PARTS: Final[Mapping[type, Callable[[Any], Any]]] = {
    tuple: list,
    set: list,
    frozenset: list,
    dict: lambda value: [list(pair) for pair in value.items()],
    bytes: list,
    complex: lambda value: [value.real, value.imag],
    range: lambda value: [value.start, value.stop, value.step],
}


def _send(message: object) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(_WRITE, data) :]


def _timed(seconds: float, call: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Call with a time limit (0: no limit). Raises :class:`Late`."""
    signal.signal(signal.SIGALRM, _raise_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _raise_late(*_: object) -> NoReturn:
    raise Late


class _Nowhere(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


def _silence() -> None:
    sys.stdout = sys.stderr = _Nowhere()
    sys.stdin = io.StringIO()


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  a class of the code's own
        return ""


class Candidate:
    """The candidate's side: does what the judge asks, each time within ``seconds`` (0: no limit)."""

    def __init__(self, program: str, seconds: float) -> None:
        self._program = program
        self._seconds = seconds
        self._names: dict[str, Any] = {}

    def serve(self) -> None:
        """Answer until the judge closes the channel."""
        _silence()
        with os.fdopen(_READ, encoding="utf-8") as lines:
            for line in lines:
                try:
                    answer = {"value": _timed(self._seconds, lambda: self._answer(**json.loads(line)))}  # noqa: B023
                except BaseException as error:  # noqa: BLE001  everything that code raises is an answer
                    answer = {"raised": [type(error).__name__, _text(error)[:1000]]}
                _send(answer)

    def _answer(self, call: str | None = None, args: object = (), named: object = None) -> Any:  # noqa: ANN401
        """Load the program, and call a function of it if ``args`` are given."""
        if not self._names:
            exec(compile(self._program, "<solution>", "exec", dont_inherit=True), self._names)  # noqa: S102
        if call not in self._names:
            raise NameError(f"name {call!r} is not defined")
        return None if args is None else encoded(self._names[call](*decoded(args), **decoded(named)))


class Channel:
    """Asks the candidate. Once this fails, it is ``broken``, and nothing passes, whatever a test does about it."""

    def __init__(self, entry_point: str) -> None:
        self.broken = False
        self._lines = os.fdopen(_READ, encoding="utf-8", errors="replace")
        self._entry_point = entry_point

    def load(self) -> Callable[..., Any]:
        """Load the program and return its function."""
        self._ask({"call": self._entry_point, "args": None})
        return self.function(self._entry_point)

    def function(self, name: str) -> Callable[..., Any]:
        """Return a proxy of a function. It raises what the function raises, :class:`Late` or :class:`Broken`."""
        return lambda *args, **named: self._ask(
            {"call": name, "args": encoded(list(args)), "named": encoded(named)}
        )

    def _ask(self, asked: dict[str, Any]) -> Any:  # noqa: ANN401
        if self.broken:
            raise Broken("the code's process did not answer before")
        # Stays so if the time ends during the wait: a late answer must not be taken for the next one.
        self.broken = True
        try:
            _send(asked)
            line = self._lines.readline()
        except BrokenPipeError:
            line = ""
        if not line.endswith("\n"):
            raise Broken("the code ended its process before it answered")
        self.broken = False
        answer = json.loads(line)
        if "raised" in answer:
            raise _error(*answer["raised"])
        return decoded(answer["value"])


def _error(name: str, said: str) -> BaseException:
    kind = Late if name == "Late" else getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        try:
            return kind(said)
        except TypeError:  # it takes more than a text
            pass
    return Exception(f"{name}: {said}")


def judge_hidden(tests: str, preamble: str, entry_point: str) -> dict[str, Any]:
    """Run hidden tests on the program; ``preamble`` is the problem's code before the function."""
    _silence()
    channel = Channel(entry_point)
    names: dict[str, Any] = {}
    try:
        exec(compile(preamble, "<prompt>", "exec", dont_inherit=True), names)  # noqa: S102
        names[entry_point] = channel.load()
        exec(compile(tests, "<tests>", "exec", dont_inherit=True), names)  # noqa: S102
    except BaseException as error:  # noqa: BLE001  everything that is raised is a failure
        return {"passed": False, "why": _why(error, tests)}
    return {"passed": not channel.broken, "why": "it stopped answering" if channel.broken else ""}


def _why(error: BaseException, tests: str) -> str:
    at, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<tests>":
            at = trace.tb_lineno
        trace = trace.tb_next
    lines = tests.splitlines()
    where = f" in: {lines[at - 1].strip()}" if 0 < at <= len(lines) else ""
    return f"{_named(error)}{where}"[:1000]


def _named(error: BaseException) -> str:
    if isinstance(error, Late):
        return "no value in time"
    said = _text(error)
    return (type(error).__name__ + (f": {said}" if said else "")).encode("utf-8", "replace").decode()


class Names(dict[str, Any]):
    """The names in own tests: a name of a module is the judge's module, any other is a function of the program."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def __missing__(self, name: str) -> Any:  # noqa: ANN401
        if hasattr(builtins, name):
            raise KeyError(name)
        known = name in sys.stdlib_module_names
        self[name] = importlib.import_module(name) if known else self._channel.function(name)
        return self[name]


def judge_own(
    tests: Sequence[Mapping[str, str]], entry_point: str, seconds: float, room: int
) -> dict[str, Any]:
    """Run own tests on a program. A call has ``seconds``; ``room`` limits the characters shown of a value."""
    _silence()
    channel = Channel(entry_point)
    names = Names(channel)
    try:
        names[entry_point] = channel.load()
    except Late:
        return {"problem": "it does not end when it is loaded", "outcomes": []}
    except BaseException as error:  # noqa: BLE001  everything that is raised is a problem
        return {"problem": _named(error)[:room], "outcomes": []}
    # The candidate's side limits a call; this limits the test around it.
    return {"problem": "", "outcomes": [_outcome(names, test, 2 * seconds, room) for test in tests]}


def _outcome(names: Names, test: Mapping[str, str], seconds: float, room: int) -> dict[str, Any]:
    try:
        _timed(seconds, lambda: exec(test["source"], names))  # noqa: S102
    except AssertionError:
        return {"passed": False, "got": _shown(lambda: repr(eval(test["actual"], names)), seconds, room)}  # noqa: S307
    except BaseException as error:  # noqa: BLE001  everything that is raised is a failure
        return {"passed": False, "got": _named(error)[:room]}
    return {"passed": True, "got": ""}


def _shown(make: Callable[[], str], seconds: float, room: int) -> str:
    try:
        said: str = _timed(seconds, make)
    except BaseException as error:  # noqa: BLE001
        said = _named(error)
    return said[:room].encode("utf-8", "replace").decode()
