"""The two sides of a verdict, each in a sandbox of its own: there the candidate's code is called, here it is judged.

This file's text is what runs in both (standard library alone): :class:`Candidate` with the candidate's code,
:func:`judge_hidden` and :class:`OwnJudge` with the tests. A line of JSON asks (load a program, look up a name, call,
get or set an attribute), a line answers. What crosses is data: numbers, texts, lists, tuples, sets, dicts, ranges and
bytes, of exactly these classes. Any other value stays where it is; the judge has a :class:`Foreign` for it, which is
equal to nothing but itself.
"""

from __future__ import annotations

import builtins
import importlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

_READ, _WRITE = 6, 7
_LARGE: Final = 1 << 62


def source(call: str) -> str:
    """Return the program that runs one side: this file, and a call of one of its functions."""
    return f"{Path(__file__).read_text(encoding='utf-8')}\n{call}\n"


class Late(BaseException):
    """No value in time."""


class Broken(BaseException):
    """The candidate's process ended, or was given up since it did not answer."""


class Foreign:
    """A value that stays in the candidate's process."""

    def __init__(self, channel: Channel, number: int, shown: str, true: bool) -> None:  # noqa: FBT001
        vars(self).update(_channel=channel, _number=number, _shown=shown, _true=true)

    def __call__(self, *args: object, **named: object) -> Any:  # noqa: ANN401, D102
        return self._channel.ask("call", of=self, args=list(args), named=named)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return self._channel.ask("get", of=self, name=name)

    def __setattr__(self, name: str, value: object) -> None:
        self._channel.ask("set", of=self, name=name, value=value)

    def _special(self, name: str) -> Any:  # noqa: ANN401
        try:
            return self.__getattr__(name)
        except AttributeError:
            raise TypeError(
                f"{self!r} has no {name}"
            ) from None  # as Python says it of what an operation needs

    def __iter__(self) -> Iterator[Any]:
        items = self._special("__iter__")()
        while True:
            try:
                yield items.__getattr__("__next__")()
            except StopIteration:
                return

    def __len__(self) -> int:
        return int(self._special("__len__")())

    def __getitem__(self, key: object) -> Any:  # noqa: ANN401
        return self._special("__getitem__")(key)

    def __bool__(self) -> bool:
        return bool(self._true)

    def __repr__(self) -> str:
        return str(self._shown)


def encoded(value: Any, foreign: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    """Return a value as JSON that says its class; ``foreign`` gives what stands for one of another class."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value) if -_LARGE < value < _LARGE else {"int": hex(value)}
    if isinstance(value, list):
        return [encoded(item, foreign) for item in value]
    for kind, parts in _PARTS.items():
        if isinstance(value, kind):
            return {kind.__name__: [encoded(part, foreign) for part in parts(value)]}
    return {"foreign": foreign(value)}


def decoded(value: Any, foreign: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    """Return the value that JSON of :func:`encoded` stands for. Raises where it is none: it may come from anybody."""
    if isinstance(value, list):
        return [decoded(item, foreign) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "foreign":
        return foreign(inner)
    if kind == "int":
        return int(inner, 16)
    made = {one.__name__: one for one in _PARTS}[kind]
    parts = [decoded(part, foreign) for part in inner]
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
    """Call within a time; 0 is no limit. Raises :class:`Late`."""
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
    """The side of the candidate: does what the judge asks, each within ``seconds`` (0: no limit)."""

    def __init__(self, program: str, seconds: float) -> None:
        self._program = program
        self._seconds = seconds
        self._names: dict[str, Any] = {}
        self._kept: list[Any] = []

    def serve(self) -> None:
        """Answer until the judge closes the channel."""
        _silence()
        with os.fdopen(_READ, encoding="utf-8") as lines:
            for line in lines:
                try:
                    answer = {"value": _timed(self._seconds, lambda: self._answer(json.loads(line)))}  # noqa: B023
                except BaseException as error:  # noqa: BLE001  everything that code raises is an answer
                    answer = {"raised": [type(error).__name__, _text(error)[:1000]]}
                _send(answer)

    def _answer(self, asked: dict[str, Any]) -> Any:  # noqa: ANN401
        do = getattr(self, asked.pop("do"))
        for part in asked.keys() & {"value", "of", "args", "named"}:
            asked[part] = decoded(asked[part], self._kept.__getitem__)
        return encoded(do(**asked), self._keep)

    def _keep(self, value: object) -> list[Any]:
        self._kept.append(value)
        try:
            return [len(self._kept) - 1, repr(value)[:1000], bool(value)]
        except Exception:  # noqa: BLE001  a class of the code's own
            return [len(self._kept) - 1, f"<{type(value).__name__}>", True]

    def load(self) -> None:
        """Run the program."""
        exec(compile(self._program, "<solution>", "exec", dont_inherit=True), self._names)  # noqa: S102

    def name(self, name: str) -> object:
        """Return what a name of the program stands for."""
        if name not in self._names:
            raise NameError(f"name {name!r} is not defined")
        return self._names[name]

    def call(self, of: Callable[..., object], args: list[Any], named: dict[str, Any]) -> object:
        """Call a value."""
        return of(*args, **named)

    def get(self, of: object, name: str) -> object:
        """Return an attribute of a value."""
        return getattr(of, name)

    def set(self, of: object, name: str, value: object) -> None:
        """Set an attribute of a value."""
        setattr(of, name, value)


class Channel:
    """Asks the candidate. ``broken`` once it can't any more: then nothing passes, whatever a test makes of that."""

    def __init__(self) -> None:
        self.broken = False
        self._lines = os.fdopen(_READ, encoding="utf-8", errors="replace")

    def ask(self, do: str, **asked: Any) -> Any:  # noqa: ANN401
        """Return the answer. Raises what the candidate raised, :class:`Late` or :class:`Broken`."""
        if self.broken:
            raise Broken("the code's process did not answer before")
        for part in asked.keys() & {"value", "of", "args", "named"}:
            asked[part] = encoded(asked[part], _number)
        self.broken = (
            True  # also when the time ends while this waits: a late answer must not be taken for the next
        )
        try:
            _send({"do": do, **asked})
            line = self._lines.readline()
        except BrokenPipeError:
            line = ""
        if not line.endswith("\n"):
            raise Broken("the code ended its process before it answered")
        self.broken = False
        answer = json.loads(line)
        if "raised" in answer:
            raise _error(*answer["raised"])
        return decoded(answer["value"], lambda told: Foreign(self, *told))


def _number(value: object) -> int:
    if type(value) is not Foreign:
        raise TypeError(f"a {type(value).__name__} can't be handed to the candidate's process")
    return int(vars(value)["_number"])


def _error(name: str, said: str) -> BaseException:
    kind = Late if name == "Late" else getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        try:
            return kind(said)
        except TypeError:  # it takes more than a text
            pass
    return Exception(f"{name}: {said}")


class Names(dict[str, Any]):
    """The names of tests. What they, Python and the problem lack is the candidate's; a module is the judge's own."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def __missing__(self, name: str) -> Any:  # noqa: ANN401
        if hasattr(builtins, name):
            raise KeyError(name)
        value = self._channel.ask("name", name=name)
        self[name] = importlib.import_module(name) if name in sys.stdlib_module_names else value
        return self[name]


def judge_hidden(tests: str, preamble: str, entry_point: str) -> dict[str, Any]:
    """Run hidden tests on the one program; ``preamble`` is what the problem has before its function."""
    _silence()
    channel = Channel()
    names = Names(channel)
    try:
        exec(compile(preamble, "<prompt>", "exec", dont_inherit=True), names)  # noqa: S102
        channel.ask("load")
        names[entry_point] = channel.ask("name", name=entry_point)
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


class OwnJudge:
    """Runs a problem's own tests on a program. A call has ``seconds``; ``room`` is how much is shown of a value."""

    def __init__(
        self, tests: Sequence[Mapping[str, str]], entry_point: str, seconds: float, room: int
    ) -> None:
        _silence()
        self._tests = tests
        self._entry_point = entry_point
        self._seconds = (
            2 * seconds
        )  # the candidate's side has the limit for a call: here it bounds what a test does
        self._room = room
        self._channel = Channel()

    def check(self) -> dict[str, Any]:
        """Return what the tests say of the program."""
        names = Names(self._channel)
        try:
            self._channel.ask("load")
            names[self._entry_point] = self._channel.ask("name", name=self._entry_point)
        except Late:
            return {"problem": "it does not end when it is loaded", "outcomes": []}
        except BaseException as error:  # noqa: BLE001  everything that is raised is a problem
            return {"problem": _named(error)[: self._room], "outcomes": []}
        return {"problem": "", "outcomes": [self._outcome(names, test) for test in self._tests]}

    def _outcome(self, names: Names, test: Mapping[str, str]) -> dict[str, Any]:
        try:
            _timed(self._seconds, lambda: exec(test["source"], names))  # noqa: S102
        except AssertionError:
            return {"passed": False, "got": self._shown(lambda: repr(eval(test["actual"], names)))}  # noqa: S307
        except BaseException as error:  # noqa: BLE001  everything that is raised is a failure
            return {"passed": False, "got": _named(error)[: self._room]}
        return {"passed": True, "got": ""}

    def _shown(self, make: Callable[[], str]) -> str:
        try:
            said: str = _timed(self._seconds, make)
        except BaseException as error:  # noqa: BLE001
            said = _named(error)
        return said[: self._room].encode("utf-8", "replace").decode()
