"""What the tests of all benchmarks share: games that are made once for the whole run."""

from __future__ import annotations

from pathlib import Path

import anyio
import filelock
import pytest

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
