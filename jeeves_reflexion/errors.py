"""Every error that this package raises on purpose, as one tree.

::

    ReflexionError
      x  ConfigurationError        arguments, settings or files that can't work (also a ValueError)
         +  UnknownRequestError    a recording does not hold the request
      x  MissingDependencyError    an optional package is not installed; names the extra to install
      x  ModelError                a language model could not be asked
         +  ModelAuthError         the key is missing or was refused
         +  ModelTimeoutError      no answer in time
         +  ModelConnectionError   nothing listens there, or the connection broke
         +  ModelResponseError     the endpoint answered with something that is no completion
            +  ModelRequestError   it refused the request itself: no such model or setting
      x  UnreadableReplyError      a model's reply could not be read, also after asking once more
      x  ToolError                 a tool could not be called as asked
      x  BudgetExceededError       tokens, cost, attempts or time of the run are used up
      x  LessonStoreError          lessons could not be stored or recalled
         +  UnknownLessonError     there is no lesson of that id
         +  LessonRefusedError     a text was not let in as a lesson; it waits in quarantine for a person
         +  ReflectionFormError    a reflection lacks a field of its form, or fills it wrongly
         +  MarkdownError          a reflection's file can't be read
         +  ReflectionOwedError    an agent owes a reflection, and may not go on without it
      x  SandboxError              code could not be run in the sandbox, or failed there
         +  SandboxUnavailableError  this machine lacks the isolation or the runtime; says what to do
         +  CodeError              the code itself failed: what it raised and at which line
         +  CodeLimitError         the code hit a limit: time, memory, output, files or processes
      x  ExperimentError           an experiment can't go on, or its log can't be written
      x  SessionError              the run's own records are used in a way that can't be right

The stores of :mod:`vectorstores` have a tree of their own, ``VectorStoreError``; what reaches a user of lessons
is wrapped in :class:`LessonStoreError` with the store's error as its cause.
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

    ``handed_on`` says that a part of its streamed answer was told before, so that nobody asks again on their own.
    """

    handed_on = False


class ModelAuthError(ModelError):
    """The key is missing or the endpoint refused it."""


class ModelTimeoutError(ModelError):
    """The endpoint gave no answer in time."""


class ModelConnectionError(ModelError):
    """Nothing listens at the address, or the connection broke."""


class ModelResponseError(ModelError):
    """The endpoint answered with something that is no completion.

    ``status`` is the HTTP status, if any; ``said`` is what the endpoint said, cut and without secrets, and ``code`` the
    word that it has for the error, such as ``content_filter``, if any.
    """

    def __init__(self, message: str, *, status: int | None = None, said: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = said
        self.code = code


class ModelRequestError(ModelResponseError):
    """The endpoint refused the request itself: it has no such model, address or setting. Asking again won't help."""


class UnreadableReplyError(ReflexionError):
    """A model's reply could not be read, also after it was asked once more with the problem shown."""


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
    """There is no lesson of that id, or no longer."""


class LessonRefusedError(LessonStoreError):
    """A text was not let in as a lesson, because it gives orders; it is kept apart under ``lesson_id``."""

    def __init__(self, message: str, lesson_id: str) -> None:
        super().__init__(message)
        self.lesson_id = lesson_id


class SandboxError(ReflexionError):
    """Code could not be run in the sandbox, or failed there; this process is untouched by it."""


class SandboxUnavailableError(SandboxError):
    """Isolation or a runtime that the code needs is missing on this machine; the message says what to do."""


class CodeError(SandboxError):
    """The code failed.

    ``type`` is the name of what it raised, ``line`` the line of the code as it was given (from 1, ``None`` when
    unknown), ``traceback`` the end of its traceback, ``stdout`` and ``stderr`` what it had printed. All of them come
    from the code: they are data, not instructions.
    """

    def __init__(self, message: str, *, type: str = "", line: int | None = None, traceback: str = "") -> None:  # noqa: A002
        super().__init__(message)
        self.type = type
        self.line = line
        self.traceback = traceback
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
    """An experiment can't go on, or its log can't be written; what was tried before is kept."""


class SessionError(ReflexionError):
    """The run's own records are used in a way that can't be right."""


HOPELESS = (
    BudgetExceededError,
    ConfigurationError,
    MissingDependencyError,
    ModelAuthError,
    ModelRequestError,
    SandboxUnavailableError,
)
"""What no further attempt of a run would mend."""


def hopeless(error: Exception) -> Exception | None:
    """Return the first error that no retry would mend, of this one or within its groups; None where there is none."""
    found = error.subgroup(HOPELESS) if isinstance(error, ExceptionGroup) else error
    return first_of(found) if isinstance(found, (*HOPELESS, ExceptionGroup)) else None


def first_of(error: Exception) -> Exception:
    """Return the first error within a group of errors, however deep; any other error as it is."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


_PROGRAMMING = (TypeError, AttributeError, NameError, ImportError, NotImplementedError)


def programming_error(error: Exception) -> Exception | None:
    """Return the mistake of a programmer that an exception is, or that a group holds; None where there is none.

    A wrong value may come from a model and go away with the next answer, so ``ValueError``, ``KeyError``,
    ``IndexError`` and ``SyntaxError`` are none.
    """
    if isinstance(error, ExceptionGroup):
        return next(filter(None, map(programming_error, error.exceptions)), None)
    return error if isinstance(error, _PROGRAMMING) and not isinstance(error, ReflexionError) else None


def described(error: BaseException) -> str:
    """Return an exception's class and text, if it has one, also where its ``str()`` raises."""
    try:
        text = str(error)
    except Exception as second:  # noqa: BLE001 - a class of the user's own
        text = f"(its text can't be read: {type(second).__name__})"
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # What can't be written down, such as half of a character of two, is shown as its code.
    return said.encode("utf-8", "backslashreplace").decode()
