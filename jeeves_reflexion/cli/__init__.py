"""The command ``jeeves-reflexion``."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings

INTERRUPTED = 130


def main() -> None:
    """Run the command with the arguments of this process, and exit with its code."""
    try:
        # Imported here, so that an interrupt during the import ends quietly too.
        from jeeves_reflexion.cli.program import program  # noqa: PLC0415

        for stream in (sys.stdout, sys.stderr):
            # Escape characters that the terminal's encoding lacks, instead of failing.
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
    """Exit at once if a user's function still runs in a worker thread, for which Python would wait."""
    hung = any(thread.name.startswith("AnyIO worker") for thread in threading.enumerate())
    if not (hung and isinstance(ended, SystemExit)):
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
