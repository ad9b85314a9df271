"""The run log: a folder with the configuration and one JSON line per try, redacted, readable as it grows."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, ExperimentError
from jeeves_reflexion.redaction import redact_json
from jeeves_reflexion.types import JSON

FORMAT = 1


class RunLog:
    """Writes ``config.json`` once and appends to ``rows.jsonl``, a whole line with each :meth:`write`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.rows = self.folder / "rows.jsonl"

    async def open(self, config: Mapping[str, JSON]) -> None:
        """Make the folder and write the configuration.

        Raises :class:`ConfigurationError` if it holds a run already, :class:`ExperimentError` if it can't be
        written.
        """
        await anyio.to_thread.run_sync(self._open, dict(config))

    async def write(self, kind: str, row: Mapping[str, JSON]) -> None:
        """Append one line."""
        line = json.dumps(redact_json({"kind": kind, "at": time.time(), **row}), ensure_ascii=False)
        await anyio.to_thread.run_sync(self._append, line)

    async def save(self, name: str, text: str) -> Path:
        """Write a text file beside the log and return its path."""
        path = self.folder / name
        await anyio.to_thread.run_sync(self._save, path, text)
        return path

    def _open(self, config: Mapping[str, JSON]) -> None:
        if self.rows.exists():
            raise ConfigurationError(f"{self.folder} holds a run already: name another folder")
        about: JSON = {
            "format": FORMAT,
            "python": platform.python_version(),
            "started": time.time(),
            **config,
        }
        text = json.dumps(redact_json(about), indent=2, ensure_ascii=False)
        with _written(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "config.json").write_text(text + "\n", encoding="utf-8")
            self.rows.touch()

    def _append(self, line: str) -> None:
        with _written(self.rows), self.rows.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _save(self, path: Path, text: str) -> None:
        with _written(path):
            path.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExperimentError(f"the run log can't be written to {path}: {error.strerror or error}") from error
