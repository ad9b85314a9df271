"""Recorded exchanges with a model, kept as lines of a JSON-lines file.

One line is one exchange::

    {"cassette": 1, "at": "", "model": "gpt-4o-mini", "native": true, "request": {...}, "answer": {...}, ...}

``answer`` is a completion or, if the call failed, an error. Secrets are removed before a line is written, and requests
are compared in that form. A writer appends whole lines under a lock and syncs them. If a killed writer left its last
line unfinished, readers ignore it with a warning, and the next writer removes it.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import filelock
import pydantic

from jeeves_reflexion import errors
from jeeves_reflexion.errors import ConfigurationError, ModelError, ModelResponseError
from jeeves_reflexion.files import sync_folder
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.redaction import redact, redact_json
from jeeves_reflexion.session import logger
from jeeves_reflexion.types import JSON

FORMAT: Final = 1
LOCK_SECONDS: Final = 10.0

Request: TypeAlias = Mapping[str, Any]
"""What a model was asked, as JSON and without secrets: ``model``, ``messages``, ``tools``, ``schema``, ``sampling``."""

ErrorName: TypeAlias = Literal[
    "ModelRequestError", "ModelResponseError", "ModelTimeoutError", "ModelConnectionError", "ModelError"
]
"""The most general one comes last: an error is recorded under the first name that fits."""
_ERRORS: Final[Mapping[ErrorName, type[ModelError]]] = {
    name: getattr(errors, name) for name in get_args(ErrorName)
}


@dataclass(frozen=True, slots=True)
class RecordedError:
    """A failed call: the error's class and message, and whether the model offered native tools afterwards."""

    error: ErrorName
    message: str
    status: int | None = None
    said: str = ""
    native: bool = False
    code: str = ""

    def raised(self) -> ModelError:
        """Return the error to raise."""
        kind = _ERRORS[self.error]
        if issubclass(kind, ModelResponseError):
            return kind(self.message, status=self.status, said=self.said, code=self.code)
        return kind(self.message)


def recorded_error(error: ModelError, *, native: bool) -> RecordedError:
    """Return the record of an error; a user's own subclass is recorded as the class of ours that it extends."""
    name = next(name for name, kind in _ERRORS.items() if isinstance(error, kind))
    if isinstance(error, ModelResponseError):
        return RecordedError(name, str(error), error.status, error.said, native, error.code)
    return RecordedError(name, str(error), native=native)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call of a model and its answer.

    ``at`` names the place in the run where the call was made, if it has a name. ``native`` says whether the model
    offered native tools. ``request`` is None if it is unknown, as in imported logs, which are played by position.
    ``seconds`` is the duration of the call, ``recorded`` the time when it ended (seconds since 1970).
    """

    model: str
    answer: Completion | RecordedError
    request: dict[str, Any] | None = None
    at: str = ""
    native: bool = False
    seconds: float = 0.0
    recorded: float = 0.0


_UNSET: Final[tuple[JSON, ...]] = (None, (), {})


def request_of(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec] = (),
    schema: Mapping[str, JSON] | None = None,
    sampling: Sampling | None = None,
) -> dict[str, Any]:
    """Return a request as it is recorded and compared: as JSON, without secrets and without settings left unset."""
    settings = asdict(sampling or Sampling()).items()
    asked: dict[str, JSON] = {
        "model": model,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in tools
        ],
        "schema": schema,
        "sampling": {name: value for name, value in settings if value not in _UNSET},
    }
    kept = cast("dict[str, Any]", redact_json({name: value for name, value in asked.items() if value}))
    return {**kept, "messages": [_recorded(message) for message in messages]}


@functools.lru_cache(maxsize=512)
def _recorded(message: Message) -> JSON:
    """Cached, because every turn sends the whole conversation again."""
    return _clean({name: value for name, value in asdict(message).items() if value not in _UNSET})


_SEALED: Final = frozenset(
    {
        "signature",
        "thought_signature",
        "thoughtSignature",
        "encrypted_content",
        "data",
        "id",
        "call_id",
        "tool_call_id",
    }
)
_SEAL: Final = re.compile(r"[A-Za-z0-9+/_=-]+")
_MARK: Final = re.compile(r"\[REDACTED:(\w+)\]")


def _clean(value: JSON, name: str = "") -> JSON:
    """Return a message or an answer without secrets, but with the ids and signatures that its provider needs back.

    These are one word of base64 under a name that providers use: they look random but are not secret. A known kind of
    secret is removed from them all the same.
    """
    if isinstance(value, Mapping):
        return {redact(key): _clean(item, key) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_clean(item, name) for item in value]
    if not isinstance(value, str):
        return value
    (text,) = cast("dict[str, str]", redact_json({name: value})).values()
    sealed = name in _SEALED and _SEAL.fullmatch(value)
    return value if sealed and set(_MARK.findall(text)) == {"high_entropy"} else text


def key_of(request: Request) -> str:
    """Return a digest of a request as it is recorded; equal requests have equal digests."""
    text = json.dumps(request, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def to_line(exchange: Exchange) -> bytes:
    """Return the line of an exchange, without secrets; what UTF-8 can't encode (a lone surrogate) becomes "?"."""
    # The request, the longest part, is already without secrets.
    rest = _clean({"cassette": FORMAT, **asdict(replace(exchange, request=None))})
    line = json.dumps({**cast("dict[str, JSON]", rest), "request": exchange.request}, ensure_ascii=False)
    return line.encode("utf-8", "replace") + b"\n"


def from_line(line: bytes) -> Exchange:
    """Return the exchange of a line. Raises ``ValueError`` that says what is wrong with the line."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    version = data.pop("cassette", None) if isinstance(data, dict) else None
    if version is None:
        raise ValueError('it is not a recorded exchange: it has no "cassette" with the version of its format')
    if version != FORMAT or version is True:
        raise ValueError(f"it has format {version!r}, and this version reads format {FORMAT}")
    try:
        return _reader().validate_python(data)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}") from error


@functools.cache
def _reader() -> pydantic.TypeAdapter[Exchange]:
    # Named at the top of the module, the class alone would load most of pydantic with it.
    return pydantic.TypeAdapter(Exchange)


class Cassette:
    """A file of exchanges. Any number of tasks and processes on one machine may append to it.

    Reading and writing block: call them in a worker thread. Both raise
    :class:`~jeeves_reflexion.errors.ConfigurationError` for a file that can't be used.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def exchanges(self) -> Iterator[Exchange]:
        """Yield the exchanges in the order in which they were recorded; none if the file does not exist."""
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if not line.strip():
                        continue
                    try:
                        exchange = from_line(line)
                    except ValueError as error:
                        if line.endswith(b"\n"):
                            raise ConfigurationError(
                                f"the cassette {self.path} can't be read: line {number}: {error}"
                            ) from error
                        logger.warning(
                            "the cassette %s: its last line, %d, is unfinished (its writer was stopped) and ignored",
                            self.path,
                            number,
                        )
                        return
                    yield exchange
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigurationError(f"the cassette {self.path} can't be read: {error}") from error

    def append(self, exchanges: Iterable[Exchange]) -> None:
        """Append exchanges, all or none. They are on disk when this returns."""
        data = b"".join(map(to_line, exchanges))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_name(f"{self.path.name}.lock")
            with filelock.FileLock(lock, timeout=LOCK_SECONDS):
                new = not self.path.exists()
                with open(
                    self.path, "a+b", buffering=0, opener=functools.partial(os.open, mode=0o600)
                ) as file:
                    _append(file, data)
                if new:
                    sync_folder(self.path.parent)
        except (OSError, filelock.Timeout) as error:
            raise ConfigurationError(
                f"the cassette {self.path} can't be written, and an answer is not recorded: {error}"
            ) from error


def _append(file: io.FileIO, data: bytes) -> None:
    """Write whole lines after the last whole line, or nothing."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if size and file.readall() != b"\n":
        file.seek(0)
        tail = file.readall().rpartition(b"\n")[2]
        try:
            from_line(tail)
            data = b"\n" + data
        except ValueError:
            size -= len(tail)
            file.truncate(size)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except BaseException:
        file.truncate(size)
        raise
