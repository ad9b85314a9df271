"""Genuine games from the shared data, and workers that several tests share."""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.alfworld.games import Game, load_games
from benchmarks.alfworld.pool import EnginePool

GENUINE = Path(__file__).parents[4] / "shared" / "data" / "alfworld" / "valid_seen_140.tar.xz"


@pytest.fixture(scope="session")
def genuine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ALFWorld's 140 games of valid_seen, unpacked."""
    if not GENUINE.is_file():
        pytest.skip(f"the genuine games are not there: {GENUINE}")
    folder = tmp_path_factory.mktemp("genuine")
    with tarfile.open(GENUINE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def genuine_games(genuine_folder: Path) -> list[Game]:
    return load_games(genuine_folder)


@pytest.fixture(scope="module")
async def pool(made_games: list[Game], anyio_backend: str) -> AsyncIterator[EnginePool]:
    """One worker for all tests of a module: to start takes it a second, to open a game again is quick.

    For modules whose ``anyio_backend`` has their scope and that run no event loop besides: one runs all their tests.
    """
    async with EnginePool(1) as pool:
        yield pool
