"""Packages that are optional: whether they are there, and one warning of what is done without them."""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache


def installed(*packages: str) -> bool:
    """Whether these packages can be imported; loads none of them."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


_GIVEN: dict[str | tuple[str, type[Warning], int], int] = {}


@cache
def warn_once(message: str) -> None:
    """Give a ``UserWarning``, once in this process."""
    # What opens a store runs in a thread of its own, from which no line of the caller can be named, nor is one of ours
    # of use to a reader.
    warnings.warn_explicit(message, UserWarning, "vectorstores", 1, registry=_GIVEN)
