"""Games to play: genuine ones from the shared data, and a few made once for the whole run."""

from __future__ import annotations

import tarfile
from pathlib import Path

import anyio
import pytest

from benchmarks.alfworld.games import Game, load_games
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.requirements import require_engine
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError

GENUINE = Path(__file__).parents[4] / "shared" / "data" / "alfworld" / "valid_seen_140.tar.xz"
MADE = 7  # the fewest that have all six kinds


@pytest.fixture(scope="session")
def engine() -> None:
    """Skip unless the engine can run here."""
    try:
        require_engine()
    except (ConfigurationError, MissingDependencyError) as error:
        pytest.skip(str(error))


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


@pytest.fixture(scope="session")
def made_folder(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture(scope="session")
def made_games(made_folder: Path) -> list[Game]:
    """Made games of all six kinds, in the order of their numbers."""

    async def make() -> list[Game]:
        return await generate_games(made_folder, count=MADE, seed=0)

    return anyio.run(make)
