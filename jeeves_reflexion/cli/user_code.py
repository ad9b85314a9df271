"""The user's own code: loaded by name, with its prints sent to standard error."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jeeves_reflexion.adapters import adapter_of
from jeeves_reflexion.errors import ConfigurationError, programming_error
from jeeves_reflexion.redaction import redact

_OUT, _ERR = 1, 2


def load(option: str, name: str) -> Any:  # noqa: ANN401 - whatever a user wrote
    """Import ``module:name``, the value of an option; modules of the working directory are found too.

    Raises :class:`ConfigurationError` if it can't be imported or used, with the module's own error.
    """
    module_name, colon, attribute = name.partition(":")
    if not (colon and module_name and attribute):
        words = {"--evaluator": "exact, judge or ", "--scorer": "exact or "}.get(option, "")
        raise ConfigurationError(
            f"{option} {name!r}: it must be {words}MODULE:NAME, such as my_agent:answer for a function in my_agent.py"
        )
    if module_name.endswith(".py"):
        raise ConfigurationError(
            f"{option} {name!r}: name the module, not its file: {module_name.removesuffix('.py')}:{attribute}"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ConfigurationError(
            f"{option} {name} can't be loaded: {type(error).__name__}: {error}"
        ) from error
    if option == "--agent" and (adapted := adapter_of(found)) is not None:
        return adapted
    if inspect.isclass(found):
        raise ConfigurationError(f"{option} {name} is a class: name an instance or a function")
    if not callable(found):
        raise ConfigurationError(f"{option} {name} is a {type(found).__name__}, which can't be called")
    return found


@contextlib.contextmanager
def of_user(*names: str | None) -> Iterator[None]:
    """Run the user's code, given as ``module:name``, within the block.

    Its prints go to standard error. A programming error in it becomes a :class:`ConfigurationError` that names the
    line, and so does ``SystemExit``, whose code would look like the command's.
    """
    modules = {name.partition(":")[0].partition(".")[0] for name in names if name}
    try:
        with prints_go_to_stderr():
            yield
    except (Exception, SystemExit) as error:
        bug = error if isinstance(error, SystemExit) else programming_error(error)
        for frame, line in reversed(list(traceback.walk_tb(bug.__traceback__ if bug else None))):
            if str(frame.f_globals.get("__name__")).partition(".")[0] in modules:
                place = f"{Path(frame.f_code.co_filename).name}, line {line}, in {frame.f_code.co_name}"
                told = redact(f"{type(bug).__name__}: {bug}")
                raise ConfigurationError(f"{place}: {told} (--debug shows more)") from error
        raise


@contextlib.contextmanager
def prints_go_to_stderr() -> Iterator[None]:
    """Send all prints within the block to standard error, those of child processes too.

    So ``--json`` stays one JSON object whatever an agent prints. This holds for the whole process: threads that outlive
    the block print to standard output again.
    """
    sys.stdout.flush()
    kept = None
    with contextlib.suppress(OSError):  # a process may have closed one of them
        kept = os.dup(_OUT)
        os.dup2(_ERR, _OUT)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, _OUT)
            os.close(kept)
