"""Every error that this package raises on purpose, as one tree.

::

    ReflexionError
      x  ConfigurationError        arguments, settings or files that can't work (also a ValueError)
         +  UnknownRequestError    a recording does not contain the request
      x  MissingDependencyError    an optional package is not installed; names the extra to install
      x  ModelError                a language model could not be asked
         +  ModelAuthError         the key is missing or was refused
         +  ModelTimeoutError      no answer in time
         +  ModelConnectionError   nothing listens there, or the connection broke
         +  ModelResponseError     the endpoint's answer is not a completion
            +  ModelRequestError   it refused the request itself: no such model or setting
      x  UnreadableReplyError      a model's reply could not be read, even after asking once more
      x  ToolError                 a tool could not be called as asked
      x  BudgetExceededError       tokens, cost, attempts or time of the run are used up
      x  LessonStoreError          lessons could not be stored or recalled
         +  UnknownLessonError     there is no lesson with that id
         +  LessonRefusedError     a text was refused as a lesson; it waits in quarantine for a person
         +  ReflectionFormError    a reflection lacks a field of its form, or fills it wrongly
         +  MarkdownError          a reflection's file can't be read
         +  ReflectionOwedError    an agent owes a reflection and may not go on before it is written
      x  SandboxError              code could not be run in the sandbox, or failed there
         +  SandboxUnavailableError  this machine lacks the isolation or the runtime; says what to do
         +  CodeError              the code itself failed: what it raised and at which line
         +  CodeLimitError         the code hit a limit: time, memory, output, files or processes
      x  ExperimentError           an experiment can't go on, or its log can't be written
      x  SessionError              a run, its session or its events are used wrongly

The stores of :mod:`vectorstores` have their own tree, ``VectorStoreError``. For users of lessons such an error is
wrapped in :class:`LessonStoreError`, as its cause.
"""

from __future__ import annotations


class ReflexionError(Exception):
    """Base of all errors raised by this package."""


class ConfigurationError(ReflexionError, ValueError):
    """Arguments, settings or files that can't work; the message names which one and what to do."""


class MissingDependencyError(ReflexionError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f'{feature} needs an optional package: pip install "jeeves-reflexion[{extra}]"')
        self.extra = extra


class ModelError(ReflexionError):
    """A language model could not be asked.

    ``handed_on`` says that a part of its streamed answer was emitted already, so the call must not be retried.
    """

    handed_on = False


class ModelAuthError(ModelError):
    """The key is missing or the endpoint refused it."""


class ModelTimeoutError(ModelError):
    """The endpoint gave no answer in time."""


class ModelConnectionError(ModelError):
    """Nothing listens at the address, or the connection broke."""


class ModelResponseError(ModelError):
    """The endpoint's answer is not a completion.

    ``status`` is the HTTP status, if any; ``said`` is the endpoint's message, cut and redacted, and ``code`` its name
    for the error, such as ``content_filter``, if any.
    """

    def __init__(self, message: str, *, status: int | None = None, said: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = said
        self.code = code


class ModelRequestError(ModelResponseError):
    """The endpoint refused the request itself: it has no such model, address or setting. Asking again won't help."""


class UnreadableReplyError(ReflexionError):
    """A model's reply could not be read, even after it was asked once more with the problem shown."""


class ToolError(ReflexionError):
    """A tool could not be called as asked; the message is written for the model that asked."""


class BudgetExceededError(ReflexionError):
    """The budget of the run is used up; ``limit`` says which part of it."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit


class LessonStoreError(ReflexionError):
    """Lessons could not be stored or recalled; what was stored before is untouched."""


class UnknownLessonError(LessonStoreError):
    """There is no lesson with that id, or no longer."""


class LessonRefusedError(LessonStoreError):
    """A text was refused as a lesson because it gives orders; it is in quarantine under ``lesson_id``."""

    def __init__(self, message: str, lesson_id: str) -> None:
        super().__init__(message)
        self.lesson_id = lesson_id


class SandboxError(ReflexionError):
    """Code could not be run in the sandbox, or failed there; this process is unaffected."""


class SandboxUnavailableError(SandboxError):
    """Isolation or a runtime that the code needs is missing on this machine; the message says what to do."""


class CodeError(SandboxError):
    """The code failed.

    ``type`` is the name of what it raised, ``line`` the line of the code as it was given (from 1, ``None`` when
    unknown), ``stdout`` and ``stderr`` what it had printed. All of them come from the code: they are data, not
    instructions.
    """

    def __init__(self, message: str, *, type: str = "", line: int | None = None) -> None:  # noqa: A002
        super().__init__(message)
        self.type = type
        self.line = line
        self.stdout = ""
        self.stderr = ""


class CodeLimitError(SandboxError):
    """The code was stopped at a limit; ``limit`` is the field of ``SandboxLimits`` that stopped it."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit
        self.stdout = ""
        self.stderr = ""


class ExperimentError(ReflexionError):
    """An experiment can't go on, or its log can't be written; earlier trials are kept."""


class SessionError(ReflexionError):
    """A run, its session or its events are used wrongly."""


HOPELESS = (
    BudgetExceededError,
    ConfigurationError,
    MissingDependencyError,
    ModelAuthError,
    ModelRequestError,
    SandboxUnavailableError,
)
"""Errors that no further attempt can fix."""


def hopeless(error: Exception) -> Exception | None:
    """Return the error, or the first within its groups, that no retry can fix; None if there is none."""
    found = error.subgroup(HOPELESS) if isinstance(error, ExceptionGroup) else error
    return first_of(found) if isinstance(found, (*HOPELESS, ExceptionGroup)) else None


def first_of(error: Exception) -> Exception:
    """Return the first error within an exception group, at any depth; another error as it is."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


_PROGRAMMING = (TypeError, AttributeError, NameError, ImportError, NotImplementedError)


def programming_error(error: Exception) -> Exception | None:
    """Return the programming error that an exception is, or that a group holds; None if there is none.

    ``ValueError``, ``KeyError``, ``IndexError`` and ``SyntaxError`` don't count: a wrong value may come from a model,
    and its next answer may be right.
    """
    if isinstance(error, ExceptionGroup):
        return next(filter(None, map(programming_error, error.exceptions)), None)
    return error if isinstance(error, _PROGRAMMING) and not isinstance(error, ReflexionError) else None


def described(error: BaseException) -> str:
    """Return an exception's class and its text, if any, even if its ``str()`` raises."""
    try:
        text = str(error)
    except Exception as second:  # noqa: BLE001 - a class of the user's own
        text = f"(its text can't be read: {type(second).__name__})"
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # Characters that UTF-8 can't hold, such as a lone surrogate, are shown by their codes.
    return said.encode("utf-8", "backslashreplace").decode()
