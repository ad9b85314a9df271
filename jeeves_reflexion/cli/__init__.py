"""The command ``jeeves-reflexion``."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings

INTERRUPTED = 130


def main() -> None:
    """Run the command with the arguments of this process, and end the process with its exit code."""
    try:
        # Imported here, so that an interrupt in the meantime ends as quietly as one later.
        from jeeves_reflexion.cli.program import program  # noqa: PLC0415

        for stream in (sys.stdout, sys.stderr):
            # A character that the terminal's encoding doesn't have must not lose the rest of the text.
            with contextlib.suppress(AttributeError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
        try:
            program(prog_name="jeeves-reflexion")
        finally:
            _leave_threads_behind(sys.exception())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _leave_threads_behind(ended: BaseException | None) -> None:
    """End the process here where a function of a user's still runs in a worker thread: Python would wait for it."""
    hung = any(thread.name.startswith("AnyIO worker") for thread in threading.enumerate())
    if not (hung and isinstance(ended, SystemExit)):
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
