"""The folder of a run: its configuration, logs and results, redacted, and readable while they grow.

``config.json``   configuration, versions, design (plan, tasks by digest); written once
``journal.jsonl`` every finished try in full, and every stored lesson: a killed run is resumed from it
``events.jsonl``  the events of the loops for each finished try, and of the run itself
``calls.jsonl``   exchanges with models (:meth:`RunLog.recorded`)
``rows.jsonl``    one row per try, for tables; written when the run ends for any reason
``results.json``  figures; written when the run is over
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio.to_thread
import filelock

from jeeves_reflexion.errors import ConfigurationError, ExperimentError
from jeeves_reflexion.experiments import journal
from jeeves_reflexion.experiments.journal import Line
from jeeves_reflexion.experiments.past import Past
from jeeves_reflexion.files import replace_file
from jeeves_reflexion.models.recorded import RecordedModel
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.redaction import redact_json
from jeeves_reflexion.types import JSON

FORMAT: Final = 2

T = TypeVar("T")

_OURS: Final = frozenset({"format", "python", "started", "versions", "design"})
_WRITTEN: Final = ("journal.jsonl", "rows.jsonl", "events.jsonl", "results.json")
_SHOWN: Final = 20

MAY_CHANGE: Final = frozenset({"workers", "max_cost_usd"})
"""Settings that change no result and may differ when a run is resumed."""


class RunLog:
    """The folder of one run. A lock keeps other processes out while one works in it.

    ``config`` is the configuration that the run was started with, once the log is open.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.rows = self.folder / "rows.jsonl"
        self.events = self.folder / "events.jsonl"
        # Absolute: results read it later, maybe from another working folder.
        self.journal = self.folder.absolute() / "journal.jsonl"
        self.calls = self.folder / "calls.jsonl"
        self.config: dict[str, Any] = {}
        self.resumed = False
        # Looked up now, because a store may be opened in the folder before the run is.
        self._had_lessons = self._has("lessons")
        self._lock = filelock.FileLock(self.folder / "run.lock", thread_local=False)

    @property
    def exists(self) -> bool:
        """Whether the folder holds a run. Raises :class:`ConfigurationError` if a part of the run is missing."""
        gone = [name for name in ("config.json", "journal.jsonl") if not (self.folder / name).exists()]
        filled = [name for name in ("config.json", *_WRITTEN) if self._has(name)]
        if not gone and "rows.jsonl" in filled and "journal.jsonl" not in filled:
            gone = ["the content of journal.jsonl"]
        # config.json is written last: if it is missing and the other files are empty, a start was killed.
        if "config.json" in gone and not filled and not self._had_lessons:
            return False
        if gone:
            raise ConfigurationError(
                f"{self.folder} has parts of a run, but {', '.join(gone)} is missing: tries would be made again with"
                " the lessons that they left. Restore it from a backup, or name another folder"
            )
        return True

    @property
    def id(self) -> str:
        """The id of the run once the log is open: twelve hexadecimal digits, which a resumed run keeps."""
        return hashlib.sha256(repr(self.config["started"]).encode()).hexdigest()[:12]

    def started_with(self, name: str, default: T) -> T:
        """Return a setting of the run in the folder, before the log is opened; else the default."""
        try:
            config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
            value = config.get(name, default)
        except (OSError, ValueError, AttributeError):
            return default  # open() reports what is wrong
        return value if isinstance(value, type(default)) else default

    async def open(self, config: Mapping[str, JSON], *, resume: bool = False) -> None:
        """Make the folder and write the configuration; with ``resume``, continue the run that it holds, if any.

        Raises :class:`ConfigurationError` if the folder holds a run already, is in use, or holds a run with another
        configuration (the message lists the differences); :class:`ExperimentError` if it can't be written.
        """
        await anyio.to_thread.run_sync(partial(self._open, _as_written(config), resume=resume))

    async def begin(self, design: Mapping[str, JSON], earlier: Mapping[str, JSON] | None = None) -> Past:
        """Write the design, or compare it with that of the resumed run; return what is done already.

        ``earlier`` is the same design as an earlier version wrote it.
        """
        if not self.config:
            raise ConfigurationError("open the run log before the experiment is run")
        return await anyio.to_thread.run_sync(
            self._begin, _as_written(design), _as_written(earlier or design)
        )

    async def tell(self, kind: str, row: Mapping[str, JSON]) -> None:
        """Append one event of the run itself."""
        event = {"kind": f"experiment.{kind}", "at": time.time(), **row}
        await anyio.to_thread.run_sync(partial(self._append, [event]))

    async def keep(
        self, row: Mapping[str, JSON], events: Sequence[Mapping[str, JSON]] = (), *, sync: bool = True
    ) -> Line:
        """Append events, then one line to the journal, and return its place; with ``sync`` it is on disk by then."""
        start = await anyio.to_thread.run_sync(partial(self._append, events, row, sync=sync))
        return Line(self.journal, start)

    async def save(self, name: str, text: str) -> None:
        """Write a text file in the folder, replacing an older one."""
        path = self.folder / name
        with _writing(path):
            await anyio.to_thread.run_sync(replace_file, path, text)

    async def save_rows(self, rows: Iterable[Mapping[str, JSON]]) -> None:
        """Write the rows, replacing older ones."""
        await self.save(self.rows.name, await anyio.to_thread.run_sync(journal.lines_of, rows))

    async def recorded(self, model: ChatModel) -> ChatModel:
        """Return a model that records its replies in the folder, so that a resumed run pays for none of them twice.

        A reply belongs to the try that asked for it: equal prompts of different tries have different replies.
        """
        return await anyio.to_thread.run_sync(partial(RecordedModel, self.calls, model, mode="auto"))

    def close(self) -> None:
        """Release the lock, so that other processes may use the folder."""
        self._lock.release(force=True)

    # -- in a worker thread

    def _open(self, asked: dict[str, Any], *, resume: bool) -> None:
        if self.exists and not resume:
            raise ConfigurationError(
                f"{self.folder} holds a run already: name another folder, or resume that run"
            )
        with _writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire(blocking=False)
            except filelock.Timeout as error:
                raise ConfigurationError(f"another process is using the run in {self.folder}") from error
            if self.exists:
                self._resume(asked)
                return
            self.journal.touch(mode=0o600)
            known = versions()
            self.config = {"format": FORMAT, "python": known["python"], "started": time.time()}
            self.config |= {"versions": known, **asked}
            self._write_config()

    def _resume(self, asked: Mapping[str, Any]) -> None:
        try:
            found = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
            if found["format"] != FORMAT:
                raise ValueError(f"it is of format {found['format']}, not {FORMAT}")
            if not isinstance(found["started"], int | float) or not isinstance(
                found.get("design"), dict | None
            ):
                raise TypeError("its start or its design is no such value")
        except (OSError, *journal.UNREADABLE) as error:
            self.close()
            raise ConfigurationError(
                f"{self.folder} holds no run that can be resumed (config.json: {error!r}): name another folder"
            ) from error
        self.config = found
        self._check_same({name: value for name, value in found.items() if name not in _OURS}, asked)
        self.resumed = True

    def _begin(self, asked: dict[str, Any], earlier: dict[str, Any]) -> Past:
        known = self.config.get("design")
        with _writing(self.folder):
            if known is None:
                self.config["design"] = asked
                self._write_config()
            elif differences(known, earlier):
                self._check_same(known, asked)
            past = Past(self.journal)
            if not self.resumed:
                return past
            for path in (self.journal, self.events):
                journal.mend(path)
        past.refresh()
        return past

    def _check_same(self, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        if found := differences(then, now):
            self.close()
            more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
            listed = "\n".join(f"  {line}" for line in [*found[:_SHOWN], *more])
            raise ConfigurationError(
                f"the run in {self.folder} was started with another configuration and can't be resumed with this one"
                f" (- then, + now):\n{listed}"
            )

    def _has(self, name: str) -> bool:
        path = self.folder / name
        return any(path.iterdir()) if path.is_dir() else path.exists() and path.stat().st_size > 0

    def _write_config(self) -> None:
        text = json.dumps(self.config, indent=2, ensure_ascii=False) + "\n"
        replace_file(self.folder / "config.json", text)

    def _append(
        self,
        events: Sequence[Mapping[str, JSON]],
        row: Mapping[str, JSON] | None = None,
        *,
        sync: bool = False,
    ) -> int:
        """Append events, then a row to the journal if there is one; return its place."""
        if events:
            with _writing(self.events):
                journal.append(self.events, events, sync=False)
        if row is None:
            return 0
        with _writing(self.journal):
            return journal.append(self.journal, [row], sync=sync)


def versions() -> dict[str, JSON]:
    """Return the versions of Python, of this package, and of those libraries it may use that are installed."""
    found: dict[str, JSON] = {"python": platform.python_version(), "platform": platform.platform()}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # run from its sources
        needed = importlib.metadata.requires("jeeves-reflexion") or ()
        names = {re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in needed}
        for name in ("jeeves-reflexion", "torch", *sorted(names)):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # an optional one
                found[name] = importlib.metadata.version(name)
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any], *, where: str = "") -> list[str]:
    """Return the differences between two configurations, one line per setting (``- old``, ``+ new``)."""
    lines = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before == after or (name in MAY_CHANGE and not where):  # deeper, it may be a task's id
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += differences(before, after, where=f"{where}{name}: ")
            continue
        texts = [json.dumps(x[name], ensure_ascii=False) if name in x else "(not set)" for x in (old, new)]
        then, now = (text if len(text) <= 200 else f"{text[:200]} ..." for text in texts)
        lines.append(f"{where}{name}: - {then}  + {now}")
    return lines


def _as_written(value: Mapping[str, JSON]) -> dict[str, Any]:
    """Return a value as it reads once it is written: without secrets, and with tuples as lists."""
    written: dict[str, Any] = json.loads(
        json.dumps(redact_json(dict(value)), ensure_ascii=False, default=str)
    )
    return written


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExperimentError(f"the run log can't be written to {path}: {error.strerror or error}") from error
