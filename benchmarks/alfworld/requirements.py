"""Checks, before anything is started, whether everything is installed that games need."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError

_FIRST_UNSUPPORTED_PYTHON = (3, 13)


def require_engine(*, python: tuple[int, int] | None = None) -> None:
    """Raise unless the engine can run in this interpreter, or in one of version ``python``.

    Raises :class:`~jeeves_reflexion.errors.ConfigurationError` on Python 3.13 and later, and
    :class:`~jeeves_reflexion.errors.MissingDependencyError` without TextWorld and its PDDL planner.
    """
    version = python or (sys.version_info.major, sys.version_info.minor)
    if version >= _FIRST_UNSUPPORTED_PYTHON:
        # textworld's EvalSymbol.derive updates locals() before eval(), which has no effect since PEP 667.
        raise ConfigurationError(
            f"ALFWorld's engine (textworld 1.7) does not work on Python {version[0]}.{version[1]}; "
            "run this benchmark with Python 3.11 or 3.12"
        )
    for module in ("textworld", "fast_downward", "tatsu"):
        if importlib.util.find_spec(module) is None:
            raise MissingDependencyError("ALFWorld's engine", "alfworld")


def alfworld_files() -> Path:
    """Return the folder of the installed ``alfworld`` package.

    The package is located but not imported, because importing it creates a cache folder in the user's home.
    Raises :class:`~jeeves_reflexion.errors.MissingDependencyError` if it is not installed.
    """
    spec = importlib.util.find_spec("alfworld")
    if spec is None or spec.origin is None:
        raise MissingDependencyError("Making ALFWorld games", "alfworld")
    return Path(spec.origin).parent
