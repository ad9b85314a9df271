"""Optional packages: whether they are installed, and a warning about what happens without them."""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache


def installed(*packages: str) -> bool:
    """Whether these packages can be imported. Loads none of them."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


_GIVEN: dict[str | tuple[str, type[Warning], int], int] = {}


@cache
def warn_once(message: str) -> None:
    """Issue a ``UserWarning``, once in this process."""
    # Stores open in a worker thread, where the stack does not show the caller's line; a line of ours would not help.
    warnings.warn_explicit(message, UserWarning, "vectorstores", 1, registry=_GIVEN)
