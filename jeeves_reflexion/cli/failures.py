"""Errors as a person or a program meets them: one line or one JSON object, and an exit code."""

from __future__ import annotations

import json
import re
import sys
import traceback
from typing import Final

from jeeves_reflexion import errors
from jeeves_reflexion.cli import INTERRUPTED
from vectorstores import base

CAUGHT: Final = (errors.ReflexionError, base.VectorStoreError, KeyboardInterrupt)

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


def report(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Tell the user of an error and return the exit code: JSON on stdout, else a line on stderr."""
    from jeeves_reflexion.cli.screen import Screen  # noqa: PLC0415 - not for --help

    shown = _cause(error)
    screen = Screen()
    if debug:
        screen.raw_note("".join(traceback.format_exception(error)))
    stopped = isinstance(shown, KeyboardInterrupt)
    name = "Interrupted" if stopped else type(shown).__name__
    message = _of_file(shown) if isinstance(shown, OSError) else str(shown)
    message = re.sub(r"\[Errno \d+\] ", "", message) or ("the command was stopped" if stopped else name)
    if as_json and not _is_of_stdout(shown):
        sys.stdout.write(json.dumps({"error": {"kind": name, "message": message}}) + "\n")
    else:
        screen.error(message, label="interrupted" if stopped else "error")
    return exit_code(shown)


def _of_file(error: OSError) -> str:
    from jeeves_reflexion.redaction import redact  # noqa: PLC0415 - not for --help

    name = "standard output" if _is_of_stdout(error) else redact(str(error.filename))
    return f"{name:.200}: {error.strerror}"


def _is_of_stdout(error: BaseException) -> bool:
    """Whether writing the answer failed: errors of files and of connections name what they are of."""
    return isinstance(error, OSError) and error.filename is None and not isinstance(error, ConnectionError)


def exit_code(error: BaseException) -> int:
    """Return the exit code that stands for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), 1)


def _cause(error: BaseException) -> BaseException:
    """Look through errors that only carry another."""
    if isinstance(error, UnusableEndpointError) and error.__cause__ is not None:
        return error.__cause__
    # A package that is missing is no fault of the store, and its message says all there is to say.
    if isinstance(error, errors.LessonStoreError) and isinstance(
        error.__cause__, base.MissingDependencyError
    ):
        return error.__cause__
    return error
