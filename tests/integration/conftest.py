"""Processes that tests start, of which none is left."""

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Start = Callable[..., subprocess.Popen]


@contextmanager
def starting() -> Iterator[Start]:
    """Give a function that starts a script in a process, after ``prefix``; kill what still runs at the end."""
    started: list[subprocess.Popen] = []

    def start(script: str, *arguments: object, prefix: tuple[str, ...] = ()) -> subprocess.Popen:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.fixture
def start() -> Iterator[Start]:
    with starting() as begin:
        yield begin


@pytest.fixture(scope="module")
def start_for_all() -> Iterator[Start]:
    with starting() as begin:
        yield begin
