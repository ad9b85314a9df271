"""The command ``jeeves-reflexion``."""

from __future__ import annotations

import contextlib
import sys
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
        program(prog_name="jeeves-reflexion")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
