"""What the tests of all benchmarks share: games that are made once, and a model behind an endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import filelock
import pytest
from chat_server import chat_server

from benchmarks.alfworld.games import Game
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.requirements import require_engine
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError

MADE = 7  # the fewest that have all six kinds


@pytest.fixture
def anyio_backend() -> str:
    """Benchmarks are commands, which run on asyncio; what they are made of has tests of its own on both."""
    return "asyncio"


@pytest.fixture(scope="session")
def engine() -> None:
    """Skip unless the engine can run here."""
    try:
        require_engine()
    except (ConfigurationError, MissingDependencyError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def made_folder(engine: None, folder_of_all_workers: Path) -> Path:
    """The folder of :func:`made_games`; only for reading."""
    return folder_of_all_workers / "made-games"


@pytest.fixture(scope="session")
def made_games(made_folder: Path) -> list[Game]:
    """Made games of all six kinds, in the order of their numbers."""

    async def make() -> list[Game]:
        return await generate_games(made_folder, count=MADE, seed=0)

    with filelock.FileLock(made_folder.with_suffix(".lock"), timeout=150):
        return anyio.run(make)


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[str]]]:
    """A server that speaks the OpenAI chat protocol, and the systems prompts that it was asked with."""
    asked: list[str] = []

    def reply(body: dict[str, Any]) -> str:
        asked.append(body["messages"][0]["content"])
        return _said(asked[-1])

    with chat_server(reply) as url:
        yield url, asked


def _said(system: str) -> str:
    if "You write lessons" in system or "who learns from failed tests" in system:
        return f"Read the question once more, for the {len(system)}th time."
    if "Python functions" in system:
        return "```python\ndef add1(x):\n    return x + 1\n```"
    return "Action: Finish[Bram Holt]"
