"""How errors are reported: one line or one JSON object, and an exit code."""

from __future__ import annotations

import json
import re
import sys
import traceback
from typing import Final

import click

from jeeves_reflexion import errors
from jeeves_reflexion.cli import INTERRUPTED
from jeeves_reflexion.cli.options import remembered
from vectorstores import base

CAUGHT: Final = (errors.ReflexionError, base.VectorStoreError, KeyboardInterrupt, OSError)

_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (KeyboardInterrupt, INTERRUPTED),
    (errors.ConfigurationError, 3),
    (errors.MissingDependencyError, 3),
    (base.MissingDependencyError, 3),
    (errors.ModelAuthError, 3),
    (errors.SandboxUnavailableError, 3),
    (errors.ModelError, 4),
    (errors.UnreadableReplyError, 4),
    (errors.LessonStoreError, 5),
    (base.VectorStoreError, 5),
    (OSError, 3),
)


class Interrupted(KeyboardInterrupt):
    """The user interrupted a command; the message says what was kept."""


class UnusableEndpointError(errors.ConfigurationError):
    """An endpoint failed before its first answer. The report shows the cause, a ``ModelError``.

    It is a configuration error, because the loop does not retry those.
    """


def report(error: BaseException, ctx: click.Context) -> int:
    """Report an error, as JSON on stdout or as a line on stderr, and return the exit code."""
    from jeeves_reflexion.cli.screen import Screen  # noqa: PLC0415 - not for --help
    from jeeves_reflexion.redaction import redact  # noqa: PLC0415
    from jeeves_reflexion.text import visible  # noqa: PLC0415

    if remembered(ctx, "--debug"):
        sys.stderr.write(visible("".join(traceback.format_exception(error))))
    shown, cause = error, error.__cause__
    # A missing package is not an error of the store, and its message is complete.
    missing = isinstance(error, errors.LessonStoreError) and isinstance(cause, base.MissingDependencyError)
    if cause is not None and (missing or isinstance(error, UnusableEndpointError)):
        shown = cause
    kind, label, message = type(shown).__name__, "error", str(shown)
    # Errors of files and connections say which; an OSError without a file name is of standard output.
    of_stdout = (
        isinstance(shown, OSError) and shown.filename is None and not isinstance(shown, ConnectionError)
    )
    if isinstance(shown, KeyboardInterrupt):
        kind, label, message = "Interrupted", "interrupted", message or "the command was stopped"
    elif isinstance(shown, OSError):
        file = "standard output" if of_stdout else redact(str(shown.filename))
        message = f"{file:.200}: {shown.strerror}"
    message = re.sub(r"\[Errno \d+\] ", "", message) or kind
    if remembered(ctx, "--json") and not of_stdout:
        sys.stdout.write(json.dumps({"error": {"kind": kind, "message": message}}) + "\n")
    else:
        Screen().error(message, label=label)
    return exit_code(shown)


def exit_code(error: BaseException) -> int:
    """Return the exit code that stands for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), 1)
