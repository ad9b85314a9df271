"""Errors as a person or a program meets them: one line or one JSON object, and an exit code."""

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
    """The user stopped a command that has something to say about it."""


class UnusableEndpointError(errors.ConfigurationError):
    """An endpoint failed before it ever answered; its cause, a ``ModelError``, is what is reported.

    A configuration error, because that is what the loop takes as a reason not to try again.
    """


def report(error: BaseException, ctx: click.Context) -> int:
    """Tell the user of an error and return the exit code: JSON on stdout, else a line on stderr."""
    from jeeves_reflexion.cli.screen import Screen  # noqa: PLC0415 - not for --help
    from jeeves_reflexion.redaction import redact  # noqa: PLC0415
    from jeeves_reflexion.text import visible  # noqa: PLC0415

    if remembered(ctx, "--debug"):
        sys.stderr.write(visible("".join(traceback.format_exception(error))))
    shown = _cause(error)
    kind, label, message = type(shown).__name__, "error", str(shown)
    # Errors of files and of connections name what they are of; without a name it is standard output.
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


def _cause(error: BaseException) -> BaseException:
    """Look through errors that only carry another."""
    carried = error.__cause__
    if isinstance(error, UnusableEndpointError) and carried is not None:
        return carried
    # A package that is missing is no fault of the store, and its message says all there is to say.
    if isinstance(error, errors.LessonStoreError) and isinstance(carried, base.MissingDependencyError):
        return carried
    return error
