"""Keeps standard output for what a command itself has to say."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_OUT, _ERR = 1, 2


@contextlib.contextmanager
def prints_go_to_stderr() -> Iterator[None]:
    """Send what a user's code prints within the block to standard error, and what processes print that it starts.

    So ``--json`` stays one JSON object whatever an agent prints. For the whole process: threads that outlive the block
    print to standard output again.
    """
    sys.stdout.flush()
    with contextlib.redirect_stdout(sys.stderr), _descriptor():
        yield


@contextlib.contextmanager
def _descriptor() -> Iterator[None]:
    try:
        kept = os.dup(_OUT)
        os.dup2(_ERR, _OUT)
    except OSError:  # a process without one of them has nothing to keep clear
        yield
        return
    try:
        yield
    finally:
        os.dup2(kept, _OUT)
        os.close(kept)
